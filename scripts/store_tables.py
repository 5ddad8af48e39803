"""Stores the tables of a paper's figures, so that tests judge its claims without a run.

python scripts/store_tables.py tto RUNS   # RUNS: the folder of `antiphon reproduce`; writes tests/papers/tto.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from antiphon.papers import PAPERS
from antiphon.repro.data import Series
from antiphon.studies import Store

HERE = Path(__file__).resolve().parent.parent / "tests" / "papers"


def plain(value: Any) -> Any:
    """A value as JSON, with six digits; None for what claims do not read."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [plain(each) for each in value] if all(isinstance(each, str | int | float) for each in value) else None
    if isinstance(value, dict):
        found = {name: plain(each) for name, each in value.items() if isinstance(name, str)}
        return found if len(found) == len(value) and None not in found.values() else None
    return str(value) if isinstance(value, Series) else value if isinstance(value, str | int) else None


def read(column: str) -> bool:
    """Whether claims may read it: not what is published."""
    return column not in ("source", "note") and not column.startswith(("known", "stated"))


def main(name: str, folder: str) -> None:
    """Evaluates what is in the folder."""
    with Store(folder) as store:
        tables = {}
        for figure in PAPERS[name].figures:
            outcome = figure.evaluate({point: store[point] for point in figure.points(False)}, False)
            tables[figure.name] = [
                {column: value for column in entry if read(column) and (value := plain(entry[column])) is not None}
                for entry in outcome.table
            ]
    lines = ",\n".join(
        f"{json.dumps(figure)}: [\n{rows}\n]"
        for figure, rows in (
            (figure, ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in of)) for figure, of in tables.items()
        )
    )
    (HERE / f"{name}.json").write_text(f"{{\n{lines}\n}}\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
