"""Papers without a run: their tables as scripts/store_tables.py stored them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.papers import PAPERS, Reproduction, reproduce
from antiphon.repro.table import Table

HERE = Path(__file__).resolve().parent
QUICK: dict[str, tuple[Reproduction, Path]] = {}


def stored(name: str) -> dict[str, Table]:
    """The tables of a paper, by figure."""
    series = PAPERS[name].data.series
    document = json.loads((HERE / f"{name}.json").read_text("utf-8"))

    def entry(found: dict[str, object]) -> dict[str, object]:
        return {
            axis: series.get(str(value), value) if axis in ("series", "model") else value
            for axis, value in found.items()
        }

    return {figure: Table(map(entry, entries)) for figure, entries in document.items()}


@pytest.fixture(scope="session")
def tables() -> dict[str, dict[str, Table]]:
    """Of the papers whose runs take longer than a test should."""
    return {name: stored(name) for name in ("tto", "themis", "ace", "aries")}


@pytest.fixture
def quick(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Reproduction, Path]:
    """A few points of every figure of the paper that the test names as its module's ``NAME``, made once."""
    name = getattr(request, "param", None) or request.module.NAME
    if name not in QUICK:
        folder = tmp_path_factory.mktemp(name)
        QUICK[name] = reproduce(PAPERS[name], PAPERS[name].figures, folder, quick=True), folder
    return QUICK[name]
