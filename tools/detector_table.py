"""Measures the detectors on real noise and remakes docs/detector.md and docs/detector.json.

    python tools/detector_table.py                # the committed table; some minutes on one core
    python tools/detector_table.py --print

Changes are planted into quiet stretches of public histories (`tools/planted.py`). The first table is of projects
that tools/tune_detector.py never reads, the second of those that it read. E-divisive is measured where the package
`signal-processing-algorithms` is installed.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import ruptures

from mlxcache.history.changes.asv_detector import AsvDetector
from mlxcache.history.changes.drift import join_drifts
from mlxcache.history.changes.segments import Change, Method, find_changes, search_range
from mlxcache.history.statistics.effect import LOGS
from mlxcache.history.statistics.noise import FloatArray, width
from mlxcache.remeasure.rerun import Outcome, confirm
from mlxcache.support.atomic import write_atomically
from tools import planted
from tools.planted import CORE, TUNED_ON, Planted
from tools.scoring import Detection, Score, add_scores, is_hit, score_planted

ROOT = Path(__file__).resolve().parent.parent
# tools/tune_detector.py plants with other seeds.
SEED = 7_001
RERUN_PAIRS = 20
_DRAWS = 400
Finder = Callable[[Planted], list[Detection]]


def by_levels(values: FloatArray, edges: Sequence[int]) -> list[Detection]:
    """Shifts between the medians of neighbouring segments."""
    bounds = [0, *edges, len(values)]
    middles = [float(np.median(values[a:b])) for a, b in itertools.pairwise(bounds)]
    return [
        Detection(edge, math.log(new / old))
        for edge, (old, new) in zip(edges, itertools.pairwise(middles), strict=True)
    ]


def kernel_pelt(series: Planted) -> list[Detection]:
    """ruptures' PELT with the rbf kernel at penalty 3, on values by their median."""
    values = series.values
    search = ruptures.KernelCPD(kernel="rbf", min_size=2).fit((values / np.median(values)).reshape(-1, 1))
    return by_levels(values, [int(end) for end in search.predict(pen=3.0)[:-1]])


def asv_steps(series: Planted) -> list[Detection]:
    """All of asv's steps of at least 5 %, up or down."""
    return by_levels(series.values, AsvDetector(min_change=0.05).boundaries(np.log(series.values)))


def e_divisive(series: Planted) -> list[Detection]:
    """MongoDB's, with its defaults."""
    from signal_processing_algorithms.energy_statistics.energy_statistics import e_divisive as run

    np.random.seed(0)
    return by_levels(series.values, [int(i) for i in run(series.values.tolist(), pvalue=0.05, permutations=100)])


def changes_of(series: Planted, method: Method) -> list[Change]:
    """What a history says of one series, drifts included."""
    x = np.log(series.values)
    found = find_changes(x, method)
    return join_drifts(x, found, LOGS) if found else found


def ours(series: Planted) -> list[Detection]:
    """mlxcache's candidates as a page without reruns shows them."""
    return [Detection(c.index, c.effect.shift) for c in changes_of(series, Method())]


def confirmed(series: Planted) -> list[Detection]:
    """Our candidates, each measured again by the code behind `mlxcache regressions --confirm`."""
    x = np.log(series.values)
    found = []
    for change in changes_of(series, Method().for_rerun()):
        calls = itertools.count()

        def measure(
            before: int, after: int, at: int = change.index, calls: itertools.count[int] = calls
        ) -> tuple[FloatArray, FloatArray]:
            return dataclasses.replace(series, seed=(*series.seed, at, next(calls))).rerun(
                before, after, RERUN_PAIRS
            )

        rerun = confirm(measure, *search_range(change, width(x), len(x)), change.effect.shift)
        if rerun.outcome is Outcome.CONFIRMED:
            found.append(Detection(change.index, rerun.result.change))
    return found


def interval(scores: Sequence[Score]) -> tuple[float, float]:
    """95 % interval of F1, from drawing the series anew."""
    rng = np.random.default_rng(0)
    counts = np.array([(s.hits, s.misses, s.false_alarms) for s in scores], np.float64)
    sums = np.array([counts[rng.integers(len(counts), size=len(counts))].sum(axis=0) for _ in range(_DRAWS)])
    f1 = 2 * sums[:, 0] / np.maximum(1.0, 2 * sums[:, 0] + sums[:, 1] + sums[:, 2])
    low, high = np.quantile(f1, [0.025, 0.975])
    return round(float(low), 3), round(float(high), 3)


def measure(finder: Finder, corpus: Sequence[Planted]) -> dict[str, object]:
    """One detector on one corpus: the sum over `CORE`, and each family."""
    families: dict[str, Score] = {}
    core: list[Score] = []
    total = Score()
    for series in corpus:
        score = score_planted(series, finder(series))
        families[series.family] = add_scores(families.get(series.family, Score()), score)
        if series.family in CORE:
            core.append(score)
            total = add_scores(total, score)
    quiet = families["quiet"]
    return {
        "precision": round(total.precision, 3),
        "recall": round(total.recall, 3),
        "f1": round(total.f1, 3),
        "f1_interval": interval(core),
        "false_per_1000_quiet": round(quiet.false_per_1000, 2),
        "families": {
            name: {"hits": s.hits, "misses": s.misses, "false_alarms": s.false_alarms}
            for name, s in families.items()
        },
    }


