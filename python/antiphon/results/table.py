"""One kind of table for all results: columns by name, which readers of Arrow take as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

from antiphon.errors import AntiphonError
from antiphon.flat import flat

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

Column: TypeAlias = "np.ndarray[tuple[int], np.dtype[Any]]"
SHOWN_ROWS = 20
"""Rows of a table in a notebook."""


class Table(dict[str, Column]):
    """Column name to numpy array, all of one length; neither can be changed.

    pandas, polars, pyarrow, DuckDB and whatever else knows Arrow's stream interface read it as it is. It is a
    dictionary too: ``table["bytes"].max()``.

    Args:
        columns: names, each with its values, in one dimension; all of the same length.

    >>> table = Table({"rank": [0, 1], "finish_ns": [2.5, 3.0]})
    >>> table
    <Table of 2 rows: rank, finish_ns>
    >>> table["finish_ns"].max()
    np.float64(3.0)
    >>> table.rows()
    [{'rank': 0, 'finish_ns': 2.5}, {'rank': 1, 'finish_ns': 3.0}]

    Raises:
        AntiphonError: ``bad-size`` for columns of different lengths or of more than one dimension.
    """

    def __init__(self, columns: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        import numpy as np

        arrays = {name: np.asarray(values).view() for name, values in dict(columns).items()}
        if len({array.shape for array in arrays.values()}) > 1 or any(array.ndim != 1 for array in arrays.values()):
            shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
            raise AntiphonError(f"columns of a table are of one length and one dimension, not {shapes}", "bad-size")
        for array in arrays.values():
            array.flags.writeable = False
        super().__init__(arrays)

    @classmethod
    def _of_core(cls, columns: dict[str, Column]) -> Table:
        """A table of arrays that nobody else has, as the core gives them."""
        table = cls.__new__(cls)
        for array in columns.values():
            array.setflags(write=False)
        dict.update(table, columns)
        return table

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Table:
        """A table of rows such as those of ``--json``: figures of objects in it as ``object.key``, lists of them as one
        text; other lists are left out.

        >>> Table.of_rows([{"a": 1, "b": {"c": None}}, {"a": 2, "b": {"c": 0.5}}]).rows()
        [{'a': 1, 'b.c': nan}, {'a': 2, 'b.c': 0.5}]
        """
        rows = [flat(row) for row in rows]
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: _column([row.get(name) for row in rows]) for name in names})

    @property
    def height(self) -> int:
        """Number of rows."""
        return len(next(iter(self.values()), ()))

    def rows(self) -> list[dict[str, Any]]:
        """The rows, each a dictionary of plain values."""
        return rows_of(self)

    def to_frame(self) -> pd.DataFrame:
        """A pandas DataFrame (extra ``pandas``).

        Raises:
            AntiphonError: ``missing-extra`` without pandas.
        """
        try:
            import pandas as pd
        except ImportError:
            message = "frames need pandas; install it with: pip install 'antiphon[pandas]'"
            raise AntiphonError(message, "missing-extra") from None
        return pd.DataFrame(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The table as a stream of Arrow's C data interface, by which ``polars.DataFrame(table)``,
        ``pyarrow.table(table)`` and ``duckdb.from_arrow(table)`` read it."""
        import nanoarrow as na

        columns = {name: _arrow(column) for name, column in self.items()}
        schema = na.struct({name: column.schema for name, column in columns.items()})
        children = list(columns.values())
        batch = na.c_array_from_buffers(schema, self.height, [None], children=children, move=True)
        return na.c_array_stream(batch).__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """An HTML table of the first rows, for notebooks."""
        columns = {name: column[:SHOWN_ROWS].tolist() for name, column in self.items()}
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_shown(value))}</td>" for value in row) + "</tr>"
            for row in zip(*columns.values(), strict=True)
        )
        more = f"<p>{self.height:,} rows</p>" if self.height > SHOWN_ROWS else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def __repr__(self) -> str:
        return f"<Table of {self.height:,} rows: {', '.join(self)}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, dict) or self.keys() != other.keys():
            return False
        return all(_equal(column, other[name]) for name, column in self.items())

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)

    def _unchanging(self, *_arguments: Any, **_named: Any) -> NoReturn:
        """Refused: a table cannot be changed."""
        raise TypeError("a table cannot be changed; make another: Table({**table, ...})")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = cast(Any, _unchanging)


def rows_of(table: Mapping[str, Column]) -> list[dict[str, Any]]:
    """A table of arrays as a list of rows."""
    columns = {name: column.tolist() for name, column in table.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def known_rows(table: Mapping[str, Column]) -> list[dict[str, Any]]:
    """The same with None for what is missing: NaN among numbers, nothing among texts."""
    return [
        {name: None if each == "" or each != each else each for name, each in row.items()} for row in rows_of(table)
    ]


def _column(values: list[Any]) -> Column:
    """An array; what is missing is NaN among numbers, and nothing among texts."""
    import numpy as np

    there = [value for value in values if value is not None]
    if len(there) == len(values):
        return np.asarray(values)
    missing: Any = "" if any(isinstance(value, str) for value in there) else np.nan
    return np.asarray([missing if value is None else value for value in values])


def _arrow(column: Column) -> Any:
    """A column of Arrow, of the type of the same name."""
    import nanoarrow as na
    import numpy as np

    if column.dtype.kind in "Ub":  # as lists: nanoarrow 0.9 loses bits of arrays of booleans
        return na.c_array(column.tolist(), na.bool_() if column.dtype.kind == "b" else na.string())
    return na.c_array(np.ascontiguousarray(column), getattr(na, column.dtype.name)())


def _equal(one: Column, other: Any) -> bool:
    import numpy as np

    other = np.asarray(other)
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f" and other.dtype.kind == "f")


def _shown(value: Any) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
