"""Contracts of JSON: which keys a record has, by the types of their values."""

from __future__ import annotations

from typing import Any


def has_keys(record: dict[str, Any], kinds: dict[type, str]) -> None:
    """That a record has these keys, and more perhaps, with values of these types."""
    types = {key: kind for kind, keys in kinds.items() for key in keys.split()}
    assert {key: type(record[key]) for key in types} == types
