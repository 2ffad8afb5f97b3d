"""What pages are made of: stores, events, ratios, figures."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mlxcache.dashboard.data import ratios
from mlxcache.dashboard.data import suite as suite_data
from mlxcache.dashboard.data.answer import answer
from mlxcache.dashboard.data.explorer import write_explorer_data
from mlxcache.dashboard.data.facts import gather
from mlxcache.dashboard.data.quality import coverage, machine_noise
from mlxcache.dashboard.data.repository import Repository
from mlxcache.dashboard.data.suite import Rows
from mlxcache.dashboard.drawings.sparkline import sparkline
from mlxcache.dashboard.figures.history import paths_figure, releases_figure
from mlxcache.dashboard.figures.style import PALETTES
from mlxcache.dashboard.figures.suite import curve_figure, race_figure, ratio_figure
from mlxcache.dashboard.output import Output
from mlxcache.dashboard.pages import paths
from mlxcache.dashboard.pages.paths import heat_class
from mlxcache.dashboard.pages.scaling import looks_of
from mlxcache.dashboard.site import build_site
from mlxcache.dashboard.writing.tables import Cell, Table, write_csv
from mlxcache.history import change_points
from mlxcache.history.answering.retired import retired_series
from mlxcache.history.loading.series_store import SeriesStore
from mlxcache.reports.events import group_changes, left_standing, standing
from mlxcache.reports.plain_text import clean, cut, script_json, short
from mlxcache.support.names import slug
from tests.dashboard.site_trees import (
    SUITE,
    commit,
    judged,
    write_benchmarks,
    write_file,
    write_story,
    write_suite,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The story's table and changes."""
    return judged(write_story(tmp_path_factory.mktemp("story") / "results"))


def test_store_has_every_series_as_the_table_has_it(table: Any) -> None:
    """Values and commits of each series are those of the table's rows, in order."""
    df, _ = table
    store = SeriesStore(df)
    assert len(store) == df["series"].nunique()
    for position in range(len(store)):
        series = store.series(position)
        rows = df[df["series"] == series.key.number].sort_values("commit_index")
        assert series.values.tolist() == rows["value"].tolist()
        assert series.commits.tolist() == rows["commit_index"].tolist()
        assert series.key.benchmark == rows["benchmark"].iloc[0]


def test_store_takes_the_median_where_a_commit_was_measured_twice() -> None:
    """One value a commit, whatever the order of the rows."""
    df = pd.DataFrame(
        {
            "series": [0, 0, 0, 0], "commit_index": [1, 0, 1, 1], "value": [5.0, 1.0, 3.0, 4.0], "status": "ok",
            "ci99_low": np.nan, "ci99_high": np.nan, "machine": "m", "env": "e", "benchmark": "b", "params": "",
            "version": "1", "unit": "s",
        }
    )  # fmt: skip
    series = SeriesStore(df).series(0)
    assert series.commits.tolist() == [0, 1]
    assert series.values.tolist() == [1.0, 4.0]


def test_series_keep_their_names_when_results_are_added(tmp_path: Path) -> None:
    """An address of the explorer still means the same series after more was measured."""
    results = write_story(tmp_path / "results", commits=8)

    def names() -> dict[str, str]:
        store = SeriesStore(judged(results)[0])
        return {key.label: key.id for key in store.keys}

    before = names()
    write_file(results, 9, {"a.time_first_by_name": 1.0})
    after = names()
    assert {label: after[label] for label in before} == before


def _unpack(text: str) -> dict[str, tuple[list[int], Any, Any]]:
    """Commits, values and lower ends relative to them, as the head of data/explorer.py describes the letters."""
    match = re.fullmatch(r"mlxcacheData\((.*)\);\n", text, re.S)
    assert match
    found = {}
    for name, packed in json.loads(match[1])[1].items():
        bits = np.unpackbits(np.frombuffer(base64.b64decode(packed["c"]), np.uint8))
        if "q" in packed:
            first, last = packed["s"]
            steps = np.frombuffer(base64.b64decode(packed["q"]), "<u2")
            values = np.exp(first + (last - first) * steps / 65535)
        else:
            values = np.frombuffer(base64.b64decode(packed["v"]), "<f4")
        if "i" in packed:
            low = -np.exp2(np.frombuffer(base64.b64decode(packed["i"]), np.uint8) / 12 - 241 / 12)
        else:
            low = np.frombuffer(base64.b64decode(packed["l"]), "<f2")
        found[name] = (np.flatnonzero(bits).tolist(), values, low)
    return found


