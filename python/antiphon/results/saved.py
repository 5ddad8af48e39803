"""Results in files: JSON of the fields of their classes, with tables as columns."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from antiphon._core import Schedule, System, __version__
from antiphon.errors import AntiphonError
from antiphon.files import parse_json, read_text, written_whole
from antiphon.results.table import Table

SCHEMA = "antiphon-result/1"
LARGEST_FILE = 1 << 30
"""Files of results are read whole; larger ones are refused."""
NO_NUMBERS = ("inf", "-inf", "nan")
"""How ``save`` writes what JSON has no number for."""


def save(result: object, path: str | os.PathLike[str]) -> None:
    """Writes a result, an instance of a dataclass, to a file ``*.json``, complete or not at all."""
    document = {"schema": SCHEMA, "version": __version__, "type": type(result).__name__, "result": _plain(result)}
    with written_whole(path, ".json") as file:
        json.dump(document, file, allow_nan=False, separators=(",", ":"))


def load(kind: type[Any], path: str | os.PathLike[str]) -> Any:
    """Reads a result of this class.

    Raises:
        AntiphonError: ``bad-file``, saying what it is instead.
    """
    try:
        document = parse_json(read_text(os.fspath(path), LARGEST_FILE))
        schema, name = document["schema"], document["type"]
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, AntiphonError):
            raise
        raise AntiphonError(f"{path}: is no saved result", "bad-file") from None
    if schema != SCHEMA or name != kind.__name__:
        message = f"{path}: has a {name} of {schema}, not a {kind.__name__} of {SCHEMA}"
        raise AntiphonError(message, "bad-file")
    try:
        return _made(kind, document["result"])
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        message = f"{path}: does not fit a {kind.__name__} of version {__version__}: {error!s:.200}"
        raise AntiphonError(message, "bad-file") from None


def _plain(value: object) -> Any:
    """What JSON has; numbers that it has not are text."""
    if isinstance(value, Table):
        return {name: [column.dtype.str, [_plain(each) for each in column.tolist()]] for name, column in value.items()}
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, System | Schedule):
        return value.to_json()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _made(kind: Any, value: Any) -> Any:
    """A value of a type, as the field of a class names it, of what ``_plain`` made of it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if value is None else _made(next(each for each in arguments if each is not NoneType), value)
    if origin in (tuple, list, Sequence):
        parts = _checked(value, list)
        if origin is tuple and Ellipsis not in arguments:
            return tuple(_made(each, part) for each, part in zip(arguments, parts, strict=True))
        return (list if origin is list else tuple)(_made(arguments[0], each) for each in parts)
    if kind is Table:
        return Table({name: _column(*column) for name, column in _checked(value, dict).items()})
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        if unknown := _checked(value, dict).keys() - {field.name for field in fields(kind)}:
            raise ValueError(f"'{min(unknown):.40}' is no field of it")
        return cast(Any, kind)(**{field.name: _made(hints[field.name], value[field.name]) for field in fields(kind)})
    if kind in (System, Schedule):
        return kind.from_json(_checked(value, str))
    return _checked(value, kind)


def _checked(value: Any, kind: type) -> Any:
    """A value that is of a type, as JSON has it."""
    if kind is float and type(value) in (int, str) and (type(value) is int or value in NO_NUMBERS):
        return float(value)
    if type(value) is not kind:
        raise TypeError(f"{value!r:.40} is no {kind.__name__}")
    return value


def _column(dtype: str, values: list[Any]) -> Any:
    """A column of a table, of texts, truths or numbers."""
    import numpy as np

    if not re.fullmatch(r"<U\d{1,9}|\|b1|\|[iu]1|<[iu][248]|<f[48]", _checked(dtype, str)):
        raise ValueError(f"no column has the type '{dtype:.40}'")
    if dtype[1] == "U":  # as wide as its texts are
        return np.array([_checked(each, str) for each in _checked(values, list)], dtype="U")
    kind = {"b": bool, "f": float}.get(dtype[1], int)
    return np.array([_checked(each, kind) for each in _checked(values, list)], dtype=dtype)
