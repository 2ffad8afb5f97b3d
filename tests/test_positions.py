"""Positions on the host: the dtype switch, aliasing, lifetime."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import mlx.core as mx
import numpy as np
import pytest

from mlxcache import host_positions


def _address(buffer: object) -> int:
    return int(np.asarray(buffer).__array_interface__["data"][0])


@pytest.mark.parametrize("count", [1, 16, 128, 2048, 16384])
def test_int32_is_read_from_the_arrays_own_buffer(count: int) -> None:
    """No copy at any length: the view and the array have one address."""
    position = mx.arange(count, dtype=mx.int32)
    mx.eval(position)
    view = host_positions(position)
    assert _address(view) == _address(memoryview(position))  # type: ignore[arg-type]
    assert list(view) == list(range(count))


def test_int64_is_narrowed_into_a_copy() -> None:
    """int64 becomes int32 in memory of its own, values kept, the extremes of int32 included."""
    values = [0, 5, 2**31 - 1, -(2**31), -1]
    position = mx.array(values, dtype=mx.int64)
    view = host_positions(position)
    assert (view.format, list(view)) == ("i", values)
    assert _address(view) != _address(memoryview(position))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**40, -(2**62)])
def test_int64_past_int32_is_refused_with_its_index(value: int) -> None:
    """Narrowing never wraps: the first value that does not fit is named."""
    with pytest.raises(ValueError, match=rf"position\[2\]: got {value}, expected a value that fits int32"):
        host_positions(mx.array([0, 1, value, 2**50], dtype=mx.int64))


@pytest.mark.parametrize(
    "dtype",
    [mx.bool_, mx.uint8, mx.int8, mx.int16, mx.uint16, mx.uint32, mx.uint64, mx.float16, mx.float32, mx.bfloat16],
)
def test_other_dtypes_are_refused_by_name(dtype: mx.Dtype) -> None:
    """Only int32 and int64 are positions; the error names what came."""
    with pytest.raises(ValueError, match=f"position: got dtype {dtype}"):
        host_positions(mx.zeros((3,), dtype))


@pytest.mark.parametrize("position", [[1, 2], np.arange(3), 5, None])
def test_only_mlx_arrays_are_taken(position: object) -> None:
    """Anything but an mx.array is refused by the name of its type."""
    with pytest.raises(ValueError, match=f"position: got {type(position).__name__}"):
        host_positions(position)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [mx.int32, mx.int64])
@pytest.mark.parametrize("shape", [(), (1, 4), (4, 1), (2, 2)])
def test_only_one_dimension_is_taken(dtype: mx.Dtype, shape: tuple[int, ...]) -> None:
    """A position array that is not 1-D is refused even when its size fits."""
    with pytest.raises(ValueError, match=r"position: got shape .*expected 1-D"):
        host_positions(mx.zeros(shape, dtype))


@pytest.mark.parametrize("dtype", [mx.int32, mx.int64])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("strided", lambda a: a[::3]),
        ("reversed", lambda a: a[::-1]),
        ("offset", lambda a: a[5:9]),
        ("broadcast", lambda a: mx.broadcast_to(a[7:8], (6,))),
        ("column", lambda a: a.reshape(6, 4)[:, 1]),
        ("lazy", lambda a: a + 1),
        ("empty", lambda a: a[:0]),
    ],
)
def test_every_layout_gives_the_right_positions(dtype: mx.Dtype, name: str, make) -> None:
    """A view that is not row-contiguous is copied, so a linear reader sees the values in order."""
    position = make(mx.arange(24, dtype=dtype))
    view = host_positions(position)
    assert view.c_contiguous
    assert view.tobytes() == np.array(position.tolist(), np.int32).tobytes()


def test_a_position_is_evaluated_once_for_all_layers() -> None:
    """After the first layer has read it, the array is evaluated and every layer sees the same memory."""
    position = mx.arange(8, dtype=mx.int32) + 3
    first = host_positions(position)
    assert _address(first) == _address(host_positions(position))


def test_the_view_outlives_mutation_and_deletion_of_the_callers_array() -> None:
    """Updating in place, assigning, deleting: the view keeps its values (the wrong design reads freed memory)."""
    script = """
        import gc
        import mlx.core as mx
        from mlxcache import host_positions

        expected = list(range(100_000))
        for change in ("add", "assign", "delete"):
            p = mx.arange(100_000, dtype=mx.int32)
            view = host_positions(p)
            if change == "add":
                p += 1
                mx.eval(p)
            elif change == "assign":
                p[0:50_000] = 7
                mx.eval(p)
            del p
            gc.collect()
            noise = [mx.full((100_000,), 9, dtype=mx.int32) for _ in range(20)]
            mx.eval(noise)
            assert view.tolist() == expected, change
        print("intact")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "intact"), done.stderr


def test_the_callers_array_is_left_alone() -> None:
    """Reading positions changes neither value nor dtype of what the caller holds."""
    position = mx.arange(5, dtype=mx.int64)
    host_positions(position)
    assert (position.tolist(), position.dtype) == ([0, 1, 2, 3, 4], mx.int64)


@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize("value", [-(2**31) - 1, 2**31, -(2**32), -(2**63), 2**63 - 1])
def test_the_first_integers_that_int32_cannot_hold_are_named(count: int, value: int) -> None:
    """Just below and above its range, and where the low bits alone look right; few and many are narrowed apart."""
    wide = np.arange(count, dtype=np.int64)
    wide[1] = value
    with pytest.raises(ValueError, match=rf"position\[1\]: got {value}, expected a value that fits int32"):
        host_positions(mx.array(wide))
    wide[1] = -(2**31)
    assert np.asarray(host_positions(mx.array(wide))).tolist() == wide.tolist()
