"""Tables: what reads them, what they refuse."""

from __future__ import annotations

import pickle
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from antiphon import AntiphonError, Table

COLUMNS: dict[str, list[Any]] = {
    "name": ["a", "bé", "<c>"],
    "stable": [True, False, True],
    "rank": [0, 1, -1],
    "time_ns": [1.5, float("nan"), float("inf")],
}
TABLE = Table({**COLUMNS, "rank": np.array(COLUMNS["rank"], dtype=np.int8)})


def test_readers_of_arrow_take_it_as_it_is() -> None:
    arrow = pa.RecordBatchReader.from_stream(TABLE).read_all()
    assert [str(field.type) for field in arrow.schema] == ["string", "bool", "int8", "double"]
    assert str(arrow.to_pydict()) == str(COLUMNS)
    assert str(pl.DataFrame(TABLE).to_dict(as_series=False)) == str(COLUMNS)
    assert str(pa.table(TABLE).to_pydict()) == str(COLUMNS)
    assert str(pd.DataFrame(TABLE).to_dict("list")) == str(COLUMNS)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint8", "uint32", "uint64", "float32", "float64", "str"])
def test_every_type_keeps_its_values(dtype: str) -> None:
    for count in (1, 2, 3, 8, 9, 100):
        column = (np.arange(count) * 7 % 3 == 1).astype(dtype)[::-1]
        read = pa.RecordBatchReader.from_stream(Table({"a": column})).read_all()["a"]
        assert read.to_pylist() == column.tolist()


def test_duckdb_finds_it_by_the_name_of_a_variable() -> None:
    links = TABLE
    found = duckdb.sql("select name, rank from links where stable order by rank")
    assert found is not None
    assert found.fetchall() == [("<c>", -1), ("a", 0)]
    assert links is TABLE


@pytest.mark.parametrize("empty", [Table(), Table({"name": np.array([], "U1"), "bytes": np.array([], np.uint64)})])
def test_no_rows(empty: Table) -> None:
    assert pa.RecordBatchReader.from_stream(empty).read_all().num_rows == 0
    assert empty.height == 0
    assert empty.rows() == []
    assert "<table>" in empty._repr_html_()


def test_it_cannot_be_changed() -> None:
    given = np.array([1, 2])
    table = Table({"a": given})
    with pytest.raises(TypeError, match="cannot be changed"):
        table["a"] = given
    with pytest.raises(TypeError, match="cannot be changed"):
        table.update(b=given)
    with pytest.raises(ValueError, match="read-only"):
        table["a"][0] = 3
    given[0] = 3  # what it was made of is still the caller's
    copy = pickle.loads(pickle.dumps(TABLE))
    assert copy == TABLE
    assert type(copy) is Table
    assert not copy["rank"].flags.writeable


def test_equality_is_by_value() -> None:
    assert Table({"a": [1.0, np.nan]}) == Table({"a": [1.0, np.nan]})
    assert Table({"a": [1]}) != Table({"a": [2]})
    assert Table({"a": [1]}) != Table({"b": [1]})
    assert Table({"a": [1]}) != [1]


@pytest.mark.parametrize("columns", [{"a": [1], "b": [1, 2]}, {"a": 1}, {"a": [[1]]}])
def test_columns_of_a_table_are_of_one_length(columns: dict[str, Any]) -> None:
    with pytest.raises(AntiphonError, match="of one length and one dimension"):
        Table(columns)


def test_rows_become_columns() -> None:
    table = Table.of_rows([{"a": None, "b": {"c": [1, 2]}, "d": None}, {"a": 2, "b": {"c": []}, "d": "x"}])
    assert str(table.rows()) == "[{'a': nan, 'b.c': '1 2', 'd': ''}, {'a': 2.0, 'b.c': '', 'd': 'x'}]"


def test_notebooks_show_the_first_rows_escaped() -> None:
    page = TABLE._repr_html_()
    assert "&lt;c&gt;" in page
    assert "<th>time_ns</th>" in page
    assert Table({"a": range(1000)})._repr_html_().endswith("<p>1,000 rows</p>")


def test_frames_need_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(TABLE.to_frame().columns) == list(COLUMNS)
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(AntiphonError, match=r"pip install 'antiphon\[pandas\]'") as caught:
        TABLE.to_frame()
    assert caught.value.code == "missing-extra"
