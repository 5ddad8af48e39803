"""The table of a study: a row for each point, what varies first, then its results."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, cast

from antiphon.errors import AntiphonError
from antiphon.studies.jobs import Record

SUFFIXES = (".csv", ".parquet")
"""Of files of tables."""
REFUSED = ("refused.reason", "refused.code")
"""Columns that say why a point has no result."""

Row = dict[str, Any]


def rows_of_points(points: Sequence[Mapping[str, Any]], records: Iterable[Record]) -> list[Row]:
    """A row for each point: its values, then numbers, words and flags of its record, those of objects in it as
    ``object.key``. Lists are left out. All rows have the same keys.

    >>> rows_of_points([{"rate": 0.1}], [{"rate": 0.1, "latency": {"mean": 5}, "runs": []}])
    [{'rate': 0.1, 'refused.reason': None, 'refused.code': None, 'latency.mean': 5}]
    """
    flat = [dict(_flat(record)) for record in records]
    columns = dict.fromkeys(
        (*(key for point in points for key in point), *REFUSED, *(key for row in flat for key in row))
    )
    return [{key: point.get(key, row.get(key)) for key in columns} for point, row in zip(points, flat, strict=True)]


def _flat(record: Mapping[str, Any], head: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{head}{key}.")
        elif not isinstance(value, list | tuple):
            yield head + key, value


def check_suffix(path: str) -> str:
    """That of a file of a table.

    Raises:
        AntiphonError: ``bad-file`` for others, ``missing-extra`` for Parquet without pyarrow.
    """
    suffix = "." + path.rpartition(".")[2].lower()
    if suffix not in SUFFIXES:
        raise AntiphonError(f"{path}: the file name must end in {' or '.join(SUFFIXES)}", "bad-file")
    if suffix == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            message = f"{path}: Parquet needs pyarrow: pip install 'antiphon[parquet]', or write .csv"
            raise AntiphonError(message, "missing-extra") from None
    return suffix


def write(rows: Sequence[Row], file: IO[str], suffix: str) -> None:
    """Writes a table into a file."""
    if suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        columns = {key: _column([row[key] for row in rows]) for key in (rows[0] if rows else ())}
        pyarrow.parquet.write_table(pyarrow.table(columns), cast(Any, file).buffer)
    else:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _plain(value) for key, value in row.items()} for row in rows)


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _column(values: list[Any]) -> list[Any]:
    """Values of one type: as text where they are of several."""
    types = {type(value) for value in values if value is not None}
    if len(types) < 2 or types == {int, float}:
        return values
    return [value if value is None else str(_plain(value)) for value in values]
