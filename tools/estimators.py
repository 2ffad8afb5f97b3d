"""How well a ratio repeats: a decode step over the bare step, by estimator, number of pairs and load.

    taskset -c 1 python -m tools.estimators                        # a quiet machine
    taskset -c 1 python -m tools.estimators --busy 8 --seconds 40  # beside eight processes that burn a core each

Pairs are taken in turn, A B B A, as `benchmarks.common.ratio` does; each estimator is applied to one group of
pairs after the other. Shown is the standard deviation of the groups' log ratios: what two runs differ by.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import Step, interleaved, timed
from benchmarks.control import BareSteps

Samples = np.ndarray
PAIRS = (200, 400, 800, 1600)


def quantile(at: float) -> Callable[[Samples, Samples], float]:
    """The ratio of two quantiles."""
    return lambda a, b: float(np.quantile(a, at) / np.quantile(b, at))


def of_pairs(a: Samples, b: Samples) -> float:
    """The mean of the middle half of the pairs' ratios."""
    ratios = np.sort(np.log(a / b))
    quarter = len(ratios) // 4
    return float(np.exp(ratios[quarter : len(ratios) - quarter].mean()))


def of_blocks(size: int) -> Callable[[Samples, Samples], float]:
    """The same of the least of so many samples that follow each other."""

    def estimate(a: Samples, b: Samples) -> float:
        blocks = len(a) // size
        least = (side[: blocks * size].reshape(blocks, size).min(axis=1) for side in (a, b))
        return of_pairs(*least)

    return estimate


ESTIMATORS = {
    "5 % quantile": quantile(0.05),
    "quartile": quantile(0.25),
    "median": quantile(0.5),
    "pairs": of_pairs,
    "least of 4": of_blocks(4),
    "least of 8": of_blocks(8),
}


def spread(a: Samples, b: Samples, pairs: int, estimate: Callable[[Samples, Samples], float]) -> float:
    """The standard deviation of the log ratio over groups of so many pairs."""
    groups = range(0, len(a) - pairs + 1, pairs)
    return float(np.std([np.log(estimate(a[i : i + pairs], b[i : i + pairs])) for i in groups]))


def _burn() -> None:
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    while True:
        sum(range(100_000))


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=int, default=0, help="processes that burn a core each meanwhile")
    parser.add_argument("--seconds", type=float, default=20.0)
    args = parser.parse_args()
    burners = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(args.busy)]
    for burner in burners:
        burner.start()
    step, bare = Step("int32", 1024), BareSteps()
    taken = interleaved([timed(step, step.rewind), timed(bare)], 10**6, args.seconds)
    for burner in burners:
        burner.terminate()
    a, b = (np.array(seconds) for seconds in taken)
    print(f"{len(a)} pairs, load {os.getloadavg()[0]:.1f}; standard deviation in per cent")
    print("pairs".rjust(14) + "".join(f"{pairs:>8}" for pairs in PAIRS))
    for name, estimate in ESTIMATORS.items():
        print(name.rjust(14) + "".join(f"{spread(a, b, pairs, estimate):8.2%}" for pairs in PAIRS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
