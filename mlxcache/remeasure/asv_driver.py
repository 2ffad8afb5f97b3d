"""Runs two commits of an asv project in turn; a program of its own, which `driver_process` starts.

It reads plans from standard input, one JSON object a line, and writes events to standard output, one JSON object a
line; each plan ends with "done" or "error". What asv prints goes to standard error. It ends when its input does.

asv's own `run --interleave-rounds` alternates whole suites and installs anew at each turn, so minutes lie between
the two runs that are compared. Here each commit has an environment of its own, built once by asv's own code, and
one benchmark runs base, head, head, base, ... within seconds; every run is a new process, as always with asv.

The environments lie in `<env_dir>/compare`, which one driver at a time may use. All else that it makes lies in the
folder named by TMPDIR, and goes with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import math
import os
import re
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from asv import environment, util
from asv.config import Config
from asv.machine import Machine, MachineCollection
from asv.plugin_manager import plugin_manager
from asv.repo import get_repo

from mlxcache.counters.asv_suite import VARIABLE as COUNTER_VARIABLE
from mlxcache.counters.asv_suite import counter_label
from mlxcache.history.asv.facts import default_unit
from mlxcache.remeasure.asv_side import DriverError, Listing, Side, last_lines
from mlxcache.remeasure.pairing import Pairing, Run, Selection, Work, pair
from mlxcache.remeasure.suites import Suite, SuiteError, SuiteSource
from mlxcache.support.folder_lock import FolderBusyError, folder_lock
from mlxcache.support.git import run_git
from mlxcache.support.names import series_name
from mlxcache.support.sessions import end_session, end_with

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# How often whoever waits for another driver is told.
_TELL_EVERY_S = 30.0


class Stopped(BaseException):
    """A signal asked this process to end. No KeyboardInterrupt, which asv would turn into an error of its own."""


class _Heard(logging.Handler):
    """Keeps asv's warnings, such as that a Python is missing, which it would pass over."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.lines.append(" ".join(record.getMessage().split()))


