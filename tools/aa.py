"""How far two measurements of one commit lie apart: A/A, by the estimator and over the control.

    python tools/aa.py --pairs 20 --out docs/aa/quiet.json
    python tools/aa.py --pairs 20 --busy 2 --out docs/aa/busy.json    # with two processes that burn a core each

Each of the two measurements of a pair is a run of `mlxcache bench` of its own: new processes, its own control.
Reported per pair: the median over the decode and prefill series of how far the two differ.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from mlxcache.history import load
from mlxcache.history.estimator import low_quantile

# Contexts to 4096: filling 32768 tokens of context takes longer than measuring.
SUITE = r"control\.|decode\.Decode\.time_step\(.*, (128|1024|4096)\)|prefill\.Prefill.*(16|128), "
CONTROL = "control.Control.time_mlx"
ESTIMATORS: dict[str, Callable[[np.ndarray], float]] = {
    "low": low_quantile,
    "median": lambda x: float(np.median(x)),
}


def main() -> int:
    """Measure, print a table, write every ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--busy", type=int, default=0, help="processes that burn a core each meanwhile")
    parser.add_argument("--out", type=Path, required=True, help="where to write the figures (JSON)")
    args = parser.parse_args()
    burners = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(args.busy)]
    for burner in burners:
        burner.start()
    try:
        pairs = [_pair(args.rounds, number, args.pairs) for number in range(args.pairs)]
    finally:
        for burner in burners:
            burner.terminate()
    report = {"pairs": args.pairs, "rounds": args.rounds, "busy": args.busy, "load": os.getloadavg()[0]}
    report["differences"] = {name: [round(pair[name], 5) for pair in pairs] for name in pairs[0]}
    for name, values in report["differences"].items():
        print(f"{name:28} median {np.median(values):6.2%}   worst {max(values):6.2%}   over {len(values)} pairs")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    beside = args.out.with_suffix(".tmp")
    beside.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    beside.replace(args.out)
    return 0


def _pair(rounds: int, number: int, of: int) -> dict[str, float]:
    print(f"pair {number + 1} of {of}", file=sys.stderr)
    a, b = (_measure(rounds) for _ in range(2))
    found = {}
    for name, estimate in ESTIMATORS.items():
        first, second = a.map(estimate), b.map(estimate)
        bare = _apart(first, second)
        over = _apart(first / first[CONTROL], second / second[CONTROL])
        found[f"{name}, seconds"], found[f"{name}, over the control"] = bare, over
    return found


def _apart(a: pd.Series, b: pd.Series) -> float:
    series = [name for name in a.index if not name.startswith("control.")]
    return float(np.median(np.abs(np.log(a[series] / b[series]))))


def _measure(rounds: int) -> pd.Series:
    """All samples of one run, by series."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mlxcache.cli", "bench", "HEAD^!", "--results", folder, "--bench", SUITE]
        done = subprocess.run([*command, "--rounds", str(rounds)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"mlxcache bench ended with status {done.returncode}:\n{done.stdout}\n{done.stderr}")
        table = load(folder, samples=True, cache=False, show_progress=False)
    table = table[table["status"] == "ok"]
    names = table["benchmark"].astype(str) + table["params"].astype(str).map(lambda p: f"({p})" if p else "")
    return pd.Series(list(table["samples"]), index=list(names))


def _burn() -> None:
    while True:
        sum(range(100_000))


if __name__ == "__main__":
    sys.exit(main())
