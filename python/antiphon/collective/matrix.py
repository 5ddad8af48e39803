"""Matrices of an all-to-all of unequal sizes: how many bytes every rank has for every other one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, TypeAlias

import numpy as np

from antiphon._core import Fabric, format_bytes, parse_bytes
from antiphon.arguments import shown
from antiphon.errors import AntiphonError
from antiphon.files import read_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

Matrix: TypeAlias = str | os.PathLike[str] | np.ndarray[Any, Any] | Sequence[Sequence[str | int]]
"""A CSV file, an array, or rows: from each rank, by row, to each rank, by column."""
LARGEST_FILE = 1 << 26
"""Files of matrices are read whole; larger ones are refused."""
MOST = 1 << 50
"""Largest entry, 1 PiB."""
DEFAULT = "64MiB"
"""The full buffer where nothing else is said."""


class Amount(NamedTuple):
    """How much a collective moves: the full buffer, or with a matrix the most that a rank sends."""

    bytes: int
    matrix: NDArray[np.uint64] | None

    @property
    def matrix_bytes(self) -> int | None:
        """Sum of the matrix; None without."""
        return None if self.matrix is None else int(self.matrix.sum())

    @property
    def given(self) -> dict[str, Any]:
        """The one argument that says it: ``bytes`` or ``matrix``."""
        return {"bytes": self.bytes} if self.matrix is None else {"matrix": self.matrix}


def size_text(bytes: int, matrix_bytes: int | None) -> str:
    """What is moved, for people.

    >>> size_text(1 << 20, None), size_text(1 << 20, 3 << 20)
    ('1MiB', '3MiB by a matrix')
    """
    return format_bytes(bytes) if matrix_bytes is None else f"{format_bytes(matrix_bytes)} by a matrix"


def amount(bytes: str | SupportsIndex | None, matrix: Matrix | None, fabric: Fabric) -> Amount:
    """What a size and a matrix, of which one is given, say on a fabric.

    Raises:
        AntiphonError: ``bad-spec`` for both; ``bad-size``; as ``as_matrix``.
    """
    if matrix is None:
        return Amount(parse_bytes(DEFAULT if bytes is None else bytes), None)
    if bytes is not None:
        raise AntiphonError("give either bytes or a matrix, which says all sizes", "bad-spec")
    sizes = as_matrix(matrix, fabric)
    return Amount(int(sizes.sum(axis=1).max()), sizes)


def as_matrix(matrix: Matrix, fabric: Fabric) -> NDArray[np.uint64]:
    """The sizes of a file ``*.csv``, an array or rows, for all ranks of a fabric; the diagonal counts as zero.

    >>> as_matrix([[5, "1KiB"], [0, 7]], Fabric("ring:2")).tolist()
    [[0, 1024], [0, 0]]

    Raises:
        AntiphonError: ``bad-file`` naming file and line, ``bad-spec`` for what is no matrix of the fabric's ranks or
            has nothing for any other rank, ``bad-size`` for an entry that is no size.
    """
    if isinstance(matrix, str | os.PathLike):
        where, code = os.fspath(matrix), "bad-file"
        sizes = _read(where, fabric)
    else:
        where, code = "matrix", "bad-spec"
        sizes = _converted(matrix, fabric)
    if not sizes.any():
        raise AntiphonError(f"{where}: no rank has anything for another one; give at least one size", code)
    return sizes


def _read(path: str, fabric: Fabric) -> NDArray[np.uint64]:
    """A file of lines of sizes with commas; empty lines do not count."""
    lines = enumerate(read_text(path, LARGEST_FILE).splitlines(), 1)
    rows: list[list[int]] = []
    each = f"one for each rank of {fabric.name}"
    for number, line in lines:
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        cells = line.split(",")
        if len(rows) == fabric.ranks:
            raise AntiphonError(f"{where}: a row too many; expected {fabric.ranks}, {each}", "bad-file")
        if len(cells) != fabric.ranks:
            raise AntiphonError(f"{where}: {len(cells)} numbers, expected {fabric.ranks}, {each}", "bad-file")
        try:
            rows.append([0 if column == len(rows) else _size(cell.strip()) for column, cell in enumerate(cells)])
        except AntiphonError as error:
            raise AntiphonError(f"{where}: {error.message}", "bad-file") from None
    if len(rows) != fabric.ranks:
        raise AntiphonError(f"{path}: {len(rows)} rows, expected {fabric.ranks}, {each}", "bad-file")
    return np.array(rows, dtype=np.uint64)


def _converted(matrix: Any, fabric: Fabric) -> NDArray[np.uint64]:
    """An array or rows of numbers or sizes."""
    ranks = fabric.ranks
    expected = f"expected {ranks} rows of {ranks} numbers, as {fabric.name} has ranks"
    try:
        found = np.asarray(matrix)
    except ValueError:  # rows of different lengths
        raise AntiphonError(f"matrix: rows of different lengths; {expected}", "bad-spec") from None
    if found.shape != (ranks, ranks):
        shape = " x ".join(map(str, found.shape)) or shown(matrix)
        raise AntiphonError(f"matrix: {shape}; {expected}", "bad-spec")
    if found.dtype.kind not in "iuf":  # sizes as text, or large numbers
        found = np.asarray(matrix, dtype=object)
    found = found.copy()
    np.fill_diagonal(found, 0)
    sizes = np.zeros((ranks, ranks), dtype=np.uint64)
    whole = found.dtype.kind in "iu" or (found.dtype.kind == "f" and bool((found == np.floor(found)).all()))
    if whole and found.min() >= 0 and found.max() <= MOST:
        sizes[:] = found.astype(np.uint64)
        return sizes
    for row, column in np.ndindex(ranks, ranks):
        try:
            sizes[row, column] = _size(found[row, column])
        except (AntiphonError, TypeError) as error:
            message = error.message if isinstance(error, AntiphonError) else str(error)
            raise AntiphonError(f"matrix: row {row}, column {column}: {message}", "bad-size") from None
    return sizes


def _size(value: Any) -> int:
    """A size, which may be 0: a whole number, or text."""
    if isinstance(value, float | np.floating):
        value = int(value) if float(value).is_integer() else str(value)
    text = value if isinstance(value, str) else str(value)
    if text[:1] == "-":
        raise AntiphonError(f"size {shown(text)}: must not be negative; write for example 0, 4096 or 64KiB", "bad-size")
    if text[:1] == "0" and not any(digit in text for digit in "123456789"):
        parse_bytes(text.replace("0", "1"))  # what follows is a unit
        return 0
    return parse_bytes(value)
