"""One of two commits in an environment of its own: installed, listed, run, and proved to be what it says.

asv promises no API. What is used of it here (environments, its spawner, run_benchmark) is what `asv run` itself is
made of. Its discovery is not used: when a suite cannot be imported it installs the tips of the configured branches
into the same environment and goes on, so that another commit is measured under this one's name.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asv import util
from asv.runner import get_spawner, run_benchmark

from mlxcache.counters.asv_suite import count_entry, counter_of, counting_spawner
from mlxcache.history.asv.facts import stable_params
from mlxcache.remeasure.suites import Suite

_LISTING = str(Path(__file__).with_name("suite_listing.py"))
# Of four samples or more the lower quartile counts: machines have slow modes, and it repeats where the median
# wanders.
_QUARTILE_FROM = 4
_KEPT_LINES = 6


class DriverError(Exception):
    """Something that ends the measuring, with words for the user."""


@dataclass(frozen=True)
class Broken:
    """A file of the suite that cannot be imported: its name, why, and python's whole account of it."""

    file: str
    reason: str
    trace: str


@dataclass(frozen=True)
class Listing:
    """What a suite has on one side.

    `benchmarks` are asv's entries by name; `broken` the files that cannot be imported, by module; `packages` what
    is installed there; `checkout` modules that came from beside the suite although they are installed.
    """

    suite: Suite
    benchmarks: dict[str, dict[str, Any]]
    broken: dict[str, Broken]
    packages: dict[str, str]
    checkout: tuple[str, ...]
    python: str


@dataclass(frozen=True)
class Value:
    """One parameter set's outcome: None failed, NaN was skipped."""

    params: str
    value: float | None
    samples: int


def labels(benchmark: dict[str, Any]) -> list[str]:
    """A benchmark's parameter sets by name, in asv's order; one "" where it has no parameters."""
    return [", ".join(choice) for choice in itertools.product(*stable_params(benchmark["params"]))]


def last_lines(text: str, count: int = _KEPT_LINES) -> str:
    """The end of what a program said, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-count:])


def reason_in(said: str) -> str:
    """The line in a build's output that says what was wrong, or its last ones."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"(?i)\b(error|exception|fatal|not found|no such)\b", line)]
    # The first error is the cause; what follows is everybody who fell over it.
    return " / ".join([*telling[:2], *lines[-2:]][:4]) if telling else last_lines(said, 3)


