"""Fits the confidence's weights on the tuning split and prints them for mlxcache/history/changes/confidence.py.

    python tools/tune_detector.py

The held-out split is for docs/detector.md alone: this tool reads `Split.TUNE` and nothing else.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from mlxcache.history.changes.segments import Change, Method, find_changes, log_values
from mlxcache.history.statistics.noise import FloatArray
from tools import labelled
from tools.labelled import LabelledSeries, Split
from tools.scoring import HIT_WITHIN, Detection, Score, add_scores, score_series


def corpus() -> Iterator[LabelledSeries]:
    """Everything the weights are fitted on; always the tuning split."""
    return itertools.chain(
        labelled.one_step(Split.TUNE),
        labelled.quiet(Split.TUNE),
        labelled.several(Split.TUNE),
        labelled.recovered(Split.TUNE),
    )


def is_hit(series: LabelledSeries, change: Change) -> bool:
    """Whether a true step of the same sign is within reach."""
    return any(
        abs(step.index - change.index) <= HIT_WITHIN and (step.size > 0) == (change.effect.shift > 0)
        for step in series.steps
    )


def collect(all_series: list[LabelledSeries], method: Method) -> tuple[FloatArray, FloatArray]:
    """Evidence of every proposal on the way from all of them to none, and whether each is a hit."""
    rows: list[FloatArray] = []
    hits: list[float] = []
    everything = dataclasses.replace(method, min_confidence=1.5)
    for series in all_series:
        seen: list[Change] = []
        find_changes(log_values(series.values)[0], everything, dropped=seen.append)
        for change in seen:
            if abs(change.effect.shift) >= np.log1p(method.min_change):
                rows.append(change.evidence.vector())
                hits.append(float(is_hit(series, change)))
    return np.array(rows), np.array(hits)


def fit_logistic(rows: FloatArray, hits: FloatArray, ridge: float = 1.0) -> FloatArray:
    """Weights by Newton's method, with a small ridge on all but the constant."""
    weights = np.zeros(rows.shape[1])
    penalty = ridge * np.eye(rows.shape[1])
    penalty[0, 0] = 0.0
    for _ in range(100):
        p = 1.0 / (1.0 + np.exp(-rows @ weights))
        gradient = rows.T @ (hits - p) - penalty @ weights
        hessian = (rows * (p * (1.0 - p))[:, None]).T @ rows + penalty
        step = np.linalg.solve(hessian, gradient)
        weights += step
        if float(np.abs(step).max()) < 1e-9:
            break
    return weights


def main() -> None:
    """Fit, then show how the threshold on the confidence trades precision for recall."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--passes", type=int, default=3, help="the weights decide what is dropped first: refit so often"
    )
    args = parser.parse_args()
    all_series = list(corpus())
    method = Method()
    for _ in range(args.passes):
        rows, hits = collect(all_series, method)
        weights = tuple(round(float(w), 3) for w in fit_logistic(rows, hits))
        method = dataclasses.replace(method, weights=weights)
        print(f"{len(hits)} proposals, {int(hits.sum())} hits: WEIGHTS = {weights}")
    single = [s for s in all_series if len(s.steps) <= 1]
    for threshold in (0.2, 0.3, 0.4, 0.5, 0.6):
        tried = dataclasses.replace(method, min_confidence=threshold)
        total = Score()
        for series in single:
            found = find_changes(log_values(series.values)[0], tried)
            total = add_scores(total, score_series(series, [Detection(c.index, c.effect.shift) for c in found]))
        print(
            f"min_confidence {threshold}: precision {total.precision:.3f}, recall {total.recall:.3f}, "
            f"F1 {total.f1:.3f}, {total.false_per_1000:.2f} false per 1000 quiet points"
        )


if __name__ == "__main__":
    main()