class Workshop:
    """What lives as long as the driver: environments, suites on disk, caches."""

    def __init__(self, say: TextIO) -> None:
        self._say = say
        self._scratch = Path(tempfile.gettempdir())
        self._pairs: dict[tuple[str, ...], list[tuple[Side, Side]]] = {}
        self._suites: dict[str, Suite | None] = {}
        self._pruned: dict[str, Suite] = {}
        self._held = contextlib.ExitStack()
        self._locked: Path | None = None

    def event(self, kind: str, **facts: Any) -> None:
        """Tell one thing."""
        self._say.write(json.dumps({"event": kind, **facts}) + "\n")
        self._say.flush()

    def close(self) -> None:
        """Let the next driver in."""
        self._held.close()

    def pairs(self, config: Path, specs: list[str], variables: dict[str, str]) -> list[tuple[Side, Side]]:
        """Base's and head's sides, one pair an environment."""
        key = (str(config), *specs, *map(str, variables.items()))
        if key not in self._pairs:
            heard = _Heard()
            logging.getLogger().addHandler(heard)
            try:
                conf, base = _environments(config, "base", specs, variables, heard)
                told = list(dict.fromkeys(heard.lines))
                _, head = _environments(config, "head", specs, variables, heard)
            finally:
                logging.getLogger().removeHandler(heard)
            self._lock(Path(conf.env_dir).parent)
            for line in told:
                self.event("notice", text=f"asv: {line}")
            repo = _repository(conf)
            self._pairs[key] = [
                (Side("base", one, conf, repo), Side("head", other, conf, repo))
                for one, other in zip(base, head, strict=True)
            ]
        return self._pairs[key]

    def _lock(self, folder: Path) -> None:
        if self._locked == folder:
            return
        self._held.close()
        folder.mkdir(parents=True, exist_ok=True)
        wait = 0.0
        while True:
            try:
                self._held.enter_context(folder_lock(folder, wait))
                break
            except FolderBusyError as error:
                holder = re.search(r"process (\w+)", str(error))
                _parent_lives()
                self.event("waiting", folder=str(folder), process=holder[1] if holder else "unknown")
                wait = _TELL_EVERY_S
        self._locked = folder

    def suite_of(self, source: SuiteSource, commit: str) -> Suite | None:
        """A commit's suite on disk, None where it has none."""
        if commit not in self._suites:
            place = self._scratch / f"suite-{len(self._suites)}" / "tree"
            self._suites[commit] = source.write(commit, place)
        return self._suites[commit]

    def listing(self, side: Side, suite: Suite) -> Listing:
        """What a suite has on one side, from a copy without the files that cannot be imported there.

        asv looks for a benchmark with a name of its own in every file.
        """
        found = side.list_suite(suite)
        if not found.broken or not suite.commit or suite.folder.name in found.broken:
            return found
        key = f"{suite.folder} {' '.join(sorted(found.broken))}"
        if key not in self._pruned:
            depth = len(Path(os.path.relpath(suite.folder, self._scratch)).parts)
            top = self._scratch.joinpath(
                *Path(os.path.relpath(suite.folder, self._scratch)).parts[: min(2, depth)]
            )
            copy = self._scratch / f"part-{len(self._pruned):x}" / "tree"
            shutil.copytree(top, copy, symlinks=True, copy_function=_link)
            folder = copy / suite.folder.relative_to(top)
            for module in found.broken:
                path = folder.parent.joinpath(*module.split("."))
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.with_suffix(".py").unlink(missing_ok=True)
            self._pruned[key] = Suite(folder, suite.commit, suite.tree)
        return Listing(
            self._pruned[key], found.benchmarks, found.broken, found.packages, found.checkout, found.python
        )


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _environments(
    config: Path, folder: str, specs: list[str], variables: dict[str, str], heard: _Heard
) -> tuple[Any, list[Any]]:
    """The project's environments, below `folder`: base and head have folders of equally long names."""
    try:
        conf = Config.load(str(config))
    except ValueError as error:
        raise DriverError(f"{config} is no configuration of asv: {error}") from error
    for plugin in getattr(conf, "plugins", []):
        plugin_manager.import_plugin(plugin)
    for name, value in variables.items():
        if name in (conf.matrix.get("env_nobuild") or {}):  # another project has no use for it
            conf.matrix["env_nobuild"][name] = [value]
    counted = {variables.get(COUNTER_VARIABLE, ""), *map(counter_label, specs)} - {""}
    if counted:  # any project's benchmarks can be counted
        conf.matrix.setdefault("env_nobuild", {})[COUNTER_VARIABLE] = sorted(counted)
    _recall(conf, specs)
    conf.env_dir = os.path.join(os.path.abspath(conf.env_dir), "compare", folder)  # noqa: PTH100, PTH118, asv wants text
    try:
        found = list(environment.get_environments(conf, specs))
    except environment.EnvironmentUnavailable as error:
        found = []
        heard.lines.append(str(error))
    if not found:
        why = "; ".join(dict.fromkeys(heard.lines)) or "`asv check` says more"
        raise DriverError(f"asv found no usable environment in {config}: {why}")
    if any(not env.can_install_project() for env in found):
        raise DriverError(
            f"{config} asks for an existing interpreter, into which asv cannot install two commits; "
            "set environment_type to virtualenv, uv, conda or rattler, or give --env"
        )
    return conf, found


def _recall(conf: Any, specs: list[str]) -> None:
    """Let the matrix have the variables' values that a stored environment's name ends in.

    A run may have set them to others than the configuration lists, as on a machine whose GPU is not to be used.
    """
    for group in ("env", "env_nobuild"):
        for name in dict(conf.matrix.get(group) or {}):
            told = {m[1] for spec in specs if (m := re.search(rf"(?:^|-){re.escape(name)}([^-]*)", spec))}
            if told:
                conf.matrix[group][name] = sorted(told)


def _repository(conf: Any) -> Any:
    try:
        repo = get_repo(conf)
        repo.pull()
    except util.ProcessError as error:
        said = last_lines(error.stderr or error.stdout or "", 2)
        raise DriverError(f"the project's repository {conf.repo} cannot be had: {said}") from error
    return repo