def test_packed_series_unpack_to_what_was_measured(table: Any, tmp_path: Path) -> None:
    """Commits exactly, values to 0.005 %, intervals to a fiftieth of their distance from the value."""
    df, changes = table
    store = SeriesStore(df)
    write_explorer_data(Output(tmp_path / "site"), gather(df, changes))
    unpacked = {}
    for path in (tmp_path / "site" / "data").glob("*-*.js"):
        unpacked |= _unpack(path.read_text())
    assert len(unpacked) == len(store)
    for position in range(len(store)):
        series = store.series(position)
        commits, values, low = unpacked[series.key.id]
        assert commits == series.commits.tolist()
        assert values == pytest.approx(series.values, rel=5e-5)
        assert -low == pytest.approx(1 - series.low / series.values, rel=0.03, abs=1e-6)


def test_only_seconds_that_lie_together_are_packed_closer(tmp_path: Path) -> None:
    """Counts stay to the digit, and so does a series with a zero or one that spans a factor of a million."""
    own = {
        "a.time_near": [1e-3 * (1 + 0.37 * (i % 3)) for i in range(20)],
        "a.time_zero": [float(i % 2) for i in range(20)],
        "a.time_far": [1e-6 if i % 2 else 1.5 for i in range(20)],
        "a.count_near": [16_000_001.0 + i for i in range(20)],
    }
    write_benchmarks(tmp_path / "results", list(own))
    for number in range(20):
        write_file(tmp_path / "results", number, {name: values[number] for name, values in own.items()})
    df, changes = judged(tmp_path / "results")
    write_explorer_data(Output(tmp_path / "site"), gather(df, changes))
    (path,) = (tmp_path / "site" / "data").glob("a-*.js")
    text = path.read_text()
    found = _unpack(text)
    names = {key.id: key.benchmark for key in SeriesStore(df).keys}
    assert len(found) == 4
    for series, (_, values, _) in found.items():
        close = names[series] == "a.time_near"
        assert ('"q":' in text.partition(series)[2].partition("}")[0]) == close
        assert values == pytest.approx(own[names[series]], rel=1e-5 if close else 1e-7)


def test_large_benchmarks_are_split_into_files(tmp_path: Path) -> None:
    """No data file holds more than its share, and all series are in one of them."""
    write_benchmarks(tmp_path / "results", ["a.time_x"], {"a.time_x": {"n": [str(i) for i in range(2000)]}})
    for number in range(40):
        write_file(
            tmp_path / "results",
            number,
            {"a.time_x": [1e-3] * 2000},
            params={"a.time_x": [[str(i) for i in range(2000)]]},
        )
    df, changes = judged(tmp_path / "results")
    write_explorer_data(Output(tmp_path / "site"), gather(df, changes))
    files = list((tmp_path / "site" / "data").glob("a-*.js"))
    assert len(files) == 2
    assert sum(len(_unpack(path.read_text())) for path in files) == 2000


def test_one_event_holds_all_series_that_moved_together(table: Any) -> None:
    """Two parameter sets that got slower at one commit are one line, the recovered one is another."""
    _, changes = table
    events = group_changes(changes)
    step = next(event for event in events if event.benchmark == "step.time_work")
    assert sorted(str(row["params"]) for row in step.rows) == ["10", "1000"]
    assert (step.after, step.word, step.state) == (commit(20), "slower", "candidate")
    assert [event.benchmark for event in standing(events)] == ["step.time_work"]
    assert {event.benchmark for event in events if event.state == "recovered"} == {"bump.time_work"}


def _row(**facts: Any) -> dict[str, Any]:
    base = {
        "benchmark": "b", "direction": "regression", "machine": "m", "env": "e", "params": "", "unit": "seconds",
        "version": "1", "before_index": 3, "after_index": 6, "before": "c3", "after": "c6", "magnitude": 0.1,
        "confidence": 0.9, "state": "candidate", "range_commits": 3, "series": 0,
        "ci95_low": 0.05, "ci95_high": 0.15,
    }  # fmt: skip
    return {**base, **facts}


