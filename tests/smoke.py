"""A step through an installed wheel, with nothing but its own dependencies: run by `.ci/run`, not by pytest."""

from __future__ import annotations

import sys
from importlib.metadata import requires
from pathlib import Path

import mlx.core as mx

import mlxcache
from mlxcache import CacheConfig, LayerConfig, LayerPolicy, make_cache, update_and_attend

layers = [LayerConfig(LayerPolicy.flat(), 2, 64), LayerConfig(LayerPolicy.ring(4), 2, 64)]
cache = make_cache("sequence", CacheConfig(capacity=64, n_layers=2, layers=layers, kv_dtype=mx.float16))
x = mx.random.normal((1, 2, 1, 64)).astype(mx.float16)
for step in range(20):
    dtype = mx.int32 if step % 2 else mx.int64
    for layer in range(2):
        out = update_and_attend(cache, layer, x, x, x, mx.array([step], dtype=dtype), 0.125)
        mx.eval(out)
assert mx.allclose(out, x, atol=1e-2).item(), "attention over equal values gives the value"

package = Path(mlxcache.__file__).parent
assert package.parent.name == "site-packages", f"the installed wheel is tested, not {package}"
assert (package / "py.typed").is_file()
assert [name for name in sys.modules if name.split(".")[0] in ("pandas", "asv", "matplotlib")] == []
base = [need for need in requires("mlxcache") or [] if "extra ==" not in need]
assert {need.split(" ")[0].split(">")[0].split("[")[0].split(";")[0] for need in base} == {"numpy"}, base
print(f"smoke: mlxcache {mlxcache.__version__} from the wheel, MLX {mx.__version__}, 20 steps of 2 layers: fine")