def _has_commit(repo: Any, conf: Any, commit: str, role: str) -> None:
    place = getattr(repo, "_path", None)
    if place is not None and not run_git(place, "cat-file", "-e", f"{commit}^{{commit}}").ok:
        raise DriverError(
            f"{role} {commit[:10]} is not in {conf.repo}, which asv.conf.json gives as the project's repository "
            f'({place}); push it there, or set "repo" to the repository that has it'
        )


def _machine_name() -> str:
    name = Machine.get_unique_machine_name()
    try:
        return str(MachineCollection.load(name)["machine"])
    except (util.UserError, OSError, ValueError, KeyError, TypeError):
        return str(name)


def _suites(shop: Workshop, source: SuiteSource, plan: dict[str, Any], head: Side) -> tuple[Suite, Suite | None]:
    """The suite that is asked for, and base's own; tells where it is not the commit's."""
    wanted = str(plan.get("suite") or "") or plan["head"]
    if wanted == "here":
        return source.working(), source.working()
    suite = shop.suite_of(source, wanted)
    if suite is None:
        if not source.here.is_dir():
            raise DriverError(
                f"there is no benchmark suite: {wanted[:10]} has no folder {source.place or source.here}, and the "
                f"working tree has none at {source.here}; benchmark_dir in asv.conf.json says where it is"
            )
        shop.event(
            "notice",
            text=f"{wanted[:10]} has no benchmark suite of its own: that of the working tree ({source.here}) runs "
            "on both sides",
        )
        return source.working(), source.working()
    if source.tree_of(plan["base"]) == suite.tree:
        return suite, suite
    return suite, shop.suite_of(source, plan["base"])


def _paired(
    shop: Workshop, base: Side, head: Side, suites: tuple[Suite, Suite | None], selection: Selection, project: str
) -> tuple[Pairing, Listing, Listing]:
    suite, own_suite = suites
    on_head, on_base = shop.listing(head, suite), shop.listing(base, suite)
    if own_suite is None:
        own = Listing(suite, {}, {}, on_base.packages, (), on_base.python)
    elif own_suite == suite:
        own = on_base
    else:
        own = shop.listing(base, own_suite)
    if not on_head.benchmarks and on_head.broken:
        first = next(iter(on_head.broken.values()))
        raise DriverError(f"the benchmark suite cannot be imported on {head.called}: {first.file}: {first.reason}")
    for side, listing in ((head, on_head), (base, own)):
        if listing.checkout:
            raise DriverError(
                f"the suite imports {', '.join(listing.checkout)} from the checkout beside it and not what was "
                f"installed of {side.called}: both sides would run the same code. Take the folder out of sys.path"
            )
    if not own.benchmarks and not on_base.benchmarks and (own.broken or on_base.broken):
        first = next(iter({**on_base.broken, **own.broken}.values()))
        raise DriverError(f"the benchmark suite cannot be imported on {base.called}: {first.file}: {first.reason}")
    return pair(on_head, on_base, own, selection, project), on_head, own


