"""How far two measurements of one commit lie apart: A/A, by the estimator and over the control.

    python tools/aa.py --pairs 20 --out docs/aa/quiet.json
    python tools/aa.py --pairs 20 --busy 2 --out docs/aa/busy.json    # with two processes that burn a core each

Each measurement is a run of `mlxcache bench` of its own: new processes, its own control. Each is compared with the
one before it. Reported per pair: the median over the decode and prefill series of how far the two differ, for the
series over their control and, to show what that is worth, for plain seconds of the same steps.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from mlxcache.history import load
from mlxcache.runner.estimator import low_quantile
from mlxcache.support.atomic import write_atomically

SUITE = r"(decode|prefill)\.Relative\.|decode\.Decode\.time_step\(.*(64|128), (128|1024)\)"
RATIO = ".Relative.track_over_control"


def main() -> int:
    """Measure, print a table, write every difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--commit", default="HEAD", help="what to measure (default: %(default)s)")
    parser.add_argument("--busy", type=int, default=0, help="processes that burn a core each meanwhile")
    parser.add_argument("--out", type=Path, required=True, help="where to write the figures (JSON)")
    args = parser.parse_args()
    resolve = ["git", "rev-parse", args.commit]
    commit = subprocess.run(resolve, capture_output=True, text=True, check=True).stdout.strip()
    _measure(commit)  # builds the environment, and is thrown away
    burners = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(args.busy)]
    for burner in burners:
        burner.start()
    loads, pairs = [], []
    try:
        measured = _measure(commit)
        for number in range(args.pairs):
            print(f"pair {number + 1} of {args.pairs}", file=sys.stderr)
            again = _measure(commit)
            pairs.append(_differences(measured, again))
            measured = again
            loads.append(round(os.getloadavg()[0], 2))
    finally:
        for burner in burners:
            burner.terminate()
    differences = {name: [round(pair[name], 5) for pair in pairs] for name in pairs[0]}
    for name, values in differences.items():
        print(f"{name:24} median {np.median(values):6.2%}   worst {max(values):6.2%}   over {len(values)} pairs")
    print(f"{'load average':24} median {np.median(loads):6.2f}   worst {max(loads):6.2f}")
    report = {"commit": commit, "busy": args.busy, "load": loads, "differences": differences}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(args.out, (json.dumps(report, indent=1) + "\n").encode())
    return 0


def _differences(a: pd.Series, b: pd.Series) -> dict[str, float]:
    apart = np.abs(np.log(a / b))
    ratios = apart.index.str.contains(RATIO, regex=False)
    return {"over the control": float(apart[ratios].median()), "seconds": float(apart[~ratios].median())}


def _measure(commit: str) -> pd.Series:
    """The estimate of every series in one run."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mlxcache.cli", "bench", f"{commit}^!", "--results", folder]
        done = subprocess.run([*command, "--bench", SUITE], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"mlxcache bench ended with status {done.returncode}:\n{done.stdout}\n{done.stderr}")
        table = load(folder, samples=True, cache=False, show_progress=False)
    table = table[table["status"] == "ok"]
    names = [f"{name}({params})" for name, params in zip(table["benchmark"], table["params"], strict=True)]
    rows = zip(table["value"], table["samples"], strict=True)
    estimates = [low_quantile(s) if s is not None and len(s) > 1 else float(v) for v, s in rows]
    return pd.Series(estimates, index=names)


def _burn() -> None:
    while True:
        sum(range(100_000))


if __name__ == "__main__":
    sys.exit(main())
