"""Counters: what each one reads, why one cannot be used, and what a count is made of."""

from __future__ import annotations

import ctypes
import errno
import mmap
import platform
import statistics
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from mlxcache.counters import counted
from mlxcache.counters.apple import SIZE, WORDS, instructions_in
from mlxcache.counters.asv_suite import (
    count_entry,
    count_name,
    count_pattern,
    counter_label,
    counter_of,
    timed_name,
)
from mlxcache.counters.choosing import COUNTERS, NoCounterError, choose, named, series_name
from mlxcache.counters.counter import CountError
from mlxcache.counters.counting import count_call, what_was_said
from mlxcache.counters.instruction_set import name_of
from mlxcache.counters.kernel import attributes, count_of, why
from mlxcache.counters.sampling import SAMPLES, grouped, sample


def _valgrind() -> Any:
    counter = named("valgrind")
    if counter.problem():
        pytest.skip(counter.problem())
    return counter


class _Played:
    """A reader whose clock is moved by what is called."""

    def __init__(self) -> None:
        self.total = 0
        self.begun = False

    def begin(self) -> None:
        self.begun = True

    def __call__(self) -> int:
        self.total += 7  # what a reading costs
        return self.total


def test_macos_count_is_the_header_s_word() -> None:
    """The instructions are the 30th word after the UUID of a rusage_info_v4 of 296 bytes."""
    assert SIZE == 296
    data = bytes(16) + struct.pack("<35Q", *range(1, 36))
    assert instructions_in(data) == 30
    assert WORDS[30] == "cycles"


@pytest.mark.parametrize("data", [bytes(SIZE), b"short"])
def test_macos_never_gives_a_zero(data: bytes) -> None:
    """A machine that counts none, or another structure, is an error."""
    with pytest.raises(CountError, match="rusage"):
        instructions_in(data)


def test_kernel_attributes_have_the_first_version_s_size() -> None:
    """perf_event_attr is 64 bytes, counts instructions, user space only, threads started later included."""
    data = attributes()
    assert len(data) == 64
    assert struct.unpack_from("<IIQ", data) == (0, 64, 1)
    flags = struct.unpack_from("<Q", data, 40)[0]
    assert flags & 1 << 1
    assert flags & 1 << 5


def test_kernel_refuses_an_estimate() -> None:
    """A counter that was shared with others counted a part of the time only."""
    assert count_of(struct.pack("<QQQ", 5, 100, 100)) == 5
    with pytest.raises(CountError, match="others use it"):
        count_of(struct.pack("<QQQ", 5, 100, 50))


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.EACCES, "perf_event_paranoid is 3"), (errno.ENOENT, "virtual"), (errno.ENOSYS, "no perf_event_open")],
)
def test_kernel_says_why_not(number: int, words: str) -> None:
    """Each error names its reason and what to do."""
    assert words in why(number, "3")


@pytest.mark.parametrize(
    ("machine", "flags", "simulated", "name"),
    [
        ("x86_64", "avx avx2 avx512f", False, "x86_64.avx512"),
        ("x86_64", "avx avx2 avx512f", True, "x86_64.avx2"),
        ("x86_64", "sse2", True, "x86_64"),
        ("aarch64", "fp asimd sve", False, "aarch64.sve"),
        ("arm64", "", False, "aarch64"),
    ],
)
def test_instruction_sets_have_names_of_their_own(machine: str, flags: str, simulated: bool, name: str) -> None:
    """Counts of two sets never share a series; valgrind plays nothing newer than AVX2."""
    assert name_of(machine, f"flags\t\t: {flags}\n", simulated) == name


def test_counters_make_series_of_their_own() -> None:
    """Every counter's name is in the series', without the hyphen that separates an environment's parts."""
    names = [series_name(counter) for counter in COUNTERS]
    assert len(set(names)) == len(names)
    assert not any("-" in name for name in names)
    assert [counter_of({"MLXCACHE_COUNTER": name}) for name in names] == list(COUNTERS)
    assert counter_label(f"virtualenv-py3.11-MLXCACHE_COUNTER{names[0]}-X1") == names[0]
    assert counter_label("virtualenv-py3.11") == ""


def test_no_counter_is_said_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where valgrind is missing the message says so and what to install; a wrong name is an error."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NoCounterError, match="valgrind"):
        choose("valgrind")
    with pytest.raises(ValueError, match="expected one of valgrind"):
        choose("abacus")


def test_names_of_counts() -> None:
    """A time_ benchmark has one count, which leads back to it; others have none."""
    assert count_name("decode.Decode.time_step") == "decode.Decode.count_step"
    assert timed_name("decode.Decode.count_step-3") == "decode.Decode.time_step-3"
    assert count_name("decode.timeraw_import") == ""
    assert count_name("decode.track_size") == timed_name("decode.track_size") == ""
    assert count_pattern(r"decode\.Decode\.time_step\(.int32") == r"decode\.Decode\.count_step\(.int32"
    assert count_pattern("runtime_x") == "runtime_x"