def measure(plan: dict[str, Any], shop: Workshop) -> None:
    """Carry out a plan.

    Config, base, head, rounds, bench (regular expressions), controls (one), environments, variables of
    all of them; suite: the commit whose
    suite runs, "" for head's, "here" for the working tree's; seed: of Python's hashes, the same on both sides;
    seconds: None, or how long it may take. A plan whose seconds are over ends between two benchmarks and says
    which of them never ran on both commits.
    """
    limit = plan.get("seconds")
    ends = math.inf if limit is None else time.monotonic() + float(limit)
    config = Path(plan["config"]).resolve()
    os.chdir(config.parent)
    pairs = shop.pairs(config, plan["environments"], plan.get("variables") or {})
    conf, repo = pairs[0][0].conf, pairs[0][0].repo
    for role in ("base", "head"):
        _has_commit(repo, conf, plan[role], role)
    for base, head in pairs:
        for side in (base, head):
            shop.event("build", env=side.env.name, side=side.role, commit=plan[side.role])
            side.install(plan[side.role])
    source = SuiteSource.of(config, conf.benchmark_dir)
    suites = _suites(shop, source, plan, pairs[0][1])
    _tell_uncommitted(shop, source, plan, suites[0], conf)
    wanted = list(plan["bench"])
    try:
        asked = Selection(wanted)
        selection = Selection([*wanted, plan["controls"]] if wanted and plan["controls"] else wanted)
    except re.error as error:
        raise DriverError(f"--bench: {error.pattern!r} is no regular expression: {error}") from error
    work: list[tuple[Side, Side, Work]] = []
    lost: dict[str, str] = {}
    for base, head in pairs:
        shop.event("listing", env=head.env.name)
        paired, on_head, own = _paired(shop, base, head, suites, selection, conf.project)
        if wanted and not _fits(paired, asked) and suites[0].commit and source.here.is_dir():
            # A commit older than the benchmark: asv measures it with the suite that is here.
            here = (source.working(), source.working())
            other, other_head, other_own = _paired(shop, base, head, here, selection, conf.project)
            if _fits(other, asked):
                paired, on_head, own = other, other_head, other_own
                shop.event(
                    "notice",
                    text=f"the suite of {plan['head'][:10]} does not have the benchmark: that of the working tree "
                    f"({source.here}) runs on both sides",
                )
        work += [(base, head, each) for each in paired.work]
        for each in paired.lost:
            lost.setdefault(each.name, each.reason)
        for text in paired.notices:
            shop.event("notice", text=text)
        for side, listing in ((base, own), (head, on_head)):
            shop.event(
                "proof",
                side=side.role,
                env=side.env.name,
                commit=plan[side.role],
                installed=side.prove(),
                suite=listing.suite.commit or str(listing.suite.folder),
                suite_tree=listing.suite.tree,
                python=listing.python,
            )
    for name, reason in lost.items():
        shop.event("lost", name=name, reason=reason)
    if wanted and not any(asked.of(each.head.entry) for _, _, each in work) and not lost:
        raise DriverError(f"no benchmark matches {' or '.join(wanted)} on both commits")
    if not work and not lost:
        raise DriverError(f"{config} has no benchmarks that both commits can run")
    _run(plan, shop, work, ends)


def _fits(paired: Pairing, asked: Selection) -> bool:
    """Whether anything that was asked for is run, or known to be lost."""
    return any(asked.of(each.head.entry) for each in paired.work) or bool(paired.lost)


def _tell_uncommitted(shop: Workshop, source: SuiteSource, plan: dict[str, Any], suite: Suite, conf: Any) -> None:
    if source.top is None:
        shop.event("notice", text=f"{source.here} is in no git repository: its suite runs on both sides as it is")
        return
    here = run_git(source.top, "rev-parse", "HEAD").text.strip()
    if plan["head"] != here and suite.commit:
        return  # nobody takes the working tree for what is compared
    besides = tuple(
        os.path.abspath(place)  # noqa: PTH100
        for place in (os.path.join(conf.env_dir, "..", ".."), conf.results_dir, conf.html_dir)  # noqa: PTH118
    )
    changed = source.uncommitted(besides)
    if changed:
        names = ", ".join(changed[:4]) + (f" and {len(changed) - 4} more" if changed[4:] else "")
        inside = f"; {suite.name} runs as it lies there" if not suite.commit else ""
        shop.event("notice", text=f"uncommitted changes are not measured, only what is committed: {names}{inside}")


