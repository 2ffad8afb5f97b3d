"""Which architectures of the installed mlx-lm run on the two caches, and why the others are refused.

    python -m tools.model_table docs/models.md     # writes the table; a minute or two
    python -m tools.model_table --only llama gemma3_text

Each architecture that builds from a small configuration (`tools/small_models.py`) generates 200 tokens on mlx-lm's
own cache and on ours, after a prompt in chunks, far past every window. They must be the same, or
`make_prompt_cache` must refuse the model. Ends with 1 where one is neither.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import mlx.core as mx
import mlx_lm.models.cache as lm_cache
import numpy as np
from mlx_lm.generate import generate_step

from mlxcache.mlx_lm import config_for, make_prompt_cache
from mlxcache.support.atomic import write_atomically
from tools.small_models import VOCABULARY, architectures, build

PROMPT, CHUNK, TOKENS = 40, 12, 200
KINDS: tuple[Literal["sequence", "cell"], ...] = ("sequence", "cell")


class Row(NamedTuple):
    """One architecture: `outcome` is "runs", "refused", "not built" or "wrong"."""

    name: str
    outcome: str
    why: str


def _generated(model: Any, prompt_cache: Any, count: int) -> list[int]:
    prompt = mx.array(np.random.default_rng(0).integers(0, VOCABULARY, PROMPT))
    steps = generate_step(prompt, model, max_tokens=count, prompt_cache=prompt_cache, prefill_step_size=CHUNK)
    return [int(token) for token, _ in steps]


def judged(name: str, tokens: int = TOKENS) -> Row:
    """Build the architecture and run it on its own cache and both of ours."""
    try:
        model = build(name)
        own = lm_cache.make_prompt_cache(model)
        kinds = sorted({type(cache).__name__ for cache in own})
        expected = _generated(model, own, tokens)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a module of mlx-lm raises is its reason
        return Row(name, "not built", _short(error))
    try:
        config = config_for(model, PROMPT + tokens + 1, prefill_step_size=CHUNK)
    except ValueError as error:
        return Row(name, "refused", _short(error))
    for kind in KINDS:
        try:
            got = _generated(model, make_prompt_cache(model, kind, config), tokens)
        except Exception as error:  # noqa: BLE001 - a model that fails half way is what this looks for
            return Row(name, "wrong", f"{kind}: {type(error).__name__}: {_short(error)}")
        if got != expected:
            first = next(i for i, (one, other) in enumerate(zip(got, expected, strict=True)) if one != other)
            return Row(name, "wrong", f"{kind}: another token at {first}")
    return Row(name, "runs", ", ".join(kinds))


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def as_markdown(rows: Sequence[Row]) -> str:
    """The page."""
    of = {what: [row for row in rows if row.outcome == what] for what in ("runs", "refused", "wrong", "not built")}
    lines = [
        "# Models of mlx-lm",
        "",
        f"mlx-lm {version('mlx-lm')}, written by `python -m tools.model_table docs/models.md`. Every architecture",
        f"is built small, with random weights, and generates {TOKENS} tokens after a prompt of {PROMPT} in chunks",
        f"of {CHUNK}, past every window, on its own cache and on both of ours (float32, CPU). The tokens are the",
        "same, or `make_prompt_cache` refuses the model. A test makes every row again.",
        "",
        f"## {len(of['runs'])} run, on the sequence cache and on the cell cache",
        "",
        "| architecture | mlx-lm's own caches |",
        "|---|---|",
        *(f"| {row.name} | {row.why} |" for row in of["runs"]),
        "",
        f"## {len(of['refused'])} are refused",
        "",
        "Layers that hold something other than keys and values of one width by position: a recurrent state, a",
        "compressed latent, chunks.",
        "",
        "| architecture | reason |",
        "|---|---|",
        *(f"| {row.name} | {row.why} |" for row in of["refused"]),
        "",
    ]
    if of["wrong"]:
        lines += ["## Wrong", "", *(f"- {row.name}: {row.why}" for row in of["wrong"]), ""]
    lines += [
        f"## {len(of['not built'])} are not tried",
        "",
        "They do not build here from a small configuration, or do not run without a GPU.",
        "",
        "| architecture | what it says |",
        "|---|---|",
        *(f"| {row.name} | {row.why} |" for row in of["not built"]),
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--only", nargs="+")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in options.only or architectures():
        rows.append(judged(name))
        print(*rows[-1], sep="\t", flush=True)
    if options.path is not None:
        write_atomically(options.path, as_markdown(rows).encode())
    return int(any(row.outcome == "wrong" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
