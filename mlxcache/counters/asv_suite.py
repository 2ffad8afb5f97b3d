"""Counts of an asv suite's `time_` benchmarks: `decode.Decode.time_step` gets `decode.Decode.count_step`.

    count_instead(["decode"], choose())      # in a process that is about to run asv

From then on this process's asv finds the counts in place of the suite, and runs each as it would run the
benchmark, in a process that counts. Results, parameters, skips, time limits and benchmarks.json stay asv's
business. The suite is not touched.

asv promises no API. What is used of it is `Benchmarks.discover` and its constructor, `runner.get_spawner` and
`Spawner`; all of it is in this file.
"""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .choosing import of_series_name, series_name
from .counter import Counter
from .counting import ASV_CHILD, LAUNCH, what_was_said
from .tracked import VERSION

# Goes into the environment's name, so that two counters or instruction sets never share a series.
VARIABLE = "MLXCACHE_COUNTER"
UNIT = "instructions"
PREFIX = "count_"
# A counted step takes about fifty times as long.
SLOWER = 20
LEAST_TIMEOUT = 300


def count_name(benchmark: str) -> str:
    """The count's name of a `time_` benchmark, "" for any other."""
    before, dot, last = benchmark.rpartition(".")
    for timed, count in (("time_", PREFIX), ("Time", "Count")):
        if last.startswith(timed) and len(last) > len(timed):
            return before + dot + count + last[len(timed) :]
    return ""


def timed_name(count: str) -> str:
    """The `time_` benchmark that a count is of, "" for a name that is no count's; takes "name-3" too."""
    before, dot, last = count.rpartition(".")
    for timed, prefix in (("time_", PREFIX), ("Time", "Count")):
        if last.startswith(prefix) and len(last) > len(prefix):
            return before + dot + timed + last[len(prefix) :]
    return ""


def count_entry(entry: dict[str, Any]) -> dict[str, Any] | None:
    """What benchmarks.json says of the count of a benchmark; None for one that asv does not time."""
    name = count_name(entry["name"])
    if entry.get("type") != "time" or not name:
        return None
    kept = ("code", "param_names", "params", "setup_cache_key", "setup_cache_timeout", "pretty_name")
    found = {key: entry[key] for key in kept if key in entry}
    timeout = entry.get("timeout")
    return {
        **found,
        "name": name,
        "type": "track",
        "unit": UNIT,
        "version": str(entry.get("version")) + VERSION,
        "timeout": max(LEAST_TIMEOUT, SLOWER * float(timeout)) if timeout else None,
        "rounds": 1,
    }


def _selected(entry: dict[str, Any], names: Iterable[str], patterns: Sequence[str]) -> list[int]:
    """Which parameter sets one of the patterns finds, under any of the names; [0] for one without parameters."""
    sets = list(itertools.product(*entry["params"])) if entry["params"] else [()]
    found = []
    for index, params in enumerate(sets):
        texts = [f"{name}({', '.join(params)})" if entry["params"] else name for name in names]
        if not patterns or any(re.search(pattern, text) for pattern in patterns for text in texts):
            found.append(index)
    return found


def count_instead(patterns: Sequence[str], counter: Counter) -> None:
    """Make this process's asv discover and run counts, of the `time_` benchmarks that `patterns` find."""
    import asv.benchmarks
    import asv.runner

    discover = asv.benchmarks.Benchmarks.discover.__func__

    def discover_counts(
        cls: Any, conf: Any, repo: Any, environments: Any, commits: Any, regex: Any = None, check: bool = False
    ) -> Any:
        suite = discover(cls, conf, repo, environments, commits, regex=None, check=check)
        chosen = [regex] if isinstance(regex, str) else list(regex or [])
        entries = list(suite.values())
        counts = [entry for entry in map(count_entry, entries) if entry is not None]
        whole = cls(conf, [*entries, *counts])
        wanted: dict[str, list[int]] = {}
        for entry in counts:
            names = (entry["name"], timed_name(entry["name"]))
            both = set(_selected(entry, names, patterns)) & set(_selected(entry, names, chosen))
            if both:
                wanted[entry["name"]] = sorted(both)
        left = whole.filter_out(set(whole) - set(wanted))
        for name, places in wanted.items():
            left.benchmark_selection[name] = places if whole[name]["params"] else None
        return left

    asv.benchmarks.Benchmarks.discover = classmethod(discover_counts)
    spawner_of = asv.runner.get_spawner

    def get_spawner(env: Any, benchmark_dir: str, launch_method: Any) -> Any:
        return counting_spawner(env, benchmark_dir, counter, lambda: spawner_of(env, benchmark_dir, launch_method))

    asv.runner.get_spawner = get_spawner


def counting_spawner(env: Any, benchmark_dir: str, counter: Counter, plain: Callable[[], Any]) -> Any:
    """One of asv's spawners, which starts counts in a process that counts and the rest by `plain()`'s spawner."""
    import asv.runner

    other = _Later(plain)

    class Counting(asv.runner.Spawner):  # type: ignore[misc]
        def create_setup_cache(self, benchmark_id: str, timeout: float, params_str: str) -> Any:
            return super().create_setup_cache(timed_name(benchmark_id) or benchmark_id, timeout, params_str)

        def run(self, name: str, params_str: str, profile_path: str, result_file_name: str, **rest: Any) -> Any:
            timed = timed_name(name)
            if not timed:
                return other().run(name, params_str, profile_path, result_file_name, **rest)
            with tempfile.TemporaryDirectory(prefix="mlxcache-count-") as folder:
                with _through(self.env, [LAUNCH, counter.name, folder, ASV_CHILD, counter.name, folder]):
                    out, status = super().run(timed, params_str, "None", result_file_name, **rest)
                said = what_was_said(Path(folder)) if status else ""
            return "\n".join(part for part in (out, said) if part), status

        def close(self) -> None:
            other.close()

    return Counting(env, benchmark_dir)


class _Later:
    """asv's own spawner, started when it is first needed: a fork server imports the suite."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._made: Any = None

    def __call__(self) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made

    def close(self) -> None:
        if self._made is not None:
            self._made.close()


class _through:  # noqa: N801, a context manager reads like a word
    """Let an asv environment run its next program by way of `words`."""

    def __init__(self, env: Any, words: list[str]) -> None:
        self._env, self._words = env, words

    def __enter__(self) -> None:
        run = self._env.run
        self._env.run = lambda args, **kwargs: run([*self._words, *args], **kwargs)

    def __exit__(self, *exc: Any) -> None:
        del self._env.run


def set_counter(config: Any, counter: Counter) -> None:
    """Let the name of a loaded asv configuration's environments tell the counter and the instruction set."""
    config.matrix.setdefault("env_nobuild", {})[VARIABLE] = [series_name(counter)]


def counter_label(environment: str) -> str:
    """The counter's part of an environment's name, "" where there is none."""
    match = re.search(rf"(?:^|-){VARIABLE}([^-]*)", environment)
    return match[1] if match else ""


def counter_of(variables: Mapping[str, str]) -> Counter | None:
    """The counter that an environment's variables name, None where they name none."""
    label = variables.get(VARIABLE, "")
    return of_series_name(label) if label else None


def count_pattern(pattern: str) -> str:
    """A regular expression for counts from one for the `time_` benchmarks that they are of."""
    return re.sub(r"(?<![A-Za-z])time_", PREFIX, pattern)