def test_a_count_s_entry_keeps_what_asv_needs() -> None:
    """Parameters and setup_cache stay, the unit is instructions, and its version is not the time's."""
    entry = {"name": "a.time_b", "type": "time", "params": [["1"]], "version": "1", "timeout": 60, "number": 1}
    count = count_entry(entry)
    assert count is not None
    assert (count["name"], count["unit"], count["params"]) == ("a.count_b", "instructions", [["1"]])
    assert count["version"] != "1"
    assert count["timeout"] > 60
    assert count_entry({**entry, "name": "a.track_b", "type": "track"}) is None


def test_samples_leave_out_what_reading_costs() -> None:
    """The cost of a reading and of setup is taken off; what is left is what the call itself made."""
    reader = _Played()

    def call() -> None:
        reader.total += 2_000_000

    found = sample(call, reader, lambda: None, repeatable=False)
    assert reader.begun
    assert set(found["samples"]) == {2_000_000.0}
    assert found["number"] == 1


def test_a_short_call_is_repeated() -> None:
    """Where calls may follow each other, a reading holds at least a million instructions."""
    reader = _Played()

    def call() -> None:
        reader.total += 1000

    assert sample(call, reader, lambda: None, repeatable=True)["number"] >= 900
    assert sample(call, reader, lambda: None, repeatable=False)["number"] == 1


def test_a_count_of_nothing_is_an_error() -> None:
    """A call that executed nothing was not counted."""
    with pytest.raises(CountError, match="more than none"):
        sample(lambda: None, _Played(), lambda: None, repeatable=False)


def test_what_valgrind_did_not_know_is_kept(tmp_path: Path) -> None:
    """The usual lines go, an instruction that valgrind does not know stays."""
    (tmp_path / "said.1").write_text("==1== Command: python\n==1== brk segment overflow\nvex: unhandled 0xFF\n")
    assert what_was_said(tmp_path) == "vex: unhandled 0xFF"


def busy(passes: int) -> int:
    """Something to count, in integers that Python keeps."""
    value = 0 if passes >= 0 else [][passes]
    for _ in range(passes):
        value = (value * 5 + 1) & 63
    return value


def test_valgrind_counts_a_function_for_real() -> None:
    """Twice the work is about twice the count."""
    counter = _valgrind()
    one, two = (
        statistics.median(count_call(counter, __name__, "busy", [passes])["samples"]) for passes in (4000, 8000)
    )
    assert 1.9 < two / one < 2.1


def test_a_child_that_dies_says_what_happened() -> None:
    """The process's own output is in the error."""
    with pytest.raises(CountError, match="IndexError"):
        count_call(_valgrind(), __name__, "busy", [-1])


def unknown_instruction() -> None:
    """What no valgrind of today plays: an addition of 512 bits."""
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(bytes.fromhex("62f17c4858c0c3"))
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()


def forever() -> None:
    """Does not end."""
    while True:
        time.sleep(0.1)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instruction is x86-64's")
def test_an_instruction_that_valgrind_does_not_know_is_said() -> None:
    """The process dies of it; valgrind's own words are in the error."""
    with pytest.raises(CountError, match=r"(?s)status -?\d+.*unhandled instruction bytes"):
        count_call(_valgrind(), __name__, "unknown_instruction", [])


def test_a_time_limit_ends_a_count() -> None:
    """What takes too long is ended, and the error says how long it had."""
    with pytest.raises(CountError, match="not counted within 4 s"):
        count_call(_valgrind(), __name__, "forever", [], timeout=4)


def test_a_sample_is_a_lower_quartile_of_the_whole_run() -> None:
    """Calls to which threads added something, early or late, move no sample."""
    counts = [100.0 + 50.0 * (place in (3, 4, 5, 13, 20)) for place in range(24)]
    assert grouped([500.0, 500.0, *counts[2:]]) == [100.0] * SAMPLES
    assert grouped([7.0, 9.0]) == [7.0, 9.0]


def test_counted_wants_a_function_with_a_name() -> None:
    """What cannot be imported in another process is refused; what can gets the unit."""
    with pytest.raises(ValueError, match="top of a module"):
        counted(lambda: None)
    track = counted(busy)
    assert track.unit == "instructions"  # type: ignore[attr-defined]


def test_counted_skips_without_a_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    """No counter is a skip with the reason, never a zero."""
    monkeypatch.setattr("mlxcache.counters.tracked.choose", _none)
    with pytest.raises(Exception, match="nothing here") as caught:
        counted(busy)(1)
    assert isinstance(caught.value, NotImplementedError) or type(caught.value).__name__ == "SkipNotImplemented"


def _none(name: str | None) -> Any:
    raise NoCounterError("nothing here")
