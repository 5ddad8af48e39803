"""Tuning: the best algorithm and chunks for every size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon import AntiphonError
from antiphon.collective import timing
from antiphon.collective import tuning as tuning_module
from antiphon.collective.choices import Candidate, Choice, Tuning
from antiphon.collective.tuning import default_sizes, size_range


def test_nothing_that_is_compared_is_better() -> None:
    tuning = antiphon.tune("mesh:4x4", sizes=["64KiB", "4MiB"], system="tto")
    for choice in tuning.choices:
        times = [candidate.time_ns for candidate in choice.ranking]
        assert times == sorted(times)
        compared = antiphon.compare("mesh:4x4", bytes=choice.bytes, system="tto")
        assert choice.bound.time_ns <= choice.best.time_ns <= compared.ranking[0].time_ns
    # Nor is any size of chunks.
    chunked = antiphon.tune("mesh:4x4", sizes=["8MiB"], algorithms=["tto"], system="tto").choices[0].best.time_ns
    for exponent in range(13, 24):
        schedule = antiphon.build("mesh:4x4", f"tto:chunk={1 << exponent}", bytes="8MiB", system="tto")
        assert chunked <= antiphon.simulate("mesh:4x4", schedule, "tto").time_ns


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


def test_progress_within_a_size() -> None:
    seen: list[tuple[str, float]] = []
    antiphon.tune("mesh:3x3", sizes="64KiB", progress=lambda name, share: seen.append((name, share)))
    shares = [share for name, share in seen if name == "all-reduce of 64KiB"]
    assert len(shares) > len(antiphon.algorithms()) / 2
    assert shares == sorted(shares)
    assert shares[-1] < 1


def test_an_algorithm_refused_at_one_size_is_tried_at_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = timing.simulator

    def picky(*arguments: Any, **options: Any) -> Any:
        timer = simulator(*arguments, **options)

        def time(fabric: Any, algorithm: str, collective: str, size: int) -> Any:
            if algorithm == "ring" and size < 2048:
                raise AntiphonError("too small", "not-applicable")
            return timer(fabric, algorithm, collective, size)

        return time

    monkeypatch.setattr(tuning_module, "simulator", picky)
    tuning = antiphon.tune("ring:4", sizes="1KiB..4KiB", algorithms="ring,ring-bi,tto")
    assert [len(choice.ranking) for choice in tuning.choices] == [1, 2, 2]
    assert [refusal.algorithm for refusal in tuning.refused] == ["tto"]


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


def test_rows_for_the_tuner_of_nccl(commands: Any, tmp_path: Path) -> None:
    out = tmp_path / "nccl_tuner.csv"
    arguments = ("tune", "dgx-h100:1", "--group", "0-3", "--sizes", "1KiB..1GiB", "--out", str(out))
    found = commands.document(*arguments)
    assert [row["algorithm"] for row in found["rows"]] == ["ring", "nvls", "nvls"]
    assert "allreduce,1024,4194303,ring,ll,-1,1,4,-1,-1" in out.read_text("utf-8").splitlines()
    assert "2 of 3 rows change what NCCL would choose" in commands.invoke(*arguments).stdout
    assert "NCCL does not know combs" in commands.refused(*arguments, "--algorithms", "ring,combs")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sizes", "x"), "not a size"),
        (("--sizes", "1KiB.."), "not a size"),
        (("--sizes", "2KiB..1KiB"), "larger than the last"),
        (("--out", "nccl.CSV"), "'ring:4' is no cluster that libraries are modelled on"),
        (("--out", "nccl.csv", "--energy"), "--energy is about simulations"),
        (("--out", "nccl.csv", "--algorithms", "ring,combs"), "is no cluster"),
        (("--out", "x.txt"), "must end in .json"),
        (("--algorithms", "rin", "--sizes", "1KiB"), "did you mean 'ring'"),
        (("--algorithms", "tto", "--sizes", "1KiB"), "no algorithm could do"),
        (("--fidelity", "packe", "--sizes", "1KiB"), "did you mean"),
    ],
)
def test_mistakes(
    commands: Any, options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in commands.refused("tune", "ring:4", *options)
    assert not list(tmp_path.iterdir())


def test_a_winner_that_returns_starts_at_its_own_crossover() -> None:
    bound = antiphon.lower_bound(antiphon.Fabric("ring:4"), "all-reduce", 1)
    won = zip((1, 100, 1000, 10000), "ABAB", strict=True)
    choices = [Choice(size, [Candidate(name, 1.0, [])], bound) for size, name in won]
    crossovers = [(50, "A", "B"), (500, "B", "A"), (5000, "A", "B")]
    tuning = Tuning("ring:4", "all-reduce", antiphon.System("generic"), "packet", "time", choices, [], crossovers, [])
    rows = [(row["from_bytes"], row["algorithm"]) for row in tuning.selection()]
    assert rows == [(0, "A"), (50, "B"), (500, "A"), (5000, "B")]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"sizes": 1}, "sizes is 1; give a list or text"),
        ({"sizes": [None]}, "size 'None' is not"),
        ({"sizes": []}, "no size given"),
        ({"sizes": ["1KiB"], "algorithms": []}, "no algorithm given"),
        ({"sizes": ["1KiB"], "algorithms": 5}, "algorithms is 5; give a list"),
        ({"sizes": ["1KiB"], "algorithms": [5]}, "algorithm 5 is no text"),
    ],
)
def test_arguments_that_mean_nothing(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(AntiphonError, match=reason):
        antiphon.tune("ring:4", **arguments)


def test_sizes() -> None:
    assert (default_sizes()[0], default_sizes()[-1]) == (65536, 1 << 30)
    assert size_range("1KiB..5KiB") == [1024, 2048, 4096]