@dataclass
class Side:
    """A role ("base" or "head") and the environment that belongs to it; `commit` is "" until `install`."""

    role: str
    env: Any
    conf: Any
    repo: Any
    commit: str = ""
    _caches: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _complaints: dict[tuple[str, str], str] = field(default_factory=dict)
    _listings: dict[str, Listing] = field(default_factory=dict)

    @property
    def called(self) -> str:
        """For messages."""
        return f"{self.role} {self.commit[:10]}"

    def install(self, commit: str) -> None:
        """Have asv build and install a commit; what was made for another one goes.

        Raises:
            DriverError: it cannot be built; names side, commit and environment.
        """
        if commit != self.commit:
            self.forget()
        self.commit = commit
        try:
            self.env.create()
        except util.ProcessError as error:
            said = f"{error.stdout or ''}\n{error.stderr or ''}"
            raise DriverError(
                f"the environment {self.env.name} for {self.called} cannot be made: {reason_in(said)}"
            ) from error
        try:
            self.env.install_project(self.conf, self.repo, commit)
        except util.ProcessError as error:
            said = f"{error.stdout or ''}\n{error.stderr or ''}"
            reason = reason_in(said) or f"exit status {error.retcode}"
            raise DriverError(f"{self.called} cannot be built in {self.env.name}: {reason}") from error
        self.prove()

    def prove(self) -> str:
        """The commit that asv's own record says is installed, read anew from the disk.

        Raises:
            DriverError: it is another one.
        """
        there = self.env.installed_commit_hash
        if there != self.commit:
            raise DriverError(
                f"{self.env.name} of {self.role} holds {(there or 'nothing that asv knows of')[:10]} and should "
                f"hold {self.commit[:10]}: something else installed into it. Nothing of this comparison can be "
                "trusted; run it again"
            )
        return str(there)

    def list_suite(self, suite: Suite) -> Listing:
        """What the suite has when this side imports it.

        Raises:
            DriverError: not even a list could be made.
        """
        known = self._listings.get(str(suite.folder))
        if known is None:
            known = self._list(suite)
            self._listings[str(suite.folder)] = known
        return known

    def _list(self, suite: Suite) -> Listing:
        left_out: list[str] = []
        while True:
            folder = tempfile.mkdtemp()
            result = Path(folder) / "list.json"
            said, _, status = self.env.run(
                [_LISTING, str(suite.folder), str(result), *left_out],
                dots=False,
                display_error=False,
                return_stderr=True,
                redirect_stderr=True,
                valid_return_codes=None,
                cwd=folder,
                env={**os.environ, **self.env.env_vars},
            )
            if result.is_file():
                facts = json.loads(result.read_text(encoding="utf-8"))
                shutil.rmtree(folder, ignore_errors=True)
                break
            mark = Path(f"{result}.importing")
            module = mark.read_text(encoding="utf-8") if mark.is_file() else ""
            shutil.rmtree(folder, ignore_errors=True)
            # A file that ends the interpreter is left out next time; anything else will not get better.
            if not module or module in left_out:
                raise DriverError(
                    f"the suite ({suite.name}) cannot be listed on {self.called} in {self.env.name}: "
                    f"{last_lines(said) or f'exit status {status}'}"
                )
            left_out.append(module)
        broken = {
            module: Broken(
                _file_of(module, suite), each["reason"], each["trace"].replace(str(suite.folder.parent), "")
            )
            for module, each in facts["broken"].items()
        }
        for module, each in broken.items():
            print(f"{self.called}: {module} cannot be imported\n{each.trace}", flush=True)
        entries = facts["benchmarks"]
        if counter_of(self.env.env_vars) is not None:  # an environment of counts has counts only
            entries = [count for entry in entries if (count := count_entry(entry)) is not None]
        return Listing(
            suite,
            {entry["name"]: entry for entry in entries},
            broken,
            facts["packages"],
            tuple(facts["checkout"]),
            facts["python"],
        )

    def run(
        self, suite: Suite, benchmark: dict[str, Any], chosen: list[int] | None
    ) -> tuple[list[Value], str, float]:
        """Run a benchmark once in a new process; its values, what it said, and the seconds of a setup_cache.

        `chosen` are the places of the parameter sets to run, None for a benchmark without parameters.
        """
        spent = 0.0
        folder = None
        name, key = str(benchmark["name"]), benchmark.get("setup_cache_key")
        if benchmark.get("timeout") is None:
            benchmark["timeout"] = self.conf.default_benchmark_timeout
        spawner = self._spawner(suite)
        if key is not None:
            folder, spent = self._cache(spawner, suite, key, benchmark)
            if folder is None:
                failed = [Value(label, None, 0) for label in _chosen(labels(benchmark), chosen)]
                return failed, self._complaints[str(suite.folder), key], spent
        result = run_benchmark(
            benchmark, spawner, profile=False, selected_idx=chosen, extra_params={"rounds": 1}, cwd=folder
        )
        places = range(len(result.result)) if chosen is None else chosen
        names = labels(benchmark)
        values = [_value(names[place], result.result[place], result.samples[place]) for place in places]
        said = result.stderr or ""
        if result.errcode and not said:
            said = f"{name} ended with status {result.errcode} and said nothing"
        return values, said, spent

    def _spawner(self, suite: Suite) -> Any:
        counter = counter_of(self.env.env_vars)
        if counter is None:
            return get_spawner(self.env, str(suite.folder), launch_method=None)
        folder = str(suite.folder)
        return counting_spawner(
            self.env, folder, counter, lambda: get_spawner(self.env, folder, launch_method=None)
        )

    def _cache(self, spawner: Any, suite: Suite, key: str, benchmark: dict[str, Any]) -> tuple[str | None, float]:
        """The folder of a setup_cache, made once for this commit; None if that failed."""
        import time

        place = (str(suite.folder), key)
        if place in self._caches:
            return self._caches[place], 0.0
        began = time.monotonic()
        limit = max(benchmark.get("setup_cache_timeout") or 0, benchmark["timeout"])
        made, said = spawner.create_setup_cache(benchmark["name"], limit, json.dumps({"cpu_affinity": None}))
        self._caches[place] = made
        self._complaints[place] = said or ""
        return made, time.monotonic() - began

    def forget(self) -> None:
        """Remove the caches, and forget what the suites had: the next commit makes its own."""
        for folder in self._caches.values():
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        self._caches.clear()
        self._complaints.clear()
        self._listings.clear()


def _file_of(module: str, suite: Suite) -> str:
    """A module of a suite as the file that a reader knows."""
    path = suite.folder.parent.joinpath(*module.split("."))
    found = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return found.relative_to(suite.folder.parent).as_posix()


def _chosen(names: list[str], chosen: list[int] | None) -> list[str]:
    return names if chosen is None else [names[place] for place in chosen]


def _value(label: str, result: Any, samples: Any) -> Value:
    numbers = [float(sample) for sample in samples] if samples else []
    if numbers:
        return Value(label, _summary(numbers), len(numbers))
    is_number = isinstance(result, int | float) and not isinstance(result, bool)
    return Value(label, float(result) if is_number else None, 0)


def _summary(samples: list[float]) -> float:
    """The lower quartile of four samples or more, else the median, as asv takes it."""
    ordered = sorted(samples)
    place = (len(ordered) - 1) * (0.25 if len(ordered) >= _QUARTILE_FROM else 0.5)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