def test_ranges_that_share_no_commit_are_different_events() -> None:
    """A chain of overlapping ranges is not one event: the ranges of an event have commits in common."""
    rows = [
        _row(),
        _row(machine="n", before_index=5, after_index=8, before="c5", after="c8"),
        _row(machine="o", before_index=7, after_index=9, before="c7", after="c9"),
    ]
    events = group_changes(pd.DataFrame(rows))
    assert [(event.before, event.after, len(event.rows)) for event in events] == [("c7", "c9", 1), ("c5", "c6", 2)]


def test_an_event_stands_while_one_of_its_series_does() -> None:
    """Recovered on one machine and not on another is not recovered; what stands leads."""
    rows = [_row(state="recovered", magnitude=3.0), _row(machine="n", state="confirmed", magnitude=0.2)]
    (event,) = group_changes(pd.DataFrame(rows))
    assert event.state == "confirmed"
    assert event.lead["machine"] == "n"


def test_an_improvement_that_is_gone_is_called_lost() -> None:
    """Only what got worse recovers."""
    gone = [_row(state="recovered"), _row(state="recovered", direction="improvement", benchmark="b.time_gone")]
    assert {event.direction: event.state_word for event in group_changes(pd.DataFrame(gone))} == {
        "regression": "recovered",
        "improvement": "lost",
    }


def test_answer_counts_benchmarks_by_what_happened_to_them() -> None:
    """Slower and larger are said apart, singular and plural as they should be."""
    rows = [_row(), _row(benchmark="c"), _row(benchmark="mem", unit="bytes")]
    keys = {"ci99_low": np.nan, "ci99_high": np.nan, "value": 1.0, "status": "ok", "commit_index": 0}
    said = answer(gather(pd.DataFrame([{**rows[0], **keys}]), pd.DataFrame(rows)))
    assert said.sentence == "2 benchmarks are slower and 1 is larger than before."
    assert "No rerun has confirmed any" in said.detail


def test_what_is_no_longer_measured_does_not_count_as_slower(tmp_path: Path) -> None:
    """A regression in an environment that another took over is listed apart, and the answer is about now."""
    write_benchmarks(tmp_path / "results", ["a.time_x"])
    for number in range(40):
        old = number < 25
        value = (1.5 if 12 <= number < 25 else 1.0) * (1 + 0.001 * (number % 3))
        write_file(tmp_path / "results", number, {"a.time_x": value}, env="old" if old else "new")
    df, changes = judged(tmp_path / "results")
    store = SeriesStore(df)
    retired = retired_series(store, df.facts.commits)
    assert {key.env for key in store.keys if key.number in retired} == {"old"}
    events = group_changes(changes, retired)
    assert standing(events) == []
    assert [event.after for event in left_standing(events)] == [commit(12)]
    said = answer(gather(df, changes))
    assert (said.mood, said.sentence) == (
        "fine",
        "Nothing is slower in the 1 series that can show it (one machine).",
    )
    assert "1 regression stood" in said.detail
    build_site(df, changes, tmp_path / "site")
    assert "Slower when last measured" in (tmp_path / "site" / "index.html").read_text()


def test_noise_is_that_of_the_machine(table: Any) -> None:
    """The story's 0.4 % is found, and steps do not count as noise; the control has an entry."""
    df, _ = table
    store = SeriesStore(df)
    noise = machine_noise(store, store.by_machine["m1"])
    assert noise.between is not None
    assert 0.002 < noise.between[0] < 0.006
    assert list(noise.controls) == ["control.time_spin"]
    assert noise.within == pytest.approx(0.02, rel=0.1)


def test_coverage_counts_commits_and_series(table: Any) -> None:
    """Without a repository what is missing is unknown, so nothing is said to be."""
    df, _ = table
    (entry,) = coverage(df, SeriesStore(df), Repository(None, "HEAD", df.facts.commits))
    assert (entry.n_commits, entry.n_series, entry.n_missing) == (40, 5, 0)


