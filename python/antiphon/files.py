"""Files: read after a look at their size; written complete or not at all."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from antiphon import inputs
from antiphon.arguments import expect, shown
from antiphon.errors import AntiphonError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LARGEST_GRAPH = 1 << 26
"""Bytes of a graph that may be read, as of fabric files."""
LARGEST_SCHEDULE = 1 << 30
"""Schedule files are read whole; larger ones are refused."""


def read_text(path: str, largest: int) -> str:
    """The text of a regular file of at most ``largest`` bytes, without a byte order mark.

    Raises:
        AntiphonError: ``bad-file`` or ``too-large``, naming the file.
    """
    try:
        return read_bytes(path, largest).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise AntiphonError(f"{path}: is not UTF-8 text", "bad-file") from None


def read_bytes(path: str, largest: int) -> bytes:
    """What a regular file of at most ``largest`` bytes has.

    Raises:
        AntiphonError: as ``read_text``.
    """
    file = Path(path)
    try:
        status = file.stat()
        if stat.S_ISDIR(status.st_mode):
            raise AntiphonError(f"{path}: cannot be read: Is a directory", "bad-file")
        if not stat.S_ISREG(status.st_mode):  # a device or pipe may never end
            raise AntiphonError(f"{path}: is not a regular file", "bad-file")
        if status.st_size > largest:
            from antiphon._core import format_bytes

            raise AntiphonError(f"{path}: is larger than {format_bytes(largest)}", "too-large")
        inputs.note(status)
        return file.read_bytes()
    except AntiphonError:
        raise
    except OSError as error:
        raise AntiphonError(f"{path}: cannot be read: {error.strerror or error}", "bad-file") from None
    except ValueError as error:  # a name that no file can have
        raise AntiphonError(f"{shown(path)}: cannot be read: {error}", "bad-file") from None


def parse_json(text: str) -> Any:
    """What a text in JSON says.

    Raises:
        ValueError: if it is none, or an object has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_unrepeated, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {shown(next(key for key in keys if keys.count(key) > 1))} is there twice")
    return found


def parse_toml(text: str) -> dict[str, Any]:
    """What a text in TOML says.

    Raises:
        ValueError: if it is none.
    """
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    return document


def read_toml(path: str, largest: int) -> dict[str, Any]:
    """What a TOML file of at most so many bytes describes.

    Raises:
        AntiphonError: ``bad-file`` with the path and the reason.
    """
    text = read_text(path, largest)
    try:
        return parse_toml(text)
    except ValueError as error:
        raise AntiphonError(f"{path}: is no TOML: {error}", "bad-file") from None


@contextmanager
def written_whole(path: str | os.PathLike[str], *suffixes: str) -> Iterator[TextIO]:
    """A text file that takes the place of ``path`` when the block ends without an exception.

    That ``path`` can be written is found out at the start of the block.

    Raises:
        AntiphonError: ``bad-file`` if it cannot be written or ends in none of the ``suffixes``.
    """
    known = " or ".join(suffixes)
    if not os.fspath(path):
        raise AntiphonError(f"the file name is empty; it must end in {known}", "bad-file")
    if Path(path).suffix.lower() not in suffixes:
        raise AntiphonError(f"{path}: the file name must end in {known}", "bad-file")
    temporary: Path | None = None
    try:
        place, mode = _place(path)
        handle = _nameless(place.parent)
        if handle is None:
            handle, temporary = _named(place)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yield file
            file.flush()
            temporary = temporary or _linked(handle, place)
        temporary.chmod(mode)
        _place(path)  # what was read since then counts, too
        temporary.replace(place)
        temporary = None
    except OSError as error:
        raise AntiphonError(f"{path}: cannot be written: {error.strerror or error}", "bad-file") from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()


def _place(path: str | os.PathLike[str]) -> tuple[Path, int]:
    """The file that ``path`` means, through links, and the mode that it has or will have.

    Raises:
        AntiphonError: ``bad-file`` for one that may not be replaced.
    """
    place = Path(os.path.realpath(path))
    try:
        status = place.stat()
    except FileNotFoundError:
        return place, 0o666 & ~_umask()
    if not stat.S_ISREG(status.st_mode):
        raise AntiphonError(f"{path}: exists and is not a file", "bad-file")
    if inputs.has(status):
        raise AntiphonError(f"{path}: is read by the same command; write another file", "bad-file")
    if not os.access(place, os.W_OK):
        raise AntiphonError(f"{path}: cannot be written: Permission denied", "bad-file")
    return place, stat.S_IMODE(status.st_mode)


def check_prefix(prefix: str | os.PathLike[str], name: str) -> str:
    """The prefix of files that are to be written, the argument ``name``.

    Raises:
        AntiphonError: ``bad-file`` for a folder or a name that is none, or where nothing can be written.
    """
    expect(name, prefix, str, os.PathLike)
    text = os.fspath(prefix)
    folder, last = os.path.split(text)
    if last in ("", ".", "..") or "\0" in text:
        message = f"{shown(text)}: no prefix of files; give for example traces/model, for traces/model.0.et"
        raise AntiphonError(message, "bad-file")
    if not os.path.isdir(folder or "."):
        raise AntiphonError(f"{folder}: there is no such folder", "bad-file")
    if not os.access(folder or ".", os.W_OK):
        raise AntiphonError(f"{folder or '.'}: cannot be written: Permission denied", "bad-file")
    return text


def write_together(files: Iterable[tuple[str, bytes]]) -> None:
    """Writes several files that each take their place once all are written; until then there is none of them.

    Raises:
        AntiphonError: ``bad-file`` naming one that cannot be written.
    """
    written: list[tuple[Path, Path]] = []
    path = Path()
    try:
        for name, content in files:
            path = Path(name)
            place, mode = _place(path)
            handle, temporary = _named(place)
            written.append((temporary, place))
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            temporary.chmod(mode)
        for temporary, path in written:
            temporary.replace(path)
        written = []
    except OSError as error:
        raise AntiphonError(f"{path}: cannot be written: {error.strerror or error}", "bad-file") from None
    except AntiphonError:
        raise  # of what is to be written
    except ValueError as error:
        raise AntiphonError(f"{shown(path)}: cannot be written: {error}", "bad-file") from None
    finally:
        for temporary, _ in written:
            with suppress(OSError):
                temporary.unlink()


@contextmanager
def trace_to(path: str | os.PathLike[str] | None) -> Iterator[Callable[[str], object] | None]:
    """What takes the text of a trace, for a file ``*.json``; None without one.

    Raises:
        AntiphonError: as ``written_whole``.
    """
    if path is None:
        yield None
        return
    with written_whole(path, ".json") as file:
        yield file.write


def _nameless(folder: Path) -> int | None:
    """A file without a name, which is gone when this process is, however it ends; None where there are none."""
    if not hasattr(os, "O_TMPFILE") or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:  # not on every file system; where nothing can be written, a named file says why
        return None


def _named(path: Path) -> tuple[int, Path]:
    """A new file beside ``path``."""
    import tempfile

    handle, name = tempfile.mkstemp(suffix=".tmp", prefix=f".{path.stem[:40]}-", dir=path.parent)
    return handle, Path(name)


def _linked(handle: int, path: Path) -> Path:
    """Gives a nameless file a name beside ``path``."""
    import secrets

    name = path.with_name(f".{path.stem[:40]}-{secrets.token_hex(8)}.tmp")
    folder = os.open("/", os.O_RDONLY)  # with a folder, links are followed
    try:
        os.link(f"/proc/self/fd/{handle}", name, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)
    return name


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
