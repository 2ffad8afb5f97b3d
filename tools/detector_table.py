"""Measures the detectors on real noise and remakes docs/detector.md and docs/detector.json.

    python -m tools.detector_table                # the committed table; some minutes on one core
    python -m tools.detector_table --print

Changes are planted into quiet stretches of public histories (`tools/planted.py`). Each series is judged by weights
that were fitted without its project (tools/tune_detector.py).
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import multiprocessing
from collections.abc import Callable, Sequence
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any

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
from tools.e_divisive import e_divisive
from tools.flicker import NEWEST, Flicker, flicker
from tools.planted import CORE, Planted
from tools.scoring import Detection, Score, add_scores, is_hit, score_planted
from tools.tune_detector import held_back

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


def energy(series: Planted) -> list[Detection]:
    """E-divisive at 5 % with 100 permutations."""
    return by_levels(series.values, e_divisive(series.values))


def changes_of(series: Planted, method: Method) -> list[Change]:
    """What a history says of one series, drifts included."""
    return judged(np.log(series.values), method)


def judged(x: FloatArray, method: Method) -> list[Change]:
    """What a history says of log values, drifts included."""
    found = find_changes(x, method)
    return join_drifts(x, found, LOGS) if found else found


def ours(series: Planted) -> list[Detection]:
    """mlxcache's candidates as a page without reruns shows them."""
    return [Detection(c.index, c.effect.shift) for c in changes_of(series, method_for(series))]


@cache
def _method_without(tree: str) -> Method:
    return Method(weights=held_back(tree))


def method_for(series: Planted) -> Method:
    """The default method with weights that never saw the series' project."""
    return _method_without(series.tree)


def confirmed(series: Planted) -> list[Detection]:
    """Our candidates, each measured again by the code behind `mlxcache regressions --confirm`."""
    x = np.log(series.values)
    found = []
    for change in changes_of(series, method_for(series).for_rerun()):
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


def measure(found: Sequence[list[Detection]], corpus: Sequence[Planted]) -> dict[str, Any]:
    """One detector on one corpus: the sum over `CORE`, each family, and each project."""
    families: dict[str, Score] = {}
    projects: dict[str, Score] = {}
    core: list[Score] = []
    for series, detections in zip(corpus, found, strict=True):
        score = score_planted(series, detections)
        families[series.family] = add_scores(families.get(series.family, Score()), score)
        if series.family in CORE:
            core.append(score)
            projects[series.tree] = add_scores(projects.get(series.tree, Score()), score)
    total = reduce(add_scores, core)

    def shown(scores: dict[str, Score]) -> dict[str, dict[str, int]]:
        return {
            name: {"hits": s.hits, "misses": s.misses, "false_alarms": s.false_alarms}
            for name, s in scores.items()
        }

    return {
        "precision": round(total.precision, 3),
        "recall": round(total.recall, 3),
        "f1": round(total.f1, 3),
        "f1_interval": interval(core),
        "false_per_1000_quiet": round(families["quiet"].false_per_1000, 2),
        "families": shown(families),
        "projects": shown(projects),
    }


def calibration(corpus: Sequence[Planted]) -> list[dict[str, float]]:
    """Confidence as stated against the share that was right, with its 95 % interval (Wilson), by tenths."""
    stated: list[float] = []
    right: list[bool] = []
    for series in corpus:
        if series.family in CORE:
            for change in changes_of(series, method_for(series).for_rerun()):
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


FINDERS: dict[str, Finder] = {
    "asv's steps, 5 %": asv_steps,
    "E-divisive": energy,
    "PELT, rbf kernel, penalty 3": kernel_pelt,
    "mlxcache": ours,
    "mlxcache + rerun": confirmed,
}
# Series that grow, commit by commit: their families, and how many of each.
_GROWING = ("quiet", "single", "recovery", "several", "two modes", "noise")
_GROWING_SERIES = 12


def _found(name: str, series: Planted) -> list[Detection]:
    return FINDERS[name](series)


def growing(corpus: Sequence[Planted]) -> dict[str, int]:
    """How often alarms come and go while series grow."""
    total = Flicker()
    for family in _GROWING:
        for series in [series for series in corpus if series.family == family][:_GROWING_SERIES]:
            method = method_for(series)
            total = total + flicker([np.log(series.values)], lambda x, by=method: judged(x, by))
    return dataclasses.asdict(total)


def measure_all(say: Callable[[str], None], every: int = 1) -> dict[str, object]:
    """Every number of the page, on as many cores as there are, of one series in `every`."""
    corpus = planted.corpus(SEED)[::every]
    rows = {}
    with multiprocessing.Pool() as pool:
        for name in FINDERS:
            rows[name] = measure(pool.map(partial(_found, name), corpus, chunksize=40), corpus)
            say(f"{name}: F1 {rows[name]['f1']}")
    return {
        "seed": SEED,
        "series": len(corpus),
        "detectors": rows,
        "calibration": calibration(corpus),
        "growing": growing(corpus),
    }


def tables(numbers: dict[str, Any]) -> list[str]:
    """The page's tables."""
    detectors = numbers["detectors"]
    lines = [f"### All detectors ({numbers['series']:,} series)", ""]
    lines += ["| detector | precision | recall | F1 | its 95 % interval | false per 1000 quiet commits |"]
    lines += ["|---|---|---|---|---|---|"]
    for name, row in detectors.items():
        low, high = row["f1_interval"]
        lines.append(
            f"| {name} | {row['precision']:.3f} | {row['recall']:.3f} | {row['f1']:.3f} | {low:.3f} to {high:.3f} "
            f"| {row['false_per_1000_quiet']:.2f} |"
        )
    names = list(detectors)
    for title, part in (("family", "families"), ("project (F1's families)", "projects")):
        lines += ["", f"Hits / missed / false alarms by {title}:", "", f"| {title} | {' | '.join(names)} |"]
        lines += ["|---" * (len(names) + 1) + "|"]
        for key in detectors[names[0]][part]:
            cells = (detectors[name][part][key] for name in names)
            shown = (f"{c['hits']} / {c['misses']} / {c['false_alarms']}" for c in cells)
            lines.append(f"| {key} | {' | '.join(shown)} |")
    lines += [
        "",
        "| confidence from | changes | stated, mean | right | its 95 % interval |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {b['from']:.1f} | {b['changes']:.0f} | {b['stated']:.2f} | {b['right']:.2f} "
        f"| {b['low']:.2f} to {b['high']:.2f} |"
        for b in numbers["calibration"]
    ]
    grown = numbers["growing"]
    lines += [
        "",
        f"While series grew by their newest {NEWEST} commits: {grown['raised']} alarms raised, "
        f"{grown['taken_back']} taken back within ten commits, {grown['again']} raised again within ten.",
    ]
    return lines


def main() -> None:
    """Measure, then write both files (or print)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="print the tables and write nothing")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="measure one series in K (default: 1)")
    args = parser.parse_args()
    numbers = measure_all(lambda line: print(line, flush=True), args.every)
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
