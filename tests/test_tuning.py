"""Tuning: the best algorithm and chunks for every size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon import AntiphonError
from antiphon.tuning import default_sizes, size_range


def test_nothing_that_is_compared_is_better() -> None:
    tuning = antiphon.tune("mesh:4x4", sizes=["64KiB", "4MiB"], system="tto")
    for choice in tuning.choices:
        times = [candidate.time_ns for candidate in choice.ranking]
        assert times == sorted(times)
        compared = antiphon.compare(antiphon.Fabric("mesh:4x4"), bytes=choice.bytes, system="tto")
        assert choice.best.time_ns <= compared.ranking[0].time_ns
        assert choice.bound.time_ns <= choice.best.time_ns


def test_chunks_are_at_least_as_good_as_a_full_search() -> None:
    fabric = antiphon.Fabric("mesh:4x4")
    tuning = antiphon.tune(fabric, sizes=["8MiB"], algorithms=["tto"], system="tto")

    def time_ns(chunk: int) -> float:
        schedule = antiphon.build(fabric, f"tto:chunk={chunk}", bytes="8MiB", system="tto")
        return antiphon.simulate(fabric, schedule, "tto").time_ns

    best = min(time_ns(1 << exponent) for exponent in range(13, 24))
    assert tuning.choices[0].best.time_ns <= best


def test_crossovers_separate_the_winners() -> None:
    fabric = antiphon.Fabric("mesh:3x3")
    tuning = antiphon.tune(fabric, sizes=size_range("1KiB..1MiB"), algorithms=["multitree", "ring-bi-odd"])
    ((size, before, after),) = tuning.crossovers
    assert (before, after) == ("multitree", "ring-bi-odd")

    def best(bytes: int) -> str:
        return antiphon.compare(fabric, bytes=bytes, algorithms=[before, after]).ranking[0].algorithm

    assert best(size) == after
    assert best(size // 2) == before
    selection = tuning.selection()
    assert selection[0] == {"from_bytes": 0, "algorithm": "multitree"}
    assert selection[1]["from_bytes"] == size


def test_all_ranks() -> None:
    arguments: dict[str, Any] = {"sizes": ["64MiB"], "algorithms": "tto,ring", "system": "tto"}
    assert "tto" in antiphon.tune("mesh:4x4", **arguments).choices[0].best.algorithm
    tuning = antiphon.tune("mesh:4x4", all_ranks=True, **arguments)
    assert not any(candidate.excluded_ranks for candidate in tuning.choices[0].ranking)
    assert next(refusal for refusal in tuning.refused if refusal.algorithm == "tto").reason == "leaves out rank 12"


def test_tune(commands: Any, tmp_path: Path) -> None:
    out = tmp_path / "selection.json"
    arguments = ("tune", "mesh:4x4", "--sizes", "64KiB..256KiB", "--system", "tto", "--out", str(out))
    tuned = commands.document(*arguments)
    assert [choice["bytes"] for choice in tuned["choices"]] == [65536, 131072, 262144]
    assert json.loads(out.read_text("utf-8")) == tuned
    assert tuned["selection"][0]["from_bytes"] == 0
    for choice in tuned["choices"]:
        assert choice["efficiency"] == pytest.approx(choice["lower_bound_ns"] / choice["time_ns"])
    printed = commands.invoke(*arguments)
    assert "Selection table" in printed.stdout
    assert "Left out" in printed.stdout


def test_sizes() -> None:
    assert default_sizes()[0] == 65536
    assert default_sizes()[-1] == 1 << 30
    assert size_range("1KiB..5KiB") == [1024, 2048, 4096]
    with pytest.raises(AntiphonError, match="larger than the last"):
        size_range("2KiB..1KiB")


def test_mistakes(commands: Any, tmp_path: Path) -> None:
    assert "not a size" in commands.refused("tune", "ring:4", "--sizes", "x")
    assert "not a size" in commands.refused("tune", "ring:4", "--sizes", "1KiB..")
    assert "did you mean 'ring'" in commands.refused("tune", "ring:4", "--algorithms", "rin", "--sizes", "1KiB")
    assert "no algorithm could do" in commands.refused("tune", "ring:4", "--algorithms", "tto", "--sizes", "1KiB")
    assert ".json" in commands.refused("tune", "ring:4", "--out", str(tmp_path / "x.txt"))
    assert "did you mean" in commands.refused("tune", "ring:4", "--fidelity", "packe", "--sizes", "1KiB")
