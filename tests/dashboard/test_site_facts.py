"""Names, ratios, releases, drawings, files of values: what the site's pages are made from."""

from __future__ import annotations

import gzip
import io
import math
import random
import re
from pathlib import Path

import pandas as pd
import pytest

from mlxcache.dashboard.data import ratios
from mlxcache.dashboard.data.answer import answer
from mlxcache.dashboard.data.facts import gather
from mlxcache.dashboard.data.names import environment_names, machine_names, params_text
from mlxcache.dashboard.data.releases import compare_releases
from mlxcache.dashboard.data.suite import Rows
from mlxcache.dashboard.data.values import COLUMNS
from mlxcache.dashboard.drawings.chart import Chart, Point, Trace, draw
from mlxcache.dashboard.drawings.numbers import TIMES, log_ticks, spaced, ticks
from mlxcache.dashboard.pages.registry import PAGES
from mlxcache.dashboard.site import build_site
from tests.dashboard.site_trees import judged, write_benchmarks, write_file


@pytest.mark.parametrize(
    ("names", "text", "said"),
    [
        (("path", "head_dim"), "'int64', 64", "path=int64 head_dim=64"),
        (("a",), "'x, y'", "a=x, y"),
        (("shape", "kind"), "(3, [1, 2]), <class 'numpy.float64'>", "shape=(3, [1, 2]) kind=numpy.float64"),
        ((), "1, 2", "param1=1 param2=2"),
        (("n",), "", ""),
    ],
)
def test_parameters_are_shown_by_name(names: tuple[str, ...], text: str, said: str) -> None:
    """Commas in quotes and brackets belong to the value; parameters without names are called as asv calls them."""
    assert params_text(names, text) == said


def test_names_keep_what_differs() -> None:
    """Machines lose what all long ones share, environments are told by the versions that differ, none collide."""
    names = ["linux-x86_64-intel_xeon_model207-2c-cpu", "linux-x86_64-intel_xeon_model207-16c-h200"]
    assert list(machine_names(names, {}).values()) == ["2c-cpu", "16c-h200"]
    assert machine_names(names, {names[0]: "the Xeon"})[names[0]] == "the Xeon"
    assert machine_names(["a", "b"], {"a": "same", "b": "same"}) == {"a": "a", "b": "b"}
    packages = {"e1": {"mlx": "0.31.2", "numpy": "2"}, "e2": {"mlx": "0.32.4", "numpy": "2"}}
    assert environment_names(packages) == {"e1": "mlx 0.31.2", "e2": "mlx 0.32.4"}
    assert environment_names({"e1": {"mlx": "1"}, "e2": {"mlx": "1"}}) == {"e1": "e1", "e2": "e2"}


def _paths(root: Path, runs: int, noise: float, slow: float = 1.0) -> pd.DataFrame:
    """Both paths over so many commits; int64 takes `slow` times as long, each value differs by the noise."""
    spin = random.Random(5)
    params = {"decode.Decode.time_step": {"path": ["'int32'", "'int64'"], "context": ["128", "1024", "4096"]}}
    write_benchmarks(root, list(params), params)
    for number in range(runs):
        values = [1e-3 * f * math.exp(noise * spin.gauss(0, 1)) for f in (1, 1, 1, slow, slow, slow)]
        write_file(root, number, {"decode.Decode.time_step": values},
                   params={name: list(own.values()) for name, own in params.items()})  # fmt: skip
    return judged(root)[0]


@pytest.mark.parametrize(("noise", "slow", "differs"), [(0.15, 1.0, False), (0.01, 1.5, True)])
def test_a_ratio_is_sure_only_beyond_what_runs_differ_by(
    tmp_path: Path, noise: float, slow: float, differs: bool
) -> None:
    """A run's own interval of 2 % says nothing where runs differ by 15 %; a real difference is still seen."""
    df = _paths(tmp_path / "results", 8, noise, slow)
    (content,) = ratios.path_maps(Rows(df), "m1", "venv-py3.12", 7)
    assert all(cell.judged for cell in content.cells.values())
    assert {cell.differs for cell in content.cells.values()} == {differs}


def test_fewer_than_three_runs_judge_nothing(tmp_path: Path) -> None:
    """Ratios of two runs are shown without an interval, on the page too."""
    df = _paths(tmp_path / "results", 2, 0.0, 2.0)
    (content,) = ratios.path_maps(Rows(df), "m1", "venv-py3.12", 1)
    assert not any(cell.judged or cell.differs for cell in content.cells.values())
    build_site(*judged(tmp_path / "results"), tmp_path / "site")
    page = (tmp_path / "site" / "paths.html").read_text()
    assert "not judged" in page
    assert "▲" not in page


