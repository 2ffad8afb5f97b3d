"""Quiet series: what is left out of the search is what the search would leave empty, also after a series grew."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from frames import history_frame, tables

from mlxcache.history import change_points
from mlxcache.history.changes import judging
from mlxcache.history.changes.certificate_store import CertificateStore
from mlxcache.history.changes.detectors import PeltDetector
from mlxcache.history.changes.quiet import Certificate, loud
from mlxcache.history.changes.segments import find_changes
from mlxcache.history.statistics.noise import FloatArray, middle_of_seven, short_term_sigma

DETECTOR = PeltDetector()


def some_series(n: int, seed: int) -> FloatArray:
    """Log values of one of five kinds: noise, two modes, repeats, outliers, or a step near the threshold."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 0.03, n)
    kind = seed % 5
    if kind == 1:
        x += 0.05 * (rng.random(n) < 0.5)
    elif kind == 2:
        x = np.round(x, 2)
    elif kind == 3:
        x += rng.standard_t(2, n) * 0.02
    elif kind == 4:
        x[n // 2 :] += rng.uniform(0, 0.06)
    return x


def test_only_what_the_detector_leaves_empty_is_quiet() -> None:
    """Any length, any noise: a series outside `loud` has no boundary, one inside the same in its pieces alone."""
    xs = [some_series(n, seed) for seed, n in enumerate([*range(1, 20), *range(20, 1400, 23)] * 3)]
    found = loud(xs, DETECTOR, {})
    assert 0 < len(found) < len(xs)
    for index, x in enumerate(xs):
        whole = DETECTOR.boundaries(x)
        assert whole == (DETECTOR.boundaries(x, found[index]) if index in found else [])
    empty = sum(not DETECTOR.boundaries(x) for x in xs)
    assert len(xs) - len(found) > 0.9 * empty  # hardly any is looked at in vain


def test_certificates_change_nothing_while_series_grow() -> None:
    """Value by value, what is loud with all the certificates so far is what is loud without any."""
    whole = [some_series(700, seed) for seed in range(40)]
    certificates: dict[bytes, Certificate] = {}
    added = 0
    for n in range(560, 700, 4):
        known = len(certificates)
        xs = [x[:n] for x in whole]
        assert loud(xs, DETECTOR, certificates) == loud(xs, DETECTOR, {})
        added += len(certificates) - known if n > 560 else 0
    assert added < 0.3 * 34 * len(whole)  # newest pieces are certified anew after 16 values


@pytest.mark.parametrize("step", [1, 3, 17, 40])
def test_newest_pieces_are_as_without_certificates(step: int) -> None:
    """However many values come at once, up to where a piece is full, and also where the newest ones are loud."""
    whole = [some_series(330, 1_000 + seed) for seed in range(60)]
    for x in whole[::3]:
        x[290:] += 0.05
    certificates: dict[bytes, Certificate] = {}
    for n in range(8 if step > 1 else 200, 330, step):
        xs = [x[:n] for x in whole]
        assert loud(xs, DETECTOR, certificates) == loud(xs, DETECTOR, {})
    assert any(certificate.excess > 0 for certificate in certificates.values())


def test_an_excess_grows_with_what_clipping_moves() -> None:
    """(sqrt(k p + e) + d)**2 is at most k (sqrt(p) + d)**2 and the excess given here."""
    certificate = Certificate(penalty=10.0, sigma=1.0, clipped=4, excess=2.0)
    moved = certificate.moved(1.05, 3.0)
    assert moved == pytest.approx(0.3)
    for k in range(1, 20):
        gain = (np.sqrt(10.0 * k + 2.0) + moved) ** 2
        assert gain <= k * (np.sqrt(10.0) + moved) ** 2 + certificate.excess_at(1.05, 3.0)
    assert certificate.excess_at(1.0, 3.0) == 2.0


def test_certificates_do_not_cover_louder_values_or_smaller_sigmas() -> None:
    """What is known of a quiet piece is worth nothing under a penalty below its own."""
    certificate = Certificate(penalty=10.0, sigma=1.0, clipped=4)
    assert certificate.covers(11.0, 1.0, 3.0)
    assert not certificate.covers(9.9, 1.0, 3.0)
    assert not certificate.covers(10.5, 1.05, 3.0)  # clipping moved by 0.3 in all: (sqrt(10) + 0.3)**2 = 12
    assert not certificate.covers(100.0, 0.89, 3.0)


def test_changes_are_the_same_with_and_without_screening() -> None:
    """`change_points` finds in a table what `find_changes` finds in each of its series."""
    values = [np.exp(some_series(300, seed)) for seed in range(40)]
    df = tables(*(history_frame(v, benchmark=f"b.time_{i:02}") for i, v in enumerate(values)))
    found = change_points(df, cache=False)
    expected = {(f"b.time_{i:02}", c.index) for i, v in enumerate(values) for c in find_changes(np.log(v))}
    assert set(zip(found["benchmark"], found["after_index"], strict=True)) == expected
    assert len(expected) > 3


def test_medians_are_those_of_sorting() -> None:
    """The network's middle of seven is the sorted middle, with repeats too."""
    x = np.round(np.random.default_rng(3).normal(size=500), 1)
    windows = np.lib.stride_tricks.sliding_window_view(x, 7)
    assert middle_of_seven(x).tolist() == np.sort(windows, axis=1)[:, 3].tolist()
    assert short_term_sigma(x[:7]) == 1.4826 * float(np.median(np.abs(np.diff(x[:7])))) / np.sqrt(2.0)


def quiet_table(n: int) -> pd.DataFrame:
    """Forty series of so many values."""
    series = [np.exp(some_series(600, 5 * seed)[:n]) for seed in range(40)]
    return tables(*(history_frame(v, benchmark=f"b.time_{i:02}") for i, v in enumerate(series)))


def test_the_store_outlives_the_process_and_is_used(
    own_cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settled pieces are searched once; a table that grew has the same changes as without any cache."""
    change_points(quiet_table(590))
    assert [path.name for path in own_cache_folder.iterdir()] == ["quiet-pieces.bin"]
    first = CertificateStore(own_cache_folder)
    assert len(first) > 60
    grown = change_points(quiet_table(600))
    pd.testing.assert_frame_equal(grown, change_points(quiet_table(600), cache=False))
    known = [certificate for key in first if (certificate := first.get(key)) is not None]
    covered = sum(c.covers(c.penalty * 1.01, c.sigma, 3.0) for c in known)
    assert covered == len(first)


def test_what_helpers_found_quiet_is_kept_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file holds the same certificates whoever searched, and they are used."""
    monkeypatch.setattr(judging, "_SCREENED", 7)
    stores = []
    for jobs in (1, 2):
        for n in (590, 600):
            folder = tmp_path / str(jobs)
            found = change_points(quiet_table(n), cache=folder, jobs=jobs)
            pd.testing.assert_frame_equal(found, change_points(quiet_table(n), cache=False, jobs=1))
        store = CertificateStore(folder)
        stores.append({key: store.get(key) for key in store})
    assert stores[0] == stores[1]
    assert len(stores[0]) > 60


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "foreign"])
def test_a_damaged_store_is_as_good_as_none(own_cache_folder: Path, damage: str) -> None:
    """It is made anew, and the changes are the same."""
    expected = change_points(quiet_table(600))
    path = own_cache_folder / "quiet-pieces.bin"
    good = path.read_bytes()
    bad = {"cut": good[:-7], "flipped": good[:90] + b"?" + good[91:], "emptied": b"", "foreign": b"x" * 4000}
    path.write_bytes(bad[damage])
    assert not CertificateStore(own_cache_folder)
    pd.testing.assert_frame_equal(change_points(quiet_table(600)), expected)
    assert len(CertificateStore(own_cache_folder)) == (len(good) - 40) // 48


