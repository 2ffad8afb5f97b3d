"""Measures the detectors on the held-out split and remakes docs/detector.md and docs/detector.json.

    python tools/detector_table.py                # the committed table; a few minutes on one core
    python tools/detector_table.py --split tune --repeats 2 --print

Nothing here is tuned: tools/tune_detector.py reads another split.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from mlxcache.history.changes.detectors import AsvDetector, PeltDetector, ThresholdDetector
from mlxcache.history.changes.segments import Change, Method, find_changes, log_values, search_range
from mlxcache.history.statistics.control import Control, divide_best
from mlxcache.history.statistics.noise import FloatArray, short_term_sigma
from mlxcache.history.statistics.significance import RankTest
from mlxcache.remeasure.rerun import Outcome, Rerun, confirm, narrow
from mlxcache.support.atomic import write_atomically
from tools import labelled
from tools.labelled import STEP_SIZES, LabelledSeries, Split, Step
from tools.scoring import HIT_WITHIN, Detection, Score, add_scores, score_series

ROOT = Path(__file__).resolve().parent.parent
RERUN_PAIRS = 20
LATENCY_LIMIT = 20

Finder = Callable[[LabelledSeries], list[Detection]]


def shift_between(x: FloatArray, edges: Sequence[int], k: int) -> float:
    """Difference of the medians of the levels before and after edge `k`."""
    return float(np.median(x[edges[k] : edges[k + 1]]) - np.median(x[edges[k - 1] : edges[k]]))


def asv_page(threshold: float) -> Finder:
    """What asv's regression page lists: upward steps that are still there at the newest commit."""
    from asv.step_detect import detect_regressions, detect_steps

    def find(series: LabelledSeries) -> list[Detection]:
        _, _, jumps = detect_regressions(detect_steps([float(v) for v in series.values]), threshold)
        return [Detection(after, math.log(best / value)) for _, after, value, best in jumps or []]

    return find


def asv_steps(threshold: float) -> Finder:
    """All of asv's steps of at least `threshold`, up or down, resolved or not."""
    detector = AsvDetector(min_change=threshold)

    def find(series: LabelledSeries) -> list[Detection]:
        x = np.log(series.values)
        edges = [0, *detector.boundaries(x), len(x)]
        return [Detection(edges[k], shift_between(x, edges, k)) for k in range(1, len(edges) - 1)]

    return find


def plain_threshold(threshold: float) -> Finder:
    """A value `threshold` off the median of the five before it."""
    detector = ThresholdDetector(threshold)

    def find(series: LabelledSeries) -> list[Detection]:
        x = np.log(series.values)
        found = detector.boundaries(x)
        return [Detection(i, float(x[i] - np.median(x[max(0, i - 5) : i]))) for i in found]

    return find


def pelt_and_rank_test(series: LabelledSeries) -> list[Detection]:
    """The textbook recipe without the rest: PELT, Mann-Whitney p < .001, 2.5 %."""
    x = np.log(series.values)
    detector = PeltDetector(penalty=3.0, first_penalty=3.0, inflate=False)
    edges = [0, *detector.boundaries(x), len(x)]
    found = []
    for k in range(1, len(edges) - 1):
        shift = shift_between(x, edges, k)
        p = RankTest().p_value(x[edges[k - 1] : edges[k]], x[edges[k] : edges[k + 1]])
        if p < 0.001 and abs(math.expm1(shift)) >= 0.025:
            found.append(Detection(edges[k], shift))
    return found


def judged_values(series: LabelledSeries, use_control: bool) -> FloatArray:
    """Log values, divided by the control if there is one and it is wanted."""
    x, _ = log_values(series.values)
    if use_control and series.control is not None:
        return divide_best(x, [Control("control", np.log(series.control))])[0]
    return x


def ours(series: LabelledSeries, *, use_control: bool = True) -> list[Detection]:
    """mlxcache's candidates as a page without reruns shows them."""
    return [Detection(c.index, c.effect.shift) for c in find_changes(judged_values(series, use_control))]


class Rerunner:
    """Our candidates, each measured again by the code that `mlxcache regressions --confirm` runs."""

    def __init__(self, *, narrowed: bool) -> None:
        self.narrowed = narrowed
        self.comparisons = 0
        self.candidates = 0

    def __call__(self, series: LabelledSeries) -> list[Detection]:
        """Detections that a rerun confirmed."""
        x, _ = log_values(series.values)
        found = []
        for change in find_changes(x, Method().for_rerun()):
            rerun, place = self._measure_again(series, change, x)
            self.comparisons += rerun.comparisons
            self.candidates += 1
            if rerun.outcome is Outcome.CONFIRMED:
                found.append(Detection(place, rerun.result.change))
        return found

    def _measure_again(self, series: LabelledSeries, change: Change, x: FloatArray) -> tuple[Rerun, int]:
        calls = 0

        def measure(before: int, after: int) -> tuple[FloatArray, FloatArray]:
            nonlocal calls
            calls += 1
            fresh = dataclasses.replace(series, seed=(*series.seed, change.index, calls))
            return fresh.rerun(before, after, RERUN_PAIRS)

        low, high = search_range(change, short_term_sigma(x), len(x))
        rerun = confirm(measure, low, high, change.effect.shift)
        if self.narrowed and rerun.outcome is Outcome.CONFIRMED:
            rerun = narrow(measure, rerun)
            return rerun, rerun.after
        return rerun, change.index


