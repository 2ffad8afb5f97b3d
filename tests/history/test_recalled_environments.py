"""Measuring again in an environment whose variable the configuration lists with another value."""

from __future__ import annotations

from types import SimpleNamespace

from mlxcache.remeasure.asv_driver import _recall


def test_a_stored_environments_variable_is_taken_from_its_name() -> None:
    """A hosted Mac's results say MLXCACHE_DEVICEcpu where the configuration says default."""
    conf = SimpleNamespace(matrix={"req": {"mlx": ["1"]}, "env_nobuild": {"MLXCACHE_DEVICE": ["default"]}})
    _recall(conf, ["virtualenv-py3.13-mlx1-MLXCACHE_DEVICEcpu"])
    assert conf.matrix["env_nobuild"] == {"MLXCACHE_DEVICE": ["cpu"]}


def test_other_specifiers_change_nothing() -> None:
    """None, or an interpreter alone."""
    conf = SimpleNamespace(matrix={"env": {"A": ["1", "2"]}})
    _recall(conf, [])
    _recall(conf, ["virtualenv:3.13"])
    assert conf.matrix == {"env": {"A": ["1", "2"]}}