@pytest.mark.parametrize("value", [0.0, -1.0, 1e300, 1e-300])
def test_sparklines_take_any_numbers(value: float, tmp_path: Path) -> None:
    """Zeros, negative and extreme values give finite coordinates."""
    for number in range(5):
        write_file(tmp_path / "results", number, {"a.track_x": value * (1 + number % 2)})
    store = SeriesStore(judged(tmp_path / "results")[0])
    drawn = str(sparkline(store.series(0)))
    assert "nan" not in drawn
    assert "inf" not in drawn


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r"])
def test_a_text_is_no_formula_in_a_spreadsheet(tmp_path: Path, begin: str) -> None:
    """A quote stands before what a spreadsheet would carry out; numbers below zero stay numbers."""
    rows = [[Cell(f"{begin}1+1"), Cell("-5", -5.0)]]
    write_csv(Output(tmp_path), Table("x.csv", "", ("a", "b"), rows))
    assert list(csv.reader(io.StringIO((tmp_path / "x.csv").read_bytes().decode(), newline="")))[1] == [
        f"'{begin}1+1",
        "-5.0",
    ]


def test_texts_are_made_fit_for_documents() -> None:
    """Controls and lone surrogates are replaced; JSON cannot end a script; names of files are plain."""
    assert (
        clean("a\x00b\ud800c\x85")
        == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}"
    )
    ends = "<>&\u2028\u2029"
    assert not set(ends) & set(script_json(f"</script>{ends}"))
    assert json.loads(script_json(f"</script>{ends}")) == f"</script>{ends}"
    assert slug("../../<b>ä/x") == "b-x"
    assert slug("///") == "unnamed"
    assert len(short("x" * 500, 50)) == 50
    assert cut("one two three", 8) == "one two…"


# ---- suites


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The table of that suite."""
    return judged(write_suite(tmp_path_factory.mktemp("suite") / "results"))[0]


def _at(df: pd.DataFrame) -> tuple[str, str, int]:
    return ("m1", "venv-mlx0.30.6", int(df["commit_index"].max()))


def test_path_ratios_have_tokens_by_head_size_first(suite: pd.DataFrame) -> None:
    """A decode step is one token at context 1024; one run says what the ratio is and not how sure."""
    first = ratios.path_maps(Rows(suite), *_at(suite))[0]
    assert first.rows == ("1", "16", "128", "2048")
    assert first.columns == ("64", "128")
    cell = first.cells["1", "64"]
    assert cell.ratio == pytest.approx(1.1)
    assert not cell.judged
    assert not cell.differs
    assert heat_class(cell) == "heat-0"


def test_options_are_compared_with_the_one_in_use(suite: pd.DataFrame) -> None:
    """Each path has a map of its own, and the option in use is 1."""
    maps = ratios.option_maps(Rows(suite), *_at(suite))
    assert [content.title for content in maps] == ["int32 positions", "int64 positions"]
    assert maps[1].cells["1", "host"].ratio == 1.0
    assert maps[1].cells["1", "copy"].ratio == pytest.approx(3.0)


def test_peers_run_with_the_limit_where_it_was_measured(suite: pd.DataFrame) -> None:
    """The limit is a quarter of our own time at the context that it was measured at."""
    found = suite_data.races(Rows(suite), *_at(suite))
    assert [entry[0] for entry in found[0].entries] == ["bare", "mlxcache", "KVCache"]
    assert found[0].limit == pytest.approx(0.25e-4)
    assert found[1].limit is None


def test_peers_without_an_interval_have_none(suite: pd.DataFrame, tmp_path: Path) -> None:
    """Neither the page nor its CSV file makes one up."""
    df = suite.assign(ci99_low=math.nan, ci99_high=math.nan)
    build_site(df, change_points(df, cache=False), tmp_path)
    text = (tmp_path / "csv" / "peers.csv").read_text()
    assert "mlxcache" in text
    assert "nan" not in text
    assert "n/a to n/a" not in (tmp_path / "peers.html").read_text()


def test_slopes_tell_flat_from_proportional(suite: pd.DataFrame) -> None:
    """Decode does not grow with the context, prefill grows with its tokens."""
    found = suite_data.curves(Rows(suite), *_at(suite))
    flat = [curve for curve in found if curve.parameter == "context" and curve.benchmark.startswith("decode")]
    assert flat
    assert all(curve.exponent == pytest.approx(0, abs=1e-6) for curve in flat)
    steep = [curve for curve in found if curve.parameter == "tokens"]
    assert all(curve.exponent == pytest.approx(1) for curve in steep)
    assert steep[0].slope == pytest.approx(1e-5)


def test_no_curve_is_dropped_and_pairs_share_a_colour(suite: pd.DataFrame) -> None:
    """int32 and int64 of one head size have one colour and two dashes, whatever their order."""
    found = suite_data.curves(Rows(suite), *_at(suite))
    group = [curve for curve in found if curve.parameter == "context" and curve.benchmark.startswith("decode")]
    looks = {curve.fixed: (colour, dash) for curve, colour, dash in looks_of(group)}
    assert len(looks) == len(group) == 4
    for size in ("64", "128"):
        one, other = looks[f"path=int32 head_dim={size}"], looks[f"path=int64 head_dim={size}"]
        assert one[0] == other[0]
        assert one[1] != other[1]
    assert looks["path=int32 head_dim=64"][0] != looks["path=int32 head_dim=128"][0]


@pytest.mark.parametrize("theme", list(PALETTES))
def test_suite_figures_are_drawn_in_both_themes(suite: pd.DataFrame, theme: Any) -> None:
    """Each is the same function for a dark page, with that page's background."""
    at, rows = _at(suite), Rows(suite)
    figures = [
        ratio_figure(ratios.path_maps(rows, *at)[0], theme=theme),
        race_figure(suite_data.races(rows, *at), theme=theme),
        curve_figure(suite_data.curves(rows, *at)[:3], theme=theme),
        releases_figure(suite, theme=theme),
        paths_figure(suite, theme=theme),
    ]
    for figure in figures:
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg")
        assert PALETTES[theme].background.encode() in drawn.getvalue()
    assert "m1 at 00000001" in figures[4].axes[0].get_title(loc="left")


