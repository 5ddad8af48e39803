"""What a record says, declared with its fields."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from textwrap import fill
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from antiphon.flat import nested
from antiphon.results.table import Table, known_rows

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:  # not in Python 3.10

    def dataclass_transform(**_):
        return lambda decorator: decorator


T = TypeVar("T")
WORD = re.compile(r"([\w.]+)(\?)?(?:\[(.+)\])?(?:=(.+))?")


APART = ""
"""What JSON has of a field that it leaves out."""
ASKED = "energy?"
"""Of what is there if it was asked for."""
PLATFORM = "system=system.name endpoint=system.endpoint"
"""Of a system, of which a record says the name."""


def says(meaning: str, json: str | None = None, **options: Any) -> Any:
    """A field of a record: its meaning, for people, and what JSON has in its place, where that is not the field by its
    name; further arguments are those of ``dataclasses.field``.

    JSON is words with a space between: ``key`` is the field, property or method of this name; ``key=path.to.it``
    another; ``key?`` is left out where that is None; ``key[a,b]`` are pairs, as objects with these keys; ``a.b`` is in
    an object ``a``. Without words JSON leaves the field out.
    """
    return field(metadata={"meaning": meaning} | ({} if json is None else {"json": json}), **options)


@dataclass_transform(frozen_default=True, field_specifiers=(says,))
def record(kind: type[T]) -> type[T]:
    """A class as a frozen dataclass, whose docstring ends with the meanings of its fields."""
    made = dataclass(frozen=True, repr="headline" not in dir(kind))(kind)
    told = [f"{each.name}: {each.metadata['meaning']}" for each in fields(cast(Any, made)) if each.metadata]
    if told and made.__doc__:
        wrapped = (fill(line, 116, initial_indent=" " * 8, subsequent_indent=" " * 12) for line in told)
        made.__doc__ = "\n".join([made.__doc__.rstrip() + "\n", "    Attributes:", *wrapped, "    "])
    return made


class Record:
    """What has fields that say what JSON has of it."""

    def to_dict(self) -> dict[str, Any]:
        """As documented in docs/reference/json.md, without tables that are given apart."""
        return said(self, " ".join(each.metadata.get("json", each.name) for each in fields(cast(Any, self))))


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
    for key, optional, keys, path in parsed(words):
        value = _at(record, path)
        if keys is not None:
            row[key] = [dict(zip(keys, map(_plain, each), strict=True)) for each in value]
        elif value is not None or not optional:
            row[key] = _plain(value() if callable(value) else value)
    return nested(row)


@cache
def parsed(words: str) -> list[tuple[str, bool, list[str] | None, str]]:
    """Of every word of ``says``: key, whether it may be missing, the keys of pairs if they are such, and path."""
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
        return list(map(nested, known_rows(value)))
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
