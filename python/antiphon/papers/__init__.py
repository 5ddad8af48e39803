"""Papers whose tables and figures Antiphon reproduces: data and experiments, never a branch in the core.

A folder is a paper: plain Python that reads CSV. ``series.csv`` has what its figures compare, ``claims.csv`` what it
claims; other tables are what it published, and texts of the page. What papers share is ``antiphon.repro``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from antiphon.errors import AntiphonError

if TYPE_CHECKING:
    from antiphon.repro.figure import Paper

NAMES = ("tto", "themis", "ccube", "ace", "aries")


class _Papers(Mapping[str, "Paper"]):
    """A paper is imported when it is asked for: its folder has it as ``PAPER``."""

    def __getitem__(self, name: str) -> Paper:
        if name not in NAMES:
            raise KeyError(name)
        paper: Paper | None = getattr(import_module(f"{__name__}.{name}"), "PAPER", None)
        if paper is None:
            raise AntiphonError(f"papers/{name}/__init__.py has no PAPER; CONTRIBUTING.md says what it is", "bad-file")
        return paper

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


PAPERS = _Papers()
"""All papers, by the name the command line knows."""
