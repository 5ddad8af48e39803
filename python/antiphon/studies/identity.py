"""What a stored run depends on: the values of its point, the files and plugins that these name, and the code that makes
it."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from antiphon._core import __file__ as EXTENSION
from antiphon._core import __version__
from antiphon.plugins import digests, registered
from antiphon.studies.jobs import Job

SHOWN_ONLY = ("cli", "papers", "view")
"""Parts of the package that no run depends on, unless its own job is there."""
SUFFIXES = (".csv", ".dot", ".gv", ".json", ".onnx", ".toml", ".txt", ".xml", ".yaml", ".yml")
"""Of files that values name by themselves."""
SETTLED_S = 2.0
"""The content of a file is read again unless it was last changed this long before it was read."""
CONFIGURATION = ",config="
"""Before a file in the specification of a fabric that can be configured."""
_encoder = json.JSONEncoder(separators=(",", ":"), check_circular=False)
_read: dict[tuple[str, int, int, int], str] = {}
"""Digests of files that were read, by path, inode, size and time of change."""


def key_of(job: Job) -> str:
    """A digest of all that decides what a job gives; another one where any of it changes."""
    files = {path: _content(path) for path in files_of(job)} | plugins_of(job)
    return _digest(text([described(job), files, build_id(), _code_of(type(job).__module__)]).encode())


def described(job: Job) -> list[Any]:
    """What tells a job from others: its kind and its values."""
    kind = type(job)
    return [f"{kind.__module__}.{kind.__qualname__}", {field.name: getattr(job, field.name) for field in fields(job)}]


def text(value: Any) -> str:
    """A value as JSON, without blanks."""
    return _encoder.encode(value)


@cache
def build_id() -> str:
    """Version of Antiphon and a hash of the compiled core and of the package's sources: other builds may give other
    results."""
    package = Path(EXTENSION).parent
    sources = [path for path in sorted(package.rglob("*.py")) if path.relative_to(package).parts[0] not in SHOWN_ONLY]
    hashed = hashlib.sha256()
    for path in (Path(EXTENSION), *sources):
        code = path.read_bytes()
        hashed.update(f"{path.name} {len(code)}\n".encode() + code)
    return f"{__version__}-{hashed.hexdigest()[:16]}"


@cache
def _code_of(module: str) -> str:
    """A digest of the source of the module that has a kind of jobs; empty where there is none."""
    source = getattr(sys.modules.get(module), "__file__", None)
    return "" if source is None else _digest(Path(source).read_bytes())


def plugins_of(job: Job) -> dict[str, str]:
    """Digests of the plugins that a job may use."""
    return digests(re.findall(r"[\w-]+", text(described(job)[1]))) if registered else {}


def files_of(job: Job) -> list[str]:
    """Files that the values of a job may name: fabrics, configurations of fabrics, tables of layers,
    schedules, systems."""
    found: set[str] = set()
    values = [getattr(job, field.name) for field in fields(job)]
    for value in values:
        if isinstance(value, list | tuple):
            values.extend(value)
        if not isinstance(value, str):
            continue
        head = value.removeprefix("file:").partition(",")[0]
        # What follows a path may be a group of ranks, the rate of links, or how many boxes there are.
        paths = {head, *(head[:at] for at, mark in enumerate(head) if mark in "[@*")} - {""}
        if not value.startswith("file:"):
            paths = {path for path in {value, *paths} if path.lower().endswith(SUFFIXES)}
        found |= paths
        if CONFIGURATION in value:
            named = value.partition(CONFIGURATION)[2].partition(",")[0]
            found |= {named, named.rpartition("[")[0]} - {""}
    return sorted(found)


def _content(path: str) -> str | None:
    """A digest of what is in a file; None if there is none."""
    try:
        status = Path(path).stat()
        known = (path, status.st_ino, status.st_size, status.st_mtime_ns)
        if known not in _read:
            now = time.time()
            found = _digest(Path(path).read_bytes()) if Path(path).is_file() else ""
            if now - status.st_mtime < SETTLED_S:  # it may change again without a later time
                return found
            _read[known] = found
        return _read[known]
    except (OSError, ValueError):
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
