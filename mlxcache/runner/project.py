"""An asv project as its configuration describes it: where its repository, benchmarks and results are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class ProjectError(ValueError):
    """There is no usable asv configuration; the message names the file."""


@dataclass(frozen=True)
class Project:
    """What the commands need of asv.conf.json; paths are absolute."""

    config: Path
    results: Path
    benchmarks: Path
    repo: Path

    @classmethod
    def load(cls, config: str | Path, results: str | Path | None = None) -> Project:
        """Read the configuration; `results` is another folder than the one it names.

        Raises ProjectError if it is not there or cannot be read.
        """
        path = Path(config).resolve()
        if not path.is_file():
            raise ProjectError(f"--config: no file {path}; run it in a project with asv's configuration")
        import asv.config
        import asv.util

        try:
            loaded = asv.config.Config.load(str(path))
        except (asv.util.UserError, ValueError, OSError) as error:
            raise ProjectError(f"{path} is no configuration of asv: {error}") from error
        folder = path.parent
        return cls(
            path,
            Path(results).resolve() if results else (folder / str(loaded.results_dir)).resolve(),
            (folder / str(loaded.benchmark_dir)).resolve(),
            # A repository elsewhere has a clone below the project, which only asv knows.
            folder,
        )