def test_the_question_of_the_project_is_answered_by_a_picture(tmp_path: Path) -> None:
    """int64 over int32 is drawn over context, with an interval at each point."""
    _paths(tmp_path / "results", 5, 0.01, 1.2)
    build_site(*judged(tmp_path / "results"), tmp_path / "site")
    page = (tmp_path / "site" / "paths.html").read_text()
    drawing = re.search(r'<svg class="plot".*?</svg>', page, re.S)
    assert drawing is not None
    assert drawing[0].count("<circle") == 3
    assert 'class="whisker' in drawing[0]
    for context in ("128", "1024", "4096"):
        assert f">{context}</text>" in drawing[0]


def test_counts_stand_beside_seconds(tmp_path: Path) -> None:
    """The page of int32 and int64 has the ratio of instructions too, and says what a count leaves out."""
    params = {
        "decode.Decode.time_step": {"path": ["'int32'", "'int64'"], "context": ["128", "1024"]},
        "decode.Decode.count_step": {"path": ["'int32'", "'int64'"]},
    }
    for counted in (False, True):
        root = tmp_path / f"results{counted}"
        own = {name: values for name, values in params.items() if counted or "count" not in name}
        write_benchmarks(root, list(own), own)
        values = {
            "decode.Decode.time_step": [1e-3, 1e-3, 2e-3, 2e-3],
            "decode.Decode.count_step": [1000.0, 1030.0],
        }
        lists = {name: list(named.values()) for name, named in own.items()}
        for number in range(3):
            write_file(root, number, {name: values[name] for name in own}, params=lists)
        build_site(*judged(root), tmp_path / f"site{counted}")
        page = (tmp_path / f"site{counted}" / "paths.html").read_text()
        assert ("Counted in instructions" in page) is counted
        assert ("1.030</strong>" in page) is counted


def test_releases_are_at_one_commit_and_name_what_else_differs(tmp_path: Path) -> None:
    """The newest commit with most releases is taken; a package that differs as well is named."""
    for number, version, value in [(1, "0.9", 2e-3), (1, "0.30", 1e-3), (5, "0.30", 1e-4)]:
        packages = {"pip+mlx": version, **({"pip+mlx-lm": "1.0"} if version == "0.30" else {})}
        write_file(tmp_path / "results", number, {"a.time_x": value}, env=f"mlx{version}", requirements=packages)
    df, changes = judged(tmp_path / "results")
    (found,) = [one for one in compare_releases(gather(df, changes)) if one.package == "mlx"]
    assert found.versions == ("0.9", "0.30")
    assert found.commit == 0
    assert [mean.ratio for mean in found.overall] == pytest.approx([1.0, 0.5])
    assert found.others == {"mlx-lm": ["none", "1.0"]}


def test_the_answer_speaks_for_what_can_show_a_change(tmp_path: Path) -> None:
    """Series with too few commits are counted apart, and the smallest change that would have been seen is said."""
    noise = random.Random(3)
    for number in range(20):
        values = {"a.time_x": 1e-3 * (1 + 0.01 * noise.gauss(0, 1))}
        if number > 17:
            values |= {f"b.time_{i}": 1e-3 for i in range(5)}
        write_file(tmp_path / "results", number, values)
    said = answer(gather(*judged(tmp_path / "results")))
    assert said.sentence == "Nothing is slower in the 1 series that can show it (one machine)."
    assert "5 series have too few commits" in said.detail
    assert re.search(r"A change of [1-6]\.?\d* % would have been seen", said.detail)
    assert [(entry.n_judged, entry.n_series) for entry in said.judged] == [(1, 6)]


def test_an_interval_that_holds_zero_is_no_headline(tmp_path: Path) -> None:
    """It is listed as perhaps, below the answer, and not counted in it."""
    for number in range(40):
        write_file(tmp_path / "results", number, {"a.time_x": 1e-3 * (1.3 if number >= 20 else 1)})
    df, changes = judged(tmp_path / "results")
    changes["ci95_low"] = -0.02
    said = answer(gather(df, changes))
    assert said.mood == "fine"
    assert "1 more may have changed or not" in said.detail
    build_site(df, changes, tmp_path / "site")
    assert "Perhaps slower" in (tmp_path / "site" / "index.html").read_text()


def test_one_commit_that_moved_many_is_one_row(tmp_path: Path) -> None:
    """Seven benchmarks slower at one commit are a line that unfolds, and a changed machine is thought of."""
    for number in range(40):
        step = 1.4 if number >= 20 else 1.0
        write_file(tmp_path / "results", number, {f"a.time_{i}": 1e-3 * (step if i else 1.0) for i in range(8)})
    build_site(*judged(tmp_path / "results"), tmp_path / "site")
    front = (tmp_path / "site" / "index.html").read_text()
    assert "7 of 8 benchmarks slower, median +40.0 %, m1" in front
    assert "Most of what this machine measures moved at once" in front
    assert front.count('<details class="since"') == 1


