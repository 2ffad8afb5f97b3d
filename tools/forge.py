"""A forge on this machine, as true as the facts known: jobs, matrices, artifacts, an API on the loopback address.

What it does as GitHub does, and where that is known from:
* `run:` goes to `bash -e`; a step with a status other than 0 ends the job; `if:` without a status function means
success().
* An artifact's name is taken for the whole run, also in a second attempt: a second upload is refused (409) unless
it says
  overwrite (upload-artifact v4). A pattern that fits one artifact lays it out flat, several each in a folder
  (download-artifact v5, actions/download-artifact#419); none leaves no folder. Files that begin with a dot are
  left out of artifacts and of Pages.
* Credentials lie outside .git and reach the clone and its worktrees by includeIf (checkout v6.0.1); with
  persist-credentials: false there are none, and nothing can be pushed.
* A time limit of a step is a failure; one of a job is "cancelled".
It runs one job at a time, knows no secrets and no services, and takes setup-python for granted.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from tools.expressions import as_text, evaluate, substitute

REPOSITORY = "somebody/mlxcache"
_STATUS = ("success(", "failure(", "always(", "cancelled(")


@dataclass
class Result:
    """How a job ended: "success", "failure", "cancelled" or "skipped"; its outputs, and each step's output."""

    result: str
    outputs: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)


@dataclass
class Run:
    """One run of a workflow, over all its attempts."""

    number: int
    workflow: str
    event: str
    payload: dict[str, Any]
    title: str = ""
    attempt: int = 1
    artifacts: dict[str, Path] = field(default_factory=dict)
    jobs: dict[str, Result] = field(default_factory=dict)

    @property
    def conclusion(self) -> str:
        """As `workflow_run` tells it."""
        results = [job.result for job in self.jobs.values()]
        for worst in ("failure", "cancelled", "success"):
            if worst in results:
                return worst
        return "skipped"

    def log(self) -> str:
        """What all steps printed."""
        return "\n".join(
            line for name, job in self.jobs.items() for line in (f"== {name}: {job.result}", *job.log)
        )


class Api:
    """The forge's API, for what `gh` asks: pull requests, comments, checks, issues, dispatches."""

    def __init__(self) -> None:
        self.pulls: dict[int, dict[str, Any]] = {}
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.checks: list[dict[str, Any]] = []
        self.issues: list[dict[str, Any]] = []
        self.dispatches: list[dict[str, Any]] = []
        self.asked: list[str] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def handle_request(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                content = json.loads(self.rfile.read(size) or b"{}")
                place = urlsplit(self.path)
                query = {name: values[-1] for name, values in parse_qs(place.query).items()}
                api.asked.append(f"{self.command} {place.path}")
                try:
                    status, answer = 200, api.answer(self.command, place.path.strip("/"), query, content)
                except LookupError:
                    status, answer = 404, {"message": "Not Found"}
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PATCH = handle_request  # noqa: N815 the names that http.server looks for

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: `asked` has it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, query: Mapping[str, str], content: dict[str, Any]) -> Any:
        """One request; LookupError where there is nothing."""
        below = path.removeprefix(f"repos/{REPOSITORY}/")
        if below == path:
            raise LookupError(path)
        kind, *rest = below.split("/")
        if kind == "pulls":
            if rest:
                return self.pulls[int(rest[0])]
            return [pull for pull in self.pulls.values() if pull["state"] == query.get("state", "open")]
        if kind == "check-runs":
            self.checks.append(content)
            return content
        if kind == "actions":  # workflows/NAME/dispatches
            self.dispatches.append({"workflow": rest[1], **content})
            return {}
        if kind == "issues" and rest and rest[-1] == "comments":
            return self._listed(self.comments.setdefault(int(rest[0]), []), method, query, content)
        if kind == "issues" and rest and rest[0] == "comments":
            return self._changed([each for some in self.comments.values() for each in some], int(rest[1]), content)
        if kind == "issues" and rest:
            return self._changed(self.issues, int(rest[0]), content)
        if kind == "issues":
            return self._listed(self.issues, method, query, content)
        raise LookupError(path)

    @staticmethod
    def _listed(
        posts: list[dict[str, Any]], method: str, query: Mapping[str, str], content: dict[str, Any]
    ) -> Any:
        if method == "POST":
            number = len(posts) + 1
            posts.append({"id": number, "number": number, "user": {"login": "github-actions[bot]"}, **content})
            return posts[-1]
        page = int(query.get("page", 1))
        return posts[100 * (page - 1) : 100 * page]

    @staticmethod
    def _changed(posts: list[dict[str, Any]], number: int, content: dict[str, Any]) -> Any:
        post = next(each for each in posts if each["id"] == number)
        post.update(content)
        return post


