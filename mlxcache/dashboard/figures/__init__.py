"""What matplotlib draws: a change, a machine's history, the suite's own questions."""

from mlxcache.dashboard.figures.change import change_figure
from mlxcache.dashboard.figures.history import (
    noise_figure,
    options_figure,
    overview_figure,
    paths_figure,
    peers_figure,
    releases_figure,
    scaling_figure,
)

__all__ = [
    "change_figure",
    "noise_figure",
    "options_figure",
    "overview_figure",
    "paths_figure",
    "peers_figure",
    "releases_figure",
    "scaling_figure",
]