def _run(plan: dict[str, Any], shop: Workshop, work: list[tuple[Side, Side, Work]], ends: float) -> None:
    machine = _machine_name()
    shop.event(
        "start",
        works=[[base.env.name, each.name] for base, _, each in work],
        environments=len({base.env.name for base, _, _ in work}),
        rounds=plan["rounds"],
        machine=machine,
    )
    for _, _, each in work:
        facts = {key: fact for key, fact in each.head.entry.items() if key not in ("code", "params")}
        shop.event("benchmark", name=each.name, facts=facts)
    dead: set[tuple[str, str]] = set()
    never = dict.fromkeys((head.env.name, each.name) for _, head, each in work)
    told: set[tuple[str, str, str]] = set()
    for number in range(plan["rounds"]):
        if number == 0 or number == plan["rounds"] - 1:
            for side in {id(side): side for base, head, _ in work for side in (base, head)}.values():
                side.prove()
        for base, head, each in work:
            if (head.env.name, each.name) in dead:
                continue
            if time.monotonic() >= ends:
                shop.event("cut", round=number, never=sorted({name for _, name in never}))
                return
            never.pop((head.env.name, each.name), None)
            order: list[tuple[Side, Run]] = [(base, each.base), (head, each.head)]
            for side, run in order if number % 2 == 0 else order[::-1]:
                _parent_lives()
                began = time.monotonic()
                # A set's order changes with the seed, and with it the time: the same for both of a pair.
                os.environ["PYTHONHASHSEED"] = str((int(plan.get("seed", 0)) + number) % 4294967296)
                values, said, spent = side.run(run.suite, run.entry, run.chosen)
                for value in values:
                    shop.event(
                        "value",
                        machine=machine,
                        env=side.env.name,
                        benchmark=each.name,
                        params=value.params,
                        version=str(each.head.entry.get("version") or ""),
                        unit=str(each.head.entry.get("unit") or default_unit(each.name)),
                        side=side.role,
                        round=number,
                        value=value.value,
                        samples=value.samples,
                    )
                    failed = (side.role, each.name, value.params)
                    if value.value is None and failed not in told:
                        told.add(failed)
                        shop.event(
                            "failed",
                            benchmark=each.name,
                            params=value.params,
                            env=side.env.name,
                            side=side.role,
                            reason=_why(said),
                        )
                        if each.changed and {("base", *failed[1:]), ("head", *failed[1:])} <= told:
                            # base has a benchmark of its own by that name, which this one replaces
                            shop.event(
                                "lost",
                                name=series_name(each.name, value.params),
                                reason="its code changed, and head's fails on both sides",
                            )
                if all(value.value is None for value in values):
                    dead.add((head.env.name, each.name))
                    shop.event("dead", env=head.env.name, benchmark=each.name)
                shop.event(
                    "ran",
                    env=side.env.name,
                    benchmark=each.name,
                    side=side.role,
                    round=number,
                    seconds=time.monotonic() - began - spent,
                )
        shop.event("round", number=number)


def _why(said: str) -> str:
    lines = [
        line.strip() for line in said.splitlines() if line.strip() and not line.startswith("asv: benchmark failed")
    ]
    return lines[-1] if lines else ""


def _parent_lives() -> None:
    """Raise Stopped if whoever gives the plans has gone; Linux says so by a signal, and at once."""
    ready, _, _ = select.select([0], [], [], 0)
    # Readable with nothing to read is the end; a plan that waits there stays unread.
    if ready and struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, b"\0" * 4))[0] == 0:
        raise Stopped


def _plans() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def _stop(number: int, frame: FrameType | None) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # what is cleaned up is cleaned up whole
    raise Stopped


def main(arguments: list[str]) -> int:
    """Work until standard input ends; the arguments: the parent's process id, a folder to make and to remove."""
    # Whatever asv prints to standard output must not get between the events.
    say = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    scratch = Path(arguments[1])
    shop: Workshop | None = None
    try:
        for number in _SIGNALS:
            signal.signal(number, _stop)
        if not end_with(int(arguments[0])):
            raise Stopped
        scratch.mkdir(mode=0o700)
        os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
        shop = Workshop(say)
        for plan in _plans():
            try:
                measure(plan, shop)
                shop.event("done")
            except util.ProcessError as error:
                said = last_lines(error.stderr or error.stdout or "") or f"exit status {error.retcode}"
                shop.event("error", message=f"{' '.join(map(str, error.args))[:200]} failed: {said}")
            except (DriverError, SuiteError, util.UserError, OSError) as error:
                shop.event("error", message=f"{error}".strip() or type(error).__name__)
    except (Stopped, BrokenPipeError):
        return 2
    finally:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        end_session(os.getpid())
        shutil.rmtree(scratch, ignore_errors=True)
        if shop is not None:
            shop.close()
        with contextlib.suppress(OSError):
            say.close()
    return 0
