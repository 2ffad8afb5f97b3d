"""Fits the confidence's weights, and those of docs/detector.md, which never saw the project that they judge.

    python -m tools.tune_detector            # prints WEIGHTS, writes tools/noise/weights.json

Changes are planted into quiet stretches of public histories. WEIGHTS, for mlxcache/history/changes/confidence.py,
are of all projects; weights.json holds a fit without each of `planted.FOLDS`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json

import numpy as np

from mlxcache.history.changes.segments import Change, Method, find_changes
from mlxcache.history.statistics.noise import FloatArray
from mlxcache.support.atomic import write_atomically
from tools import planted
from tools.planted import CORE, FOLDS, Planted
from tools.scoring import is_hit

SEEDS = (101, 102)
WEIGHTS_FILE = planted.FOLDER / "weights.json"
# Steps at the newest values are planted far more often than they happen, and count for less; so does noise that a
# model made.
_NEWEST = 0.4
_MADE = 0.15
_PLANTED_MADE = ("slow spells", "slow spells, step", "growing noise", "three speeds", "wild ends, step")


def corpus() -> list[Planted]:
    """Everything the weights are fitted on."""
    return [series for seed in SEEDS for series in planted.corpus(seed) if counts_for(series)]


def counts_for(series: Planted) -> float:
    """How much a series' proposals count."""
    if series.family in CORE:
        return 1.0
    return _NEWEST if series.family.startswith("newest") else _MADE if series.family in _PLANTED_MADE else 0.0


def collect(every: list[Planted], method: Method) -> tuple[FloatArray, FloatArray, FloatArray, list[str]]:
    """Evidence of proposals, whether each is a hit, how it counts, and its project.

    Of every proposal on the way from all of them to none, and once more of those that a rerun would look at.
    """
    rows: list[FloatArray] = []
    hits: list[float] = []
    counts: list[float] = []
    trees: list[str] = []
    everything = dataclasses.replace(method, min_confidence=1.5)
    for series in every:
        x = np.log(series.values)
        seen: list[Change] = []
        find_changes(x, everything, dropped=seen.append)
        seen += find_changes(x, method.for_rerun())
        for change in seen:
            if change.size >= method.min_change and change.confidence > 0:
                rows.append(change.evidence.vector())
                hits.append(float(is_hit(series, change.index, change.effect.shift)))
                counts.append(counts_for(series))
                trees.append(series.tree)
    return np.array(rows), np.array(hits), np.array(counts), trees


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


def held_back(tree: str) -> tuple[float, ...]:
    """The weights that were fitted without a project."""
    found = json.loads(WEIGHTS_FILE.read_text(encoding="utf-8"))
    return tuple(found[next(fold[0] for fold in FOLDS if tree in fold)])


def main() -> None:
    """Fit on all projects and without each fold."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rows, hits, counts, trees = collect(corpus(), Method())
    print(f"{len(hits)} proposals, {int(hits.sum())} hits")

    def fitted(*without: str) -> list[float]:
        kept = ~np.isin(trees, without)
        return [round(float(w), 3) for w in fit_logistic(rows[kept], hits[kept], counts[kept])]

    print(f"WEIGHTS = {tuple(fitted())}")
    write_atomically(
        WEIGHTS_FILE, (json.dumps({fold[0]: fitted(*fold) for fold in FOLDS}, indent=1) + "\n").encode()
    )


if __name__ == "__main__":
    main()
