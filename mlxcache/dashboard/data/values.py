"""All values in one file, with columns that tell every row apart, as Parquet and as compressed CSV."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.output import Output
from mlxcache.reports.plain_text import clean

CSV_PATH: Final = "values.csv.gz"
PARQUET_PATH: Final = "values.parquet"
_VERSION: Final = b"3"
# More rows than this are in the Parquet file only: as text they would take longer than the rest of the site.
MOST_CSV_ROWS: Final = 1_000_000

# What the data page says of each column; the files have them in this order.
COLUMNS: Final = {
    "benchmark": "the benchmark's name",
    "params": "its parameters by name, as `path=int64 head_dim=64`; empty where it has none",
    "value": "the measured value; the Parquet file has seven digits of seconds, and all of everything else",
    "unit": "of value and interval: seconds, bytes, ratio, ...",
    "ci99_low": "lower end of this run's 99 % interval; empty where it has none. The Parquet file has it to a "
    "hundredth of its distance from the value",
    "ci99_high": "upper end of it",
    "status": "ok, failed or skipped; only ok has a value",
    "commit": "the full hash",
    "commit_index": "rank of the commit among all measured ones, oldest 0",
    "commit_date": "when it was committed, UTC",
    "version": "of the benchmark: values of two versions are not comparable",
    "machine": "the machine's whole name",
    "env": "asv's name of the environment; its packages follow",
}
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def package_columns(facts: SiteFacts) -> list[str]:
    """A column for each package whose version differs between environments."""
    every = sorted({package for own in facts.packages.values() for package in own})
    return [p for p in every if len({own.get(p, "") for own in facts.packages.values()}) > 1]


def write_values(out: Output, facts: SiteFacts) -> list[str]:
    """Write the files, unless they are there with the same content; returns their paths."""
    parquet = importlib.util.find_spec("pyarrow") is not None
    small = len(facts.df) <= MOST_CSV_ROWS
    paths = [*([CSV_PATH] if small else []), *([PARQUET_PATH] if parquet else [])]
    key = _key(facts)
    if not out.keep_all(paths, key):
        table = _table(facts)
        if small:
            out.made(CSV_PATH, key, gzip.compress(_as_csv(table), 6, mtime=0))
        if parquet:
            data = io.BytesIO()
            _as_parquet(table, data)
            out.made(PARQUET_PATH, key, data.getvalue())
    return paths


def _as_parquet(table: pd.DataFrame, target: io.BytesIO) -> None:
    """Digits of a measurement hardly repeat: bytes by their place compress, a dictionary of values does not.

    Digits that are noise are zeros here: an end of an interval needs two bytes then, not seven.
    """
    numbers = ["value", "ci99_low", "ci99_high"]
    value, low, high = (table[name].to_numpy(np.float64) for name in numbers)
    with np.errstate(all="ignore"):
        size = np.abs(value)
        time = (table["unit"] == "seconds").to_numpy() & (size > 1e-30) & (size < 1e30)
        kept = [np.where(time, value.astype(np.float32), value), _coarse(low, value), _coarse(high, value)]
    table.assign(**dict(zip(numbers, kept, strict=True))).to_parquet(
        target,
        engine="pyarrow",
        index=False,
        compression="zstd",
        compression_level=15,
        use_dictionary=[name for name in table.columns if name not in numbers],
        column_encoding=dict.fromkeys(numbers, "BYTE_STREAM_SPLIT"),
    )


def _coarse(bounds: Any, values: Any) -> Any:
    """Ends of intervals to a hundredth of their distance from the value."""
    step = np.exp2(np.floor(np.log2(np.abs(bounds - values))) - 6)
    rounded = np.round(bounds / step) * step
    return np.where(np.isfinite(rounded), rounded, bounds)


def _as_csv(table: pd.DataFrame) -> bytes:
    text = table.copy()
    for name in text.columns:
        if isinstance(text[name].dtype, pd.CategoricalDtype):
            text[name] = text[name].cat.rename_categories([_safe(str(c)) for c in text[name].cat.categories])
    return bytes(text.to_csv(index=False, lineterminator="\n").encode("utf-8", "replace"))


def _safe(text: str) -> str:
    text = clean(text)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _key(facts: SiteFacts) -> str:
    total = hashlib.blake2b(_VERSION, digest_size=16)
    df = facts.df
    for name in ("value", "ci99_low", "ci99_high"):
        total.update(df[name].to_numpy(np.float64).tobytes())
    for name in ("commit_index", "series"):
        total.update(df[name].to_numpy().tobytes())
    names = [(k.machine, k.env, k.benchmark, k.params, k.version, k.unit) for k in facts.store.keys]
    commits = [(c.name, c.date_s) for c in facts.commits]
    total.update(repr((names, commits, facts.packages, package_columns(facts))).encode("utf-8", "replace"))
    return total.hexdigest()


def _table(facts: SiteFacts) -> pd.DataFrame:
    df = facts.df
    columns = {name: df[name] for name in COLUMNS if name in df.columns and name != "params"}
    table = pd.DataFrame(columns)
    table.insert(1, "params", _named_params(facts))
    for package in package_columns(facts):
        versions = {env: own.get(package, "") for env, own in facts.packages.items()}
        table[package] = _renamed(df["env"], versions)
    for name in table.columns:
        if isinstance(table[name].dtype, pd.CategoricalDtype):
            table[name] = table[name].cat.remove_unused_categories()
            table[name] = table[name].cat.rename_categories(_cleaned(table[name].cat.categories))
    return table


def _cleaned(categories: pd.Index) -> list[str]:
    """Texts that UTF-8 can hold, all different."""
    found: list[str] = []
    for text in map(str, categories):
        own = clean(text)
        found.append(own if own not in found else f"{own} ({len(found)})") if own != text else found.append(own)
    return found


def _renamed(column: pd.Series, names_of: Mapping[str, str]) -> pd.Series:
    """A column of texts under other names; each text is looked at once, not each row."""
    texts = column.astype("category")
    names = [names_of.get(str(text), "") for text in texts.cat.categories]
    every = list(dict.fromkeys(names))
    place = np.array([*(every.index(text) for text in names), -1])
    return pd.Series(_categories(place[texts.cat.codes.to_numpy(np.int64)], every), index=column.index)


def _categories(codes: Any, texts: list[str]) -> Any:
    return pd.Categorical.from_codes(codes, pd.Index(texts, dtype=object))


def _named_params(facts: SiteFacts) -> pd.Series:
    """The column params with names."""
    df = facts.df
    benchmarks, params = df["benchmark"].astype("category"), df["params"].astype("category")
    width = len(params.cat.categories) + 1
    codes = benchmarks.cat.codes.to_numpy(np.int64) * width + params.cat.codes.to_numpy(np.int64)
    unique, inverse = np.unique(codes, return_inverse=True)
    texts = [
        facts.names.params(str(benchmarks.cat.categories[code // width]), str(params.cat.categories[code % width]))
        for code in unique.tolist()
    ]
    every = list(dict.fromkeys(texts))
    place = {text: i for i, text in enumerate(every)}
    where = np.array([place[text] for text in texts], dtype=np.int64)
    return pd.Series(_categories(where[inverse] if len(where) else inverse, every), index=df.index)