def test_the_store_does_without_a_folder_that_can_be_written(tmp_path: Path) -> None:
    """A file where the folder should be: no cache, no error."""
    (tmp_path / "file").write_text("")
    assert change_points(quiet_table(400), cache=tmp_path / "file").empty


def _fill(folder: Path, first: int) -> None:
    store = CertificateStore(folder)
    for number in range(first, first + 500):
        store[number.to_bytes(16, "big")] = Certificate(1.0, 2.0, 3)
    store.save()


def test_stores_of_several_processes_at_once_leave_a_sound_file(tmp_path: Path) -> None:
    """Whoever writes last wins, and what is there is whole."""
    # Not forked: on a Mac that has opened Metal a fork may not go on.
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_fill, args=(tmp_path, 500 * k)) for k in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    found = CertificateStore(tmp_path)
    assert len(found) >= 500
    assert len(found) % 500 == 0
    assert set(map(found.get, found)) == {Certificate(1.0, 2.0, 3)}
    assert [path.name for path in tmp_path.iterdir()] == ["quiet-pieces.bin"]


def test_a_script_from_standard_input_may_use_several_processes() -> None:
    """Helpers import nothing of the script."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from frames import history_frame, levels\n"
        "from mlxcache.history import change_points\n"
        "df = history_frame(levels((40, 1.0), (30, 1.1)))\n"
        "print(change_points(df, jobs=2)['after_index'].tolist())\n"
    )
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-", str(here)],
        input=script,
        capture_output=True,
        text=True,
        check=False,
        cwd=here.parents[1],
    )
    assert done.stdout == "[40]\n", done.stderr