@pytest.mark.parametrize(
    ("unit", "values", "shown"),
    [
        ("seconds", (2e-5, 5e-4), ["20.0 µs", "50.0 µs", "100 µs", "200 µs", "500 µs"]),
        ("bytes", (2.0**20, 2.0**22), ["1.00 MiB", "2.00 MiB", "4.00 MiB"]),
        ("ratio", (1.1, 1.2), ["1 ratio", "1.5 ratio"]),
        ("seconds", (1e-6, 1e3), ["1.00 µs", "100 µs", "10.0 ms", "1.00 s", "100 s"]),
    ],
)
def test_cost_is_read_off_round_numbers(unit: str, values: tuple[float, float], shown: list[str]) -> None:
    """Levels are round, whatever the range, and few."""
    none = (math.nan, math.nan)
    curve = suite_data.Curve("a.time_x", "n", "", unit, (1.0, 2.0), values, none, none, 0.0, 0.0)
    (axes,) = curve_figure([curve]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == shown


def test_the_limit_stands_beside_the_title() -> None:
    """The line's name and value cover neither the title nor a bar."""
    entries = (("mlxcache", 5e-4, 4e-4, 6e-4),)
    race = suite_data.Race(
        "peers.Decode.time_step context=1024", "peers.Decode.time_step", "seconds", entries, 1e-5
    )
    (axes,) = race_figure([race]).axes
    assert axes.get_title(loc="right") == "- - the machine's limit: 10.0 µs"


def test_pages_about_the_suite_appear_with_its_benchmarks_only(suite: pd.DataFrame, tmp_path: Path) -> None:
    """This suite has all four, the story has none of them."""
    changes = judged(write_suite(tmp_path / "results"))[1]
    build_site(suite, changes, tmp_path / "site")
    for name in ("paths", "peers", "scaling", "releases"):
        assert (tmp_path / "site" / f"{name}.html").is_file()
        assert (tmp_path / "site" / "csv" / f"{name}.csv").is_file()
    build_site(*judged(write_story(tmp_path / "story", commits=8)), tmp_path / "other")
    assert not (tmp_path / "other" / "paths.html").exists()
    assert not (tmp_path / "other" / "releases.html").exists()


def test_a_run_of_a_part_of_the_suite_leaves_the_rest_on_its_page(tmp_path: Path) -> None:
    """Each map is from the newest commit that has it, though a newer one measured something else."""
    root = write_suite(tmp_path / "results")
    params = {name: list(own.values()) for name, own in SUITE.items()}
    write_file(root, 2, {"positions.Positions.time_read": [1e-6] * 8}, env="venv-mlx0.32.4", params=params)
    content = paths.PAGE.find(gather(*judged(root)))
    titles = {(shown.commit, part.title) for shown in content.maps for part in shown.parts}
    assert (commit(1), ratios.TOKENS_BY_HEAD_SIZE) in titles
    assert (commit(2), "int32 positions") in titles