def test_all_values_are_in_one_file(tmp_path: Path) -> None:
    """A row a value with its columns described, parameters by name, the same in both formats, no formula."""
    params = {"a.time_x": {"n": ["1", "2"]}}
    write_benchmarks(tmp_path / "results", list(params), params)
    for number, version in enumerate(["1.0", "2.0"]):
        write_file(tmp_path / "results", number, {"a.time_x": [1e-3, 2e-3], "=cmd": 1.0}, env=f"e{version}",
                   requirements={"pip+mlx": version}, params={"a.time_x": [["1", "2"]]})  # fmt: skip
    site = tmp_path / "site"
    build_site(*judged(tmp_path / "results"), site)
    text = gzip.decompress((site / "values.csv.gz").read_bytes())
    table = pd.read_csv(io.BytesIO(text), dtype={"mlx": "str"}, keep_default_na=False)
    assert list(table.columns) == [*COLUMNS, "mlx"]
    assert len(table) == 6
    assert set(table["params"]) == {"n=1", "n=2", ""}
    assert set(table["mlx"]) == {"1.0", "2.0"}
    assert "'=cmd" in set(table["benchmark"])
    page = (site / "data.html").read_text()
    assert all(f"<code>{name}</code>" in page for name in table.columns)
    parquet = site / "values.parquet"
    if parquet.exists():  # where pyarrow is installed
        packed = pd.read_parquet(parquet)
        assert packed["value"].tolist() == pytest.approx(table["value"].tolist(), rel=1e-7)
        for name in ("ci99_low", "ci99_high"):
            distance, kept = table[name] - table["value"], packed[name] - packed["value"]
            assert kept.tolist() == pytest.approx(distance.tolist(), rel=0.01)


@pytest.mark.parametrize(
    ("low", "high", "unit", "labels"),
    [
        (1.03, 1.2, "ratio", [f"{TIMES}1.05", f"{TIMES}1.10", f"{TIMES}1.15", f"{TIMES}1.20"]),
        (0.0, 14.2, "seconds", ["0", "5", "10"]),
        (-2e-3, 2e-3, "seconds", ["-2", "-1", "0", "1", "2"]),
    ],
)
def test_ticks_have_the_digits_of_their_step(low: float, high: float, unit: str, labels: list[str]) -> None:
    """The unit follows the top of the axis; no label is rounded away from its place."""
    assert list(ticks(low, high, unit).labels) == labels
    assert all(low - 1e-9 <= place <= high + 1e-9 for place in ticks(low, high, unit).places)


def test_ticks_are_counted_from_the_newest() -> None:
    """The last commit always has one; a logarithmic axis has two at the least."""
    for n in range(1, 60):
        assert spaced(n, 8)[-1] == n - 1
        assert len(spaced(n, 8)) <= 8
    for high in (1.02, 1.3, 5.0, 1e6):
        assert len(log_ticks(1e-3, 1e-3 * high, "seconds").places) >= 2


@pytest.mark.parametrize(
    "values",
    [
        [5.0],
        [0.0] * 9,
        [-3.0, -1.0, -2.0],
        [1e-300, 1e300],
        [1.0, math.nan, 2.0],
        [float(i % 7) for i in range(10_000)],
    ],
    ids=["one", "zeros", "negative", "extreme", "gap", "ten thousand"],
)
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_any_series_is_drawn(values: list[float], scale: str) -> None:
    """One value, zeros, negatives, gaps, extremes and very long ones give finite coordinates and few bytes."""
    points = [Point(i, value) for i, value in enumerate(values)]
    drawn = str(draw(Chart("t", "seconds", [Trace(points)], [(0, "a")], y_scale=scale)))  # type: ignore[arg-type]
    assert "nan" not in drawn
    assert "inf" not in drawn
    assert len(drawn) < 400_000


def test_noise_is_no_cliff() -> None:
    """Values within one per cent fill a fifth of the height at most."""
    points = [Point(i, 1e-3 * (1 + 0.01 * (i % 2))) for i in range(20)]
    drawn = str(draw(Chart("t", "seconds", [Trace(points)], [(0, "a")], least=0.06)))
    heights = [float(y) for y in re.findall(r"translate\([\d.]+ ([\d.]+)\)", drawn)]
    assert max(heights) - min(heights) < 0.2 * 380


def test_every_page_is_in_the_registry_once() -> None:
    """Paths and titles differ: the menu has no entry twice."""
    assert len({page.path for page in PAGES}) == len({page.title for page in PAGES}) == len(PAGES)
