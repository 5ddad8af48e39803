"""What of PyTorch's own tests passes here, beside gloo.

    PYTHONPATH=python:tests python tests/pytorch/upstream/table.py [SUITE ...]

Runs suites and writes their rows of `table.csv` again.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

from pytorch.upstream.runner import SUITES

HERE = Path(__file__).resolve().parent
TABLE = HERE / "table.csv"
"""``suite``, ``test``, and how it ends on ``gloo`` and on ``antiphon``."""


def read() -> list[dict[str, str]]:
    """The rows of the table."""
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file))


def outcomes(suite: str, backend: str) -> dict[str, str]:
    """Verdict of every test of a suite."""
    with tempfile.TemporaryDirectory(prefix="antiphon") as folder:
        out = Path(folder, "out.csv")
        command = [sys.executable, str(HERE / "runner.py"), suite, "--backend", backend, "--out", str(out)]
        subprocess.run(command, check=False, timeout=900)
        with out.open(newline="") as file:
            return {row["test"]: row["verdict"] for row in csv.DictReader(file)}


def write(rows: list[dict[str, str]]) -> None:
    """Writes the table: tests that both skip are left out."""
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["suite", "test", "gloo", "antiphon"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for row in rows if {row["gloo"], row["antiphon"]} != {"skip"})


def main() -> None:
    """The command."""
    asked = sys.argv[1:] or list(SUITES)
    rows = [row for row in read() if row["suite"] not in asked] if TABLE.exists() else []
    for suite in asked:
        gloo, antiphon = (outcomes(suite, backend) for backend in ("gloo", "antiphon"))
        rows += [
            {"suite": suite, "test": test, "gloo": gloo.get(test, "skip"), "antiphon": verdict}
            for test, verdict in antiphon.items()
        ]
    order = list(SUITES)
    write(sorted(rows, key=lambda row: (order.index(row["suite"]), row["test"])))


if __name__ == "__main__":
    main()
