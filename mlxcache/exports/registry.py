"""All export formats: a new one is a module with an `EXPORTER`, and a line here."""

from __future__ import annotations

from typing import Final

from mlxcache.exports import bencher, csv_file, github_action, json_lines, otava, parquet, pytorch
from mlxcache.exports.exporter import Exporter

EXPORTERS: Final[dict[str, Exporter]] = {
    module.EXPORTER.name: module.EXPORTER
    for module in (pytorch, github_action, bencher, otava, parquet, csv_file, json_lines)
}