def total(finder: Finder, corpus: Iterable[LabelledSeries]) -> Score:
    """The sum over a corpus."""
    score = Score()
    for series in corpus:
        score = add_scores(score, score_series(series, finder(series)))
    return score


def latency(finder: Finder, split: Split, repeats: int) -> tuple[float, float]:
    """Commits until a 10 % step in 3 % noise is seen: the median, and the share seen within three."""
    waits = []
    for r in range(repeats):
        series = labelled.draw_series(
            (split.value, 6, r),
            noise="gaussian 3 %",
            n=60 + LATENCY_LIMIT,
            steps=(Step(60, 0.10),),
            size=0.10,
        )
        waits.append(LATENCY_LIMIT + 1)
        for k in range(1, LATENCY_LIMIT + 1):
            known = dataclasses.replace(series, values=series.values[: 60 + k])
            if any(abs(d.index - 60) <= HIT_WITHIN and d.shift > 0 for d in finder(known)):
                waits[-1] = k
                break
    return statistics.median(waits), sum(w <= 3 for w in waits) / len(waits)


def calibration(split: Split, repeats: int) -> list[dict[str, float]]:
    """Confidence as stated against the share that was right, in five bins."""
    method = Method().for_rerun()
    stated: list[float] = []
    right: list[bool] = []
    corpus = [
        *labelled.one_step(split, repeats=repeats),
        *labelled.quiet(split, repeats=2 * repeats),
        *labelled.several(split, repeats=max(1, repeats // 3)),
        *labelled.recovered(split, repeats=max(1, repeats // 3)),
    ]
    for series in corpus:
        for change in find_changes(log_values(series.values)[0], method):
            stated.append(change.confidence)
            right.append(
                any(
                    abs(s.index - change.index) <= HIT_WITHIN and (s.size > 0) == (change.effect.shift > 0)
                    for s in series.steps
                )
            )
    edges = [0.1, 0.3, 0.5, 0.7, 0.9, 1.0001]
    p, hit = np.array(stated), np.array(right)
    rows = []
    for low, high in itertools.pairwise(edges):
        inside = (p >= low) & (p < high)
        if inside.any():
            rows.append(
                {
                    "from": low,
                    "to": min(high, 1.0),
                    "changes": int(inside.sum()),
                    "stated": round(float(p[inside].mean()), 3),
                    "right": round(float(hit[inside].mean()), 3),
                }
            )
    return rows


def as_row(score: Score) -> dict[str, object]:
    """A score as it goes into the JSON."""
    row: dict[str, object] = {
        "precision": round(score.precision, 3),
        "recall": round(score.recall, 3),
        "f1": round(score.f1, 3),
        "false_per_1000": round(score.false_per_1000, 3),
    }
    if all(score.by_size[size] for size in STEP_SIZES):
        row["recall_by_size"] = {f"{size:.0%}": round(score.recall_at(size), 3) for size in STEP_SIZES}
    return row


def measure_all(split: Split, repeats: int, say: Callable[[str], None]) -> dict[str, object]:
    """Every number of the page."""
    main = [*labelled.one_step(split, repeats=repeats), *labelled.quiet(split, repeats=2 * repeats)]
    rerun, narrowed = Rerunner(narrowed=False), Rerunner(narrowed=True)
    finders: dict[str, Finder] = {
        "asv's regression page, 5 %": asv_page(0.05),
        "asv's regression page, 2.5 %": asv_page(0.025),
        "asv's steps, 2.5 %": asv_steps(0.025),
        "plain threshold, 10 %": plain_threshold(0.10),
        "PELT + rank test + 2.5 %": pelt_and_rank_test,
        "mlxcache": ours,
        "mlxcache + rerun": rerun,
        "mlxcache + rerun, narrowed": narrowed,
    }
    rows = {}
    for name, finder in finders.items():
        started = time.perf_counter()
        score = total(finder, main)
        row = as_row(score)
        if not isinstance(finder, Rerunner):
            row["latency_median"], row["seen_within_3"] = latency(finder, split, 10 * repeats)
        rows[name] = row
        say(f"{name}: F1 {score.f1:.3f} ({time.perf_counter() - started:.0f} s)")
    few = max(1, repeats // 3)
    conditions: dict[str, tuple[list[LabelledSeries], dict[str, Finder]]] = {
        "three rounds a commit": (
            [
                *labelled.one_step(split, repeats=few, rounds=3),
                *labelled.quiet(split, repeats=2 * few, rounds=3),
            ],
            {"mlxcache": ours, "asv's steps, 2.5 %": asv_steps(0.025)},
        ),
        "recovered after 10 to 30 commits": (
            list(labelled.recovered(split, repeats=few)),
            {
                "mlxcache": ours,
                "mlxcache + rerun, narrowed": Rerunner(narrowed=True),
                "asv's regression page, 5 %": asv_page(0.05),
                "asv's steps, 2.5 %": asv_steps(0.025),
            },
        ),
        "two to four changes, both directions": (
            list(labelled.several(split, repeats=few)),
            {
                "mlxcache": ours,
                "mlxcache + rerun, narrowed": Rerunner(narrowed=True),
                "asv's steps, 2.5 %": asv_steps(0.025),
            },
        ),
        "a pool of three runner speeds": (
            list(labelled.pool_of_runners(split, repeats=few)),
            {
                "mlxcache, divided by the control": ours,
                "mlxcache, control ignored": lambda series: ours(series, use_control=False),
                "asv's steps, 2.5 %": asv_steps(0.025),
            },
        ),
    }
    others = {
        condition: {name: as_row(total(finder, corpus)) for name, finder in choices.items()}
        for condition, (corpus, choices) in conditions.items()
    }
    say("other conditions done")
    return {
        "split": split.name.lower(),
        "series_with_a_step": sum(bool(s.steps) for s in main),
        "quiet_series": sum(not s.steps for s in main),
        "quiet_points": sum(len(s) for s in main if not s.steps),
        "detectors": rows,
        "conditions": others,
        "calibration": calibration(split, repeats),
        "rerun": {
            "pairs_a_batch": RERUN_PAIRS,
            "candidates": rerun.candidates,
            "comparisons_a_candidate": round(rerun.comparisons / max(1, rerun.candidates), 2),
            "comparisons_a_candidate_narrowed": round(narrowed.comparisons / max(1, narrowed.candidates), 2),
        },
    }


def markdown_row(name: str, row: dict[str, object]) -> str:
    """One line of the main table."""
    sizes = row["recall_by_size"]
    assert isinstance(sizes, dict)
    seen = f"{row['latency_median']:g} / {row['seen_within_3']:.0%}" if "latency_median" in row else "as above"
    bold = "**" if name.startswith("mlxcache") else ""
    return (
        f"| {bold}{name}{bold} | {row['precision']:.3f} | {row['recall']:.3f} "
        f"| {bold}{row['f1']:.3f}{bold} | "
        f"{' / '.join(f'{value:.2f}' for value in sizes.values())} | {row['false_per_1000']:.2f} | {seen} |"
    )


def replace_tables(page: str, numbers: dict[str, object]) -> str:
    """`page` with everything between the markers made anew."""
    rows, others = numbers["detectors"], numbers["conditions"]
    bins, rerun = numbers["calibration"], numbers["rerun"]
    assert isinstance(rows, dict)
    assert isinstance(others, dict)
    assert isinstance(bins, list)
    assert isinstance(rerun, dict)
    lines = [
        f"{numbers['series_with_a_step']:,} series with one slowdown, {numbers['quiet_series']:,} without "
        f"({numbers['quiet_points']:,} commits), from the {numbers['split']} split.",
        "",
        "| detector | precision | recall | F1 | recall at 3/5/10/20 % | false per 1000 quiet points "
        "| commits until seen (median / within 3) |",
        "|---|---|---|---|---|---|---|",
        *(markdown_row(name, row) for name, row in rows.items()),
        "",
        f"A rerun is {rerun['pairs_a_batch']} ABBA pairs a batch. "
        f"It took {rerun['comparisons_a_candidate']} batches a candidate to decide, "
        f"{rerun['comparisons_a_candidate_narrowed']} with narrowing down to one commit.",
        "",
        "| condition | detector | precision | recall | F1 |",
        "|---|---|---|---|---|",
    ]
    for condition, choices in others.items():
        for name, row in choices.items():
            lines.append(
                f"| {condition} | {name} | {row['precision']:.3f} | {row['recall']:.3f} | {row['f1']:.3f} |"
            )
    lines += ["", "| confidence | changes | stated, mean | right |", "|---|---|---|---|"]
    lines += [
        f"| {b['from']:.1f} to {b['to']:.1f} | {b['changes']} | {b['stated']:.2f} | {b['right']:.2f} |"
        for b in bins
    ]
    start, end = "<!-- tables: begin -->", "<!-- tables: end -->"
    head, rest = page.split(start)
    tail = rest.split(end)[1]
    return f"{head}{start}\n" + "\n".join(lines) + f"\n{end}{tail}"


def main() -> None:
    """Measure, then write both files (or print)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=["tune", "held_out"], default="held_out")
    parser.add_argument("--repeats", type=int, default=10, help="series of each kind; 10 is the committed table")
    parser.add_argument("--print", action="store_true", help="print the tables and write nothing")
    args = parser.parse_args()
    numbers = measure_all(Split[args.split.upper()], args.repeats, lambda line: print(line, flush=True))
    page = ROOT / "docs" / "detector.md"
    text = replace_tables(page.read_text(encoding="utf-8"), numbers)
    if args.print:
        print(text)
        return
    write_atomically(page, text.encode())
    write_atomically(page.with_suffix(".json"), (json.dumps(numbers, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
