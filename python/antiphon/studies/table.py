"""The table of a study: a row for each point, what varies first, then its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO, cast

from antiphon.errors import AntiphonError
from antiphon.files import written_whole
from antiphon.flat import Row, flat, plain, write_csv
from antiphon.studies.commands import unknown
from antiphon.studies.jobs import Record

SUFFIXES = (".csv", ".parquet")
"""Of files of tables."""
REFUSED = ("refused.reason", "refused.code")
"""Columns that say why a point has no result."""


def rows_of_points(
    points: Sequence[Mapping[str, Any]], records: Iterable[Record], chosen: Sequence[str] | None = None
) -> list[Row]:
    """A row for each point: its values, why it has no result, and its record, flat, or these columns of it. All rows
    have the same keys.

    >>> rows_of_points([{"rate": 0.1}], [{"rate": 0.1, "latency": {"mean": 5}, "hops": 2}], ["latency.mean"])
    [{'rate': 0.1, 'refused.reason': None, 'refused.code': None, 'latency.mean': 5}]

    Raises:
        AntiphonError: ``unknown-name`` for a column that no record has, with the nearest.
    """
    results = [flat(record) for record in records]
    columns = dict.fromkeys((*(key for each in points for key in each), *REFUSED))
    known = columns | dict.fromkeys(key for each in results for key in each)
    for name in chosen or ():
        if name not in known and len(known) > len(columns):
            raise unknown("column", name, list(known), "columns")
    columns |= known if chosen is None else dict.fromkeys(chosen)
    pairs = zip(points, results, strict=True)
    return [{key: point.get(key, result.get(key)) for key in columns} for point, result in pairs]


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


@contextmanager
def writing_table(path: str | None) -> Iterator[Callable[[Sequence[Row]], None]]:
    """Refuses a file that cannot be written before there are rows; without a path nothing is written.

    What it gives writes rows, and puts the file in its place before anything is printed: the reader may go.
    """
    suffix = "" if path is None else check_suffix(path)
    with ExitStack() as opened:
        file = None if path is None else opened.enter_context(written_whole(path, suffix))

        def put(rows: Sequence[Row]) -> None:
            if file is not None:
                _write(rows, file, suffix)
                opened.close()

        yield put


def _write(rows: Sequence[Row], file: TextIO, suffix: str) -> None:
    if suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        columns = {key: _column([row[key] for row in rows]) for key in (rows[0] if rows else ())}
        pyarrow.parquet.write_table(pyarrow.table(columns), cast(Any, file).buffer)
    else:
        write_csv(rows, file)


def _column(values: list[Any]) -> list[Any]:
    """Values of one type: as text where they are of several."""
    types = {type(value) for value in values if value is not None}
    if len(types) < 2 or types == {int, float}:
        return values
    return [value if value is None else str(plain(value)) for value in values]