def calibration(corpus: Sequence[Planted]) -> list[dict[str, float]]:
    """Confidence as stated against the share that was right, with its 95 % interval (Wilson), by tenths."""
    stated: list[float] = []
    right: list[bool] = []
    method = Method().for_rerun()
    for series in corpus:
        if series.family in CORE:
            for change in changes_of(series, method):
                stated.append(change.confidence)
                right.append(is_hit(series, change.index, change.effect.shift))
    p, hit = np.array(stated), np.array(right)
    rows = []
    for low in np.arange(1, 10) / 10:
        inside = (p >= low) & (p < low + 0.1 + 1e-9 * (low > 0.85))
        n = int(inside.sum())
        if n:
            share = float(hit[inside].mean())
            z2 = 1.96**2 / n
            middle, half = (share + z2 / 2) / (1 + z2), math.sqrt(z2 * (share * (1 - share) + z2 / 4)) / (1 + z2)
            row = {"from": low, "changes": n, "stated": float(p[inside].mean()), "right": share}
            row |= {"low": middle - half, "high": middle + half}
            rows.append({name: round(float(value), 3) for name, value in row.items()})
    return rows


def measure_all(say: Callable[[str], None]) -> dict[str, object]:
    """Every number of the page."""
    finders: dict[str, Finder] = {
        "asv's steps, 5 %": asv_steps,
        "PELT, rbf kernel, penalty 3": kernel_pelt,
        "mlxcache": ours,
        "mlxcache + rerun": confirmed,
    }
    try:
        import signal_processing_algorithms  # noqa: F401

        finders = {"E-divisive": e_divisive, **finders}
    except ImportError:
        say("E-divisive is not here: pip install signal-processing-algorithms")
    numbers: dict[str, object] = {"seed": SEED, "tuned_on": sorted(TUNED_ON)}
    for part, trees in (("held_out", lambda tree: tree not in TUNED_ON), ("tuned", TUNED_ON.__contains__)):
        corpus = planted.corpus(SEED, trees)
        rows = {}
        for name, finder in finders.items():
            rows[name] = measure(finder, corpus)
            say(f"{part}, {name}: F1 {rows[name]['f1']}")
        numbers[part] = {"series": len(corpus), "detectors": rows, "calibration": calibration(corpus)}
    return numbers


def tables(numbers: dict[str, object]) -> list[str]:
    """The page's tables."""
    lines: list[str] = []
    for part, title in (
        ("held_out", "Projects that tuning never read"),
        ("tuned", "Projects that it was tuned on"),
    ):
        found = numbers[part]
        assert isinstance(found, dict)
        lines += [f"### {title} ({found['series']:,} series)", ""]
        lines += ["| detector | precision | recall | F1 | its 95 % interval | false per 1000 quiet commits |"]
        lines += ["|---|---|---|---|---|---|"]
        for name, row in found["detectors"].items():
            low, high = row["f1_interval"]
            lines.append(
                f"| {name} | {row['precision']:.3f} | {row['recall']:.3f} "
                f"| {row['f1']:.3f} | {low:.3f} to {high:.3f} "
                f"| {row['false_per_1000_quiet']:.2f} |"
            )
        names = list(found["detectors"])
        lines += ["", "Hits / missed / false alarms by family:", "", f"| family | {' | '.join(names)} |"]
        lines += ["|---" * (len(names) + 1) + "|"]
        for family in found["detectors"][names[0]]["families"]:
            cells = (found["detectors"][name]["families"][family] for name in names)
            shown = (f"{c['hits']} / {c['misses']} / {c['false_alarms']}" for c in cells)
            lines.append(f"| {family} | {' | '.join(shown)} |")
        lines += [
            "",
            "| confidence from | changes | stated, mean | right | its 95 % interval |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {b['from']:.1f} | {b['changes']:.0f} | {b['stated']:.2f} | {b['right']:.2f} "
            f"| {b['low']:.2f} to {b['high']:.2f} |"
            for b in found["calibration"]
        ]
        lines.append("")
    return lines[:-1]


def main() -> None:
    """Measure, then write both files (or print)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="print the tables and write nothing")
    args = parser.parse_args()
    numbers = measure_all(lambda line: print(line, flush=True))
    lines = "\n".join(tables(numbers))
    if args.print:
        print(lines)
        return
    page = ROOT / "docs" / "detector.md"
    head, rest = page.read_text(encoding="utf-8").split("<!-- tables: begin -->")
    tail = rest.split("<!-- tables: end -->")[1]
    text = f"{head}<!-- tables: begin -->\n{lines}\n<!-- tables: end -->{tail}"
    write_atomically(page, text.encode())
    write_atomically(page.with_suffix(".json"), (json.dumps(numbers, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
