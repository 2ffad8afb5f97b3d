"""Fits the confidence's weights and prints them for mlxcache/history/changes/confidence.py.

    python tools/tune_detector.py

Changes are planted into quiet stretches of public histories; only the projects of `planted.TUNED_ON` are read.
The others are for docs/detector.md.
"""

from __future__ import annotations

import argparse
import dataclasses

import numpy as np

from mlxcache.history.changes.segments import Change, Method, find_changes
from mlxcache.history.statistics.noise import FloatArray
from tools import planted
from tools.planted import CORE, Planted
from tools.scoring import Detection, Score, add_scores, is_hit, score_planted

SEEDS = (101, 102, 103)
# Steps at the newest values are planted far more often than they happen, and count for less.
_NEWEST = 0.4


def corpus() -> list[Planted]:
    """Everything the weights are fitted on."""
    return [
        series
        for seed in SEEDS
        for series in planted.corpus(seed, planted.TUNED_ON.__contains__)
        if series.family in CORE or series.family.startswith("newest")
    ]


def collect(every: list[Planted], method: Method) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Evidence of every proposal on the way from all of them to none, whether each is a hit, and how it counts."""
    rows: list[FloatArray] = []
    hits: list[float] = []
    counts: list[float] = []
    everything = dataclasses.replace(method, min_confidence=1.5)
    for series in every:
        seen: list[Change] = []
        find_changes(np.log(series.values), everything, dropped=seen.append)
        for change in seen:
            if change.size >= method.min_change and change.confidence > 0:
                rows.append(change.evidence.vector())
                hits.append(float(is_hit(series, change.index, change.effect.shift)))
                counts.append(_NEWEST if series.family.startswith("newest") else 1.0)
    return np.array(rows), np.array(hits), np.array(counts)


def fit_logistic(rows: FloatArray, hits: FloatArray, counts: FloatArray, ridge: float = 1.0) -> FloatArray:
    """Weights by Newton's method, with a small ridge on all but the constant, each term in its own spread."""
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    mean[0], spread[spread == 0] = 0.0, 1.0
    terms = (rows - mean) / spread
    weights = np.zeros(rows.shape[1])
    penalty = ridge * np.eye(rows.shape[1])
    penalty[0, 0] = 0.0
    for _ in range(100):
        p = 1.0 / (1.0 + np.exp(-terms @ weights))
        gradient = terms.T @ (counts * (hits - p)) - penalty @ weights
        hessian = (terms * (counts * p * (1.0 - p))[:, None]).T @ terms + penalty
        step = np.linalg.solve(hessian, gradient)
        weights += step
        if float(np.abs(step).max()) < 1e-9:
            break
    found: FloatArray = weights / spread
    found[0] -= float((found[1:] * mean[1:]).sum())
    return found


def main() -> None:
    """Fit, then show how the threshold on the confidence trades precision for recall."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--passes", type=int, default=2, help="the weights decide what is dropped first: refit so often"
    )
    args = parser.parse_args()
    every = corpus()
    # At first what the kernel gains decides what is dropped.
    method = dataclasses.replace(Method(), weights=(-3.0, 1.0, *(0.0,) * 6))
    for _ in range(args.passes):
        rows, hits, counts = collect(every, method)
        weights = tuple(round(float(w), 3) for w in fit_logistic(rows, hits, counts))
        method = dataclasses.replace(method, weights=weights)
        print(f"{len(hits)} proposals, {int(hits.sum())} hits: WEIGHTS = {weights}", flush=True)
    core = [series for series in every if series.family in CORE]
    for threshold in (0.4, 0.5, 0.6, 0.7):
        tried = dataclasses.replace(method, min_confidence=threshold)
        total = Score()
        for series in core:
            found = find_changes(np.log(series.values), tried)
            total = add_scores(total, score_planted(series, [Detection(c.index, c.effect.shift) for c in found]))
        print(
            f"min_confidence {threshold}: precision {total.precision:.3f}, recall {total.recall:.3f}, "
            f"F1 {total.f1:.3f}, {total.false_per_1000:.2f} false per 1000 quiet points"
        )


if __name__ == "__main__":
    main()