# `gh`, as far as ours use it: `gh api --method M PATH [-f name=value]... [--input -]` and `gh workflow run`.
GH = """#!{python} -IS
import json, os, sys, urllib.error, urllib.parse, urllib.request
words = sys.argv[1:]
if not os.environ.get("GH_TOKEN"):
    sys.exit("gh: To use GitHub CLI in a GitHub Actions workflow, set the GH_TOKEN environment variable.")
fields = dict(word.split("=", 1) for word in words if "=" in word)
if words[:2] == ["workflow", "run"]:
    repository = words[words.index("--repo") + 1]
    method, path = "POST", "repos/" + repository + "/actions/workflows/" + words[2] + "/dispatches"
    data = json.dumps({{"ref": "main", "inputs": fields}}).encode()
else:
    method, path = words[2], words[3]
    data = sys.stdin.read().encode() if "--input" in words else None
    if method == "GET" and fields:
        path += "?" + urllib.parse.urlencode(fields)
request = urllib.request.Request(os.environ["FORGE_API"] + "/" + path, data=data, method=method)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
try:
    print(opener.open(request, timeout=30).read().decode())
except urllib.error.HTTPError as error:
    sys.exit("gh: " + json.loads(error.read())["message"] + " (HTTP " + str(error.code) + ")")
"""


