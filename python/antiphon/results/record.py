"""What a record says, declared with its fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from antiphon.flat import nested
from antiphon.results.table import Table

T = TypeVar("T")
WORD = re.compile(r"([\w.]+)(\?)?(?:\[(.+)\])?(?:=(.+))?")


def says(words: str) -> Mapping[str, str]:
    """Metadata of a field: what JSON has in its place, where that is not the field by its name.

    Words, with a space between: ``key`` is the field, property or method of this name; ``key=path.to.it`` another;
    ``key?`` is left out where that is None; ``key[a,b]`` are pairs, as objects with these keys; ``a.b`` is in an object
    ``a``. Without words JSON leaves the field out.
    """
    return {"says": words}


APART = says("")
"""Of a field that JSON leaves out."""
ASKED = says("energy?")
"""Of what is there if it was asked for."""
PLATFORM = says("system=system.name endpoint=system.endpoint")
"""Of a system, of which a record says the name."""


class Record:
    """A dataclass whose fields say what JSON has of it."""

    def to_dict(self) -> dict[str, Any]:
        """As documented in docs/json.md, without tables that are given apart."""
        return said(self, " ".join(each.metadata.get("says", each.name) for each in fields(cast(Any, self))))


class Part(property, Generic[T]):
    """A property that a part of a record has by its name: ``time_ns = Part(float, "result", "Until all is over.")``."""

    def __init__(self, _kind: Callable[..., T], part: str, meaning: str) -> None:
        self.part = part
        super().__init__()
        self.__doc__ = meaning

    def __set_name__(self, _owner: type, name: str) -> None:
        self.name = name

    if TYPE_CHECKING:

        @overload
        def __get__(self, record: None, owner: type, /) -> Part[T]: ...
        @overload
        def __get__(self, record: Any, owner: type | None = None, /) -> T: ...

    def __get__(self, record: Any, owner: type | None = None, /) -> Any:
        return self if record is None else getattr(getattr(record, self.part), self.name)


def said(record: object, words: str) -> dict[str, Any]:
    """Values of a record by words as in ``says``, as JSON has them."""
    row = {}
    for key, optional, keys, path in _parsed(words):
        value = _at(record, path)
        if keys is not None:
            row[key] = [dict(zip(keys, map(_plain, each), strict=True)) for each in value]
        elif value is not None or not optional:
            row[key] = _plain(value() if callable(value) else value)
    return nested(row)


@cache
def _parsed(words: str) -> list[tuple[str, bool, list[str] | None, str]]:
    found = [match.groups() for match in map(WORD.fullmatch, words.split()) if match]
    return [(key, bool(mark), keys.split(",") if keys else None, path or key) for key, mark, keys, path in found]


def _at(record: Any, path: str) -> Any:
    """What is at a path; of nothing, nothing."""
    for name in path.split("."):
        if record is not None:
            record = record[name] if type(record) is dict else getattr(record, name)
    return record


def _plain(value: Any) -> Any:
    """A value as JSON has it; what a table misses, NaN among numbers and nothing among texts, is null."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Table):
        return [
            nested({name: None if each == "" or each != each else each for name, each in row.items()})
            for row in value.rows()
        ]
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
