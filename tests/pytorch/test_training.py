"""Training over ``antiphon`` is training over gloo: the same losses, for every way in which PyTorch spreads a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytorch import wiring
from pytorch.lab import BACKEND, Job, Lab, local

pytest.importorskip("torch", reason="torch is too large for the development environment")

SCRIPT = str(Path(__file__).with_name("training.py"))
KINDS = "ddp,fsdp,tensor-parallel,restored"
TOLERANCE = 1e-6
"""Of losses: sums of four numbers in another order."""


def losses(job: Job, out: Path) -> dict[str, list[float]]:
    """What rank 0 of a job wrote."""
    for ended in job.wait():
        assert ended.status == 0, ended.text
    return dict(json.loads(out.read_text("utf-8")))


def compared(found: dict[str, list[float]], expected: dict[str, list[float]]) -> None:
    assert found.keys() == expected.keys()
    for kind, own in found.items():
        assert own == pytest.approx(expected[kind], rel=0, abs=TOLERANCE), kind


@pytest.mark.covers_processes
def test_losses_are_those_of_gloo(tmp_path: Path) -> None:
    found = {}
    for backend in ("gloo", BACKEND):
        out = tmp_path / f"{backend}.json"
        found[backend] = losses(local([SCRIPT, backend, str(out), "10", KINDS], tmp_path, 4), out)
    compared(found[BACKEND], found["gloo"])
    assert found["gloo"]["ddp"][-1] < found["gloo"]["ddp"][0] - 1, "it learns nothing"
    assert found["gloo"]["ddp"] == pytest.approx(found["gloo"]["fsdp"], rel=0, abs=TOLERANCE)
    assert found["gloo"]["restored"] == found["gloo"]["fsdp"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edges", "order", "each"),
    [(wiring.ring(4), [2, 0, 3, 1], 1), (wiring.ring(3), None, 2), (wiring.star_with_leaf(), None, 1)],
)
@pytest.mark.usefixtures("cables")
def test_losses_are_those_of_gloo_over_cables(
    edges: wiring.Edges, order: list[int] | None, each: int, tmp_path: Path
) -> None:
    found = {}
    kinds = "ddp,fsdp,restored" if wiring.hosts_of(edges) * each % 4 else KINDS
    for backend in ("gloo", BACKEND):
        with Lab(edges, 500, routes=backend == "gloo") as lab:
            out = tmp_path / f"{backend}.json"
            script = [SCRIPT, backend, str(out), "200", kinds]
            job = lab.start(script, tmp_path, hosts=order, each=each, limit_s=900)
            found[backend] = losses(job, out)
    compared(found[BACKEND], found["gloo"])