class Forge:
    """Runs workflows of one repository.

    `environment_of` gives a runner's environment by its label, `prepare` makes a fresh checkout ready as
    setup-python and a cache of packages do; `origin` is the bare repository; everything lies below `home`.
    """

    def __init__(
        self,
        home: Path,
        origin: Path,
        workflows: Path,
        environment_of: Callable[[str], dict[str, str]],
        prepare: Callable[[Path], None],
    ) -> None:
        self.home, self.origin, self.workflows = home, origin, workflows
        self.api = Api()
        self.variables: dict[str, str] = {}
        self.pages: Path | None = None
        # After the checkout: a network that goes away, or a private repository without a token.
        self.origin_is_away = False
        self._environment_of, self._prepare = environment_of, prepare
        self._numbers = itertools.count(1)
        self._folders = itertools.count(1)
        self._caches: dict[str, Path] = {}

    def start(self, workflow: str, event: str, payload: dict[str, Any] | None = None, **inputs: str) -> Run:
        """A new run of a workflow."""
        run = Run(next(self._numbers), workflow, event, payload or {})
        self._attempt(run, inputs, None)
        return run

    def again(self, run: Run, **inputs: str) -> Run:
        """`Re-run failed jobs`: those, and what needs them."""
        run.attempt += 1
        again = {name for name, job in run.jobs.items() if job.result in ("failure", "cancelled")}
        document = self._document(run.workflow)
        for name, job in document["jobs"].items():
            if again & set(_needs(job)):
                again.add(name)
        self._attempt(run, inputs, again)
        return run

    def _document(self, workflow: str) -> dict[str, Any]:
        text = (self.workflows / f"{workflow}.yml").read_text(encoding="utf-8")
        document: dict[str, Any] = yaml.safe_load(text)
        return document

    def _attempt(self, run: Run, inputs: dict[str, str], only: set[str] | None) -> None:
        document = self._document(run.workflow)
        contexts: dict[str, Any] = {
            "github": {
                "event": {**run.payload, "repository": {"default_branch": "main", "name": "mlxcache"}},
                "event_name": run.event,
                "repository": REPOSITORY,
                "repository_owner": REPOSITORY.partition("/")[0],
                "run_id": str(run.number),
                "run_attempt": str(run.attempt),
                "token": "a-token",
                "ref": "refs/heads/main",
            },
            "inputs": inputs,
            "vars": self.variables,
        }
        run.title = substitute(document.get("run-name", run.workflow), contexts, {})
        for name, job in document["jobs"].items():
            if only is None or name in only:
                run.jobs[name] = self._job(run, name, job, contexts, document.get("env", {}))

    def _job(
        self, run: Run, name: str, job: dict[str, Any], contexts: dict[str, Any], env: dict[str, str]
    ) -> Result:
        needs = {other: run.jobs[other] for other in _needs(job)}
        told = {other: {"result": each.result, "outputs": each.outputs} for other, each in needs.items()}
        contexts = {**contexts, "needs": told}
        fine = all(each.result == "success" for each in needs.values())
        if not _holds(job.get("if", ""), contexts, fine):
            return Result("skipped")
        whole = Result("success")
        for number, matrix in enumerate(self._legs(job, contexts)):
            leg = {**contexts, "matrix": matrix, "strategy": {"job-index": number}}
            ended = self._leg(run, f"{name}-{number}", job, leg, env)
            whole.log += ended.log
            whole.outputs |= ended.outputs
            if ended.result != "success":
                whole.result = ended.result
        return whole

    @staticmethod
    def _legs(job: dict[str, Any], contexts: dict[str, Any]) -> Iterator[dict[str, Any]]:
        axes = job.get("strategy", {}).get("matrix", {})
        values = [evaluate(each, contexts, {}) if isinstance(each, str) else each for each in axes.values()]
        if axes and not all(values):
            raise ValueError(f"a matrix without values: {dict(zip(axes, values, strict=True))}")
        for chosen in itertools.product(*values):
            yield dict(zip(axes, chosen, strict=True))

    def _leg(
        self, run: Run, name: str, job: dict[str, Any], contexts: dict[str, Any], env: dict[str, str]
    ) -> Result:
        place = self.home / "work" / f"{next(self._folders)}-{run.workflow}-{name}"
        workspace = place / "mlxcache"
        workspace.mkdir(parents=True)
        contexts = {**contexts, "steps": {}}
        label = as_text(_resolved(job["runs-on"], contexts))
        (place / "event.json").write_text(json.dumps(contexts["github"]["event"]), encoding="utf-8")
        environment = {
            **self._environment_of(label),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_PATH": str(place / "event.json"),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_STEP_SUMMARY": str(place / "summary.md"),
            "GITHUB_OUTPUT": str(place / "output"),
            "FORGE_API": self.api.address,
            **{key: as_text(_resolved(value, contexts)) for key, value in env.items()},
        }
        result = Result("success")
        later: list[Callable[[], None]] = []
        for step in job["steps"]:
            if not _holds(step.get("if", ""), contexts, result.result == "success"):
                continue
            Path(environment["GITHUB_OUTPUT"]).write_text("", encoding="utf-8")
            status, said = self._step(run, step, contexts, workspace, environment, later)
            result.log.append(f"-- {step.get('uses', step.get('run', '')).splitlines()[0]} -> {status}\n{said}")
            if "id" in step:
                lines = Path(environment["GITHUB_OUTPUT"]).read_text(encoding="utf-8").splitlines()
                outputs = dict(line.split("=", 1) for line in lines if "=" in line)
                contexts["steps"][step["id"]] = {"outputs": outputs, "outcome": status}
            if status and not step.get("continue-on-error"):
                result.result = "failure"
        if result.result == "success":
            for each in later:
                each()
        told = {key: as_text(_resolved(value, contexts)) for key, value in job.get("outputs", {}).items()}
        result.outputs = told
        shutil.rmtree(workspace)
        return result

    def _step(
        self,
        run: Run,
        step: dict[str, Any],
        contexts: dict[str, Any],
        workspace: Path,
        environment: dict[str, str],
        later: list[Callable[[], None]],
    ) -> tuple[int, str]:
        with_ = {key: as_text(_resolved(value, contexts)) for key, value in step.get("with", {}).items()}
        env = {key: as_text(_resolved(value, contexts)) for key, value in step.get("env", {}).items()}
        if "run" in step:
            limit = 60.0 * float(step.get("timeout-minutes", 30))
            return bash(step["run"], workspace, {**environment, **env}, limit)
        action = step["uses"].partition("@")[0].removeprefix("actions/")
        if action == "checkout":
            return self._check_out(workspace, with_)
        if action == "setup-python":
            return 0, ""
        if action == "upload-artifact":
            return self._upload(run, workspace, with_)
        if action == "download-artifact":
            return self._download(run, contexts, workspace, with_)
        if action == "cache":
            return self._cache(workspace, with_, later)
        if action == "upload-pages-artifact":
            return self._upload(run, workspace, {"name": "github-pages", **with_})
        if action == "deploy-pages":
            self.pages = run.artifacts[with_.get("artifact_name", "github-pages")]
            return 0, ""
        raise ValueError(f"the rehearsal does not know {step['uses']}")

    def _check_out(self, workspace: Path, with_: dict[str, str]) -> tuple[int, str]:
        ref = with_.get("ref", "refs/heads/main")
        depth = [] if with_.get("fetch-depth") == "0" else ["--depth", "1"]
        specs, wanted = ["+refs/heads/*:refs/remotes/origin/*"], ref
        if ref.startswith("refs/"):
            specs, wanted = [*specs, f"+{ref}:refs/forge/wanted"], "refs/forge/wanted"
        for command in (
            ["git", "init", "-q", "-b", "main", "."],
            ["git", "remote", "add", "origin", self.origin.as_uri()],
            ["git", "fetch", "-q", *depth, "origin", *specs],
            ["git", "checkout", "-q", "--detach", wanted],
        ):
            done = subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=False)
            if done.returncode:
                return done.returncode, done.stderr
        self._keep_credentials(workspace, with_.get("persist-credentials", "true") == "true")
        if self.origin_is_away:
            subprocess.run(["git", "remote", "set-url", "origin", "file:///nowhere"], cwd=workspace, check=True)
        self._prepare(workspace)
        return 0, ""

    def _keep_credentials(self, workspace: Path, keep: bool) -> None:
        """Nobody pushes without; since checkout v6 they lie outside .git, in a file that git includes."""
        config = ["git", "config", "--file", str(workspace / ".git" / "config")]
        locked = "https://needs-credentials.invalid/"
        subprocess.run([*config, "remote.origin.pushurl", locked], check=True)
        if keep:
            kept = workspace.parent / "credentials.config"
            instead = f"url.{self.origin.as_uri()}.insteadOf"
            subprocess.run(["git", "config", "--file", str(kept), instead, locked], check=True)
            for place in (".git", ".git/worktrees/*"):
                subprocess.run([*config, f"includeIf.gitdir:{workspace / place}.path", str(kept)], check=True)

    def _upload(self, run: Run, workspace: Path, with_: dict[str, str]) -> tuple[int, str]:
        name, source = with_["name"], workspace / with_["path"]
        if not source.exists():
            return (0 if with_.get("if-no-files-found") == "ignore" else 1), f"no files at {with_['path']}"
        if name in run.artifacts and with_.get("overwrite") != "true":
            return 1, "409 Conflict: an artifact with this name already exists on the workflow run"
        target = self.home / "artifacts" / str(run.number) / f"{name}-{run.attempt}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        if source.is_file():
            shutil.copy2(source, target)
        else:
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*"))
        if not any(path.is_file() for path in target.rglob("*")):
            return (0 if with_.get("if-no-files-found") == "ignore" else 1), "no files but hidden ones"
        run.artifacts[name] = target
        return 0, ""

    def _download(
        self, run: Run, contexts: dict[str, Any], workspace: Path, with_: dict[str, str]
    ) -> tuple[int, str]:
        source = contexts["github"]["event"].get("_run") if "run-id" in with_ else None
        artifacts = run.artifacts if source is None else {k: Path(v) for k, v in source["artifacts"].items()}
        target = workspace / with_.get("path", ".")
        if "name" in with_:
            if with_["name"] not in artifacts:
                return 1, f"Artifact not found for name: {with_['name']}"
            shutil.copytree(artifacts[with_["name"]], target, dirs_exist_ok=True)
            return 0, ""
        found = {name: path for name, path in artifacts.items() if fnmatch.fnmatch(name, with_["pattern"])}
        for name, path in found.items():
            shutil.copytree(path, target if len(found) == 1 else target / name, dirs_exist_ok=True)
        return 0, f"{len(found)} artifacts"

    def _cache(self, workspace: Path, with_: dict[str, str], later: list[Callable[[], None]]) -> tuple[int, str]:
        fits = [key for key in self._caches if key.startswith(with_["restore-keys"].strip())]
        if fits:
            shutil.copytree(self._caches[fits[-1]], workspace / with_["path"], dirs_exist_ok=True)

        def save() -> None:
            kept = self.home / "caches" / with_["key"]
            shutil.copytree(workspace / with_["path"], kept, dirs_exist_ok=True)
            self._caches[with_["key"]] = kept

        later.append(save)
        return 0, f"restored {fits[-1:]}"


def bash(script: str, folder: Path, environment: dict[str, str], limit: float) -> tuple[int, str]:
    """Run a script as a step is run; its status and its last words. 124 where it took too long."""
    process = subprocess.Popen(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=limit)
        return process.returncode, said[-6000:]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        return 124, said[-6000:]


def _needs(job: Mapping[str, Any]) -> list[str]:
    needs = job.get("needs", [])
    return [needs] if isinstance(needs, str) else list(needs)


def _holds(condition: Any, contexts: dict[str, Any], fine: bool) -> bool:
    functions: dict[str, Callable[..., Any]] = {
        "success": lambda: fine,
        "failure": lambda: not fine,
        "always": lambda: True,
        "cancelled": lambda: False,
    }
    text = str(condition)
    if text and not any(name in text for name in _STATUS) and not fine:
        return False
    return bool(evaluate(text, contexts, functions)) if text else fine


def _resolved(value: Any, contexts: dict[str, Any]) -> Any:
    return substitute(value, contexts, {}) if isinstance(value, str) else value
