"""What comes between ranks: cut cables, killed ranks, connections that nobody asked for."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytorch import wiring
from pytorch.lab import BACKEND, PORT, Ended, Job, Lab, local

pytest.importorskip("torch", reason="torch is too large for the development environment")

pytestmark = pytest.mark.usefixtures("cables")
HERE = Path(__file__).parent
TRAINING, HOSTILE = str(HERE / "training.py"), str(HERE / "hostile.py")
STEPS = 40
NAMED_S, ENDED_S = 2.0, 5.0
"""By then a dead link is named, and all ranks have ended."""
VISITS, LASTS_S = 20, 1.5
TOLERANCE = 1e-6
LONG = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 50)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Losses of the same training to which nothing happens."""
    folder = tmp_path_factory.mktemp("undisturbed")
    job = local(script(folder, "gloo"), folder, 4)
    assert [each.status for each in job.wait()] == [0] * 4, job.text(0)
    return losses(folder)


def script(folder: Path, backend: str = BACKEND, kinds: str = "ddp") -> list[str]:
    return [TRAINING, backend, str(folder / "out.json"), str(STEPS), kinds]


def losses(folder: Path) -> list[float]:
    return list(json.loads((folder / "out.json").read_text("utf-8"))["ddp"])


def failures(ended: list[Ended]) -> Iterator[tuple[int, float, str]]:
    """The ranks that said why they ended, when, and what they said."""
    for each in ended:
        for rank, at, why in re.findall(r"^.*?rank (\d+) failed at ([\d.]+): (.*)$", each.text, re.MULTILINE):
            yield int(rank), float(at), why


def names(lab: Lab, cable: int) -> list[str]:
    """By which a message may name a cable."""
    return [lab.address(cable, host) for host in lab.cables[cable].ends]


def cut_somewhere(lab: Lab, seed: int, folder: Path, **given: str) -> tuple[Job, int, float]:
    """Trains, and cuts a cable at some moment; the job, the cable and when that was."""
    chance = random.Random(seed)
    cable, silently = chance.randrange(4), bool(chance.randrange(2))
    kind, number = chance.choice(("round", "step")), chance.choice((0, 10, 20))
    command = [*script(folder, kinds="rounds,ddp"), f"{kind} {number + 15}"]
    job = lab.start(command, folder, environment=given, limit_s=90)
    job.wait_for(f"{kind} {number}")
    time.sleep(chance.random())
    cut = time.time()
    (lab.drop if silently else lab.cut)(cable)
    (folder / "out.json.go").touch()
    return job, cable, cut


@pytest.mark.parametrize("seed", [0, *LONG])
def test_a_cut_cable_ends_all_ranks_and_is_named(seed: int, tmp_path: Path) -> None:
    with Lab(wiring.ring(4)) as lab:
        job, cable, cut = cut_somewhere(lab, seed, tmp_path)
        found = list(failures(job.wait()))
        assert sorted(rank for rank, _, _ in found) == [0, 1, 2, 3], found
        assert max(at for _, at, _ in found) - cut < ENDED_S
        for _, _, why in found:
            assert any(name in why for name in names(lab, cable)), why


@pytest.mark.parametrize("seed", [0, *LONG])
def test_training_goes_on_without_a_cable(seed: int, undisturbed: list[float], tmp_path: Path) -> None:
    with Lab(wiring.ring(4)) as lab:
        job, cable, _ = cut_somewhere(lab, seed, tmp_path, ANTIPHON_RESILIENT="1")
        ended = job.wait()
        assert [each.status for each in ended] == [0] * 4, "\n".join(each.text for each in ended)
        assert losses(tmp_path) == pytest.approx(undisturbed, rel=0, abs=TOLERANCE)
        said = "".join(each.text for each in ended)
        assert any(name in said for name in names(lab, cable)), said


def test_a_killed_rank_ends_all_others_with_its_name(tmp_path: Path) -> None:
    with Lab(wiring.ring(4)) as lab:
        job = lab.start(script(tmp_path), tmp_path, hosts=[3, 1, 0, 2], limit_s=90)
        job.wait_for("step 10")
        killed = time.time()
        job.kill(2)
        found = list(failures(job.wait()))
        assert sorted(rank for rank, _, _ in found) == [0, 1, 3], found
        assert max(at for _, at, _ in found) - killed < ENDED_S
        for _, _, why in found:
            assert "rank 2" in why


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_connections_that_nobody_asked_for_change_nothing(seed: int, undisturbed: list[float], tmp_path: Path) -> None:
    """Nothing else listens meanwhile but the store, which is PyTorch's."""
    visits: list[dict[str, Any]] = []
    for _ in range(3):  # on a busy machine the visitor may come when they listen no more
        visits = visits or visited(seed, undisturbed, tmp_path)
    assert len(visits) == VISITS
    for each in visits:
        assert each["closed"], each
        assert each["seconds"] < LASTS_S, each


def visited(seed: int, undisturbed: list[float], folder: Path) -> list[dict[str, Any]]:
    """What happened to each visitor of a job, which must end as if there had been none."""
    with Lab(wiring.ring(4)) as lab:
        near = [lab.address(cable.number, next(host for host in cable.ends if host)) for cable in lab.cables[::3]]
        wide = ["0.0.0.0", *(lab.management(host) for host in range(4))]
        command = [*lab.at(0), sys.executable, HOSTILE, str(VISITS), str(seed), ",".join(wide), *near]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as visitor:
            assert visitor.stdout is not None
            assert visitor.stdout.readline() == "ready\n"
            job = lab.start(script(folder), folder, limit_s=90)
            assert [each.status for each in job.wait()] == [0] * 4, job.text(0)
            said = json.loads(visitor.communicate(timeout=80)[0])
        assert losses(folder) == pytest.approx(undisturbed, rel=0, abs=TOLERANCE)  # plans follow what is measured
    assert {port for _, port in said["wide"]} == {PORT}
    return list(said["visits"])
