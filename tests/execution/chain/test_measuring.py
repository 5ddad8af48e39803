"""Chained iterations on every carrier: weights are right, layers wait for their own gradients alone."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import antiphon
from antiphon.errors import AntiphonError
from antiphon.execution.chain.rank import ChainedRank, Compute
from antiphon.execution.testbed import emulation

HEADER = "layer,fwd_compute_ns,fwd_comm,fwd_bytes,ig_compute_ns,ig_comm,ig_bytes,wg_compute_ns,wg_comm,wg_bytes"


def model(layers: int = 6, bytes: int = 40_000, pass_ms: float = 1.0) -> antiphon.Workload:
    """Layers that take so long in each of three passes; the second one has no weights."""
    rows = [
        f"l{at},{pass_ms}e6,NONE,0,{pass_ms}e6,NONE,0,{pass_ms}e6,"
        + ("NONE,0" if at == 1 else f"ALLREDUCE,{bytes + 4 * at}")
        for at in range(layers)
    ]
    return antiphon.Workload.from_csv("layers", "\n".join([HEADER, *rows]))


@pytest.mark.parametrize("spec", ["mesh:2x3", "ring:5", "dgx1v"])
def test_threads_end_with_the_right_weights(spec: str) -> None:
    found = antiphon.measure_chain(spec, model(), iterations=2)
    assert found.correct
    assert found.runs["variant"].tolist() == ["B", "C1", "C2", "CC", "R"]
    assert np.isnan(found.runs["predicted_us"].astype(float)).all()
    assert found.compute_us == pytest.approx(18_000)
    assert (found.runs["iteration_us"] >= found.compute_us).all()
    assert (found.layers, found.gradient_bytes) == (6, 5 * 40_000 + 4 * (2 + 3 + 4 + 5))


@pytest.mark.parametrize("seed", range(12))
def test_random_models_on_random_fabrics(seed: int) -> None:
    """A layer that began before all its bytes were final would end with other weights."""
    random = Random(seed)
    spec = random.choice(
        ["mesh:3x3,drop=0-1", "torus:2x4", "fc:5", "switch:4", "hypercube:3", "mesh:2x5", "bigraph:2x2"]
    )
    rows = [f"l{at},0,NONE,0,0,NONE,0,0,ALLREDUCE,{4 * random.randrange(5_000)}" for at in range(random.randint(1, 9))]
    rows.append("last,0,NONE,0,0,NONE,0,0,ALLREDUCE,4")
    table = antiphon.Workload.from_csv("layers", "\n".join([HEADER, *rows]))
    algorithm = random.choice([None, "combs", "forest", "multitree", "ring-bi", "direct", "dbtree"])
    try:
        found = antiphon.measure_chain(spec, table, algorithm, iterations=2)
    except antiphon.NotApplicable:
        pytest.skip(f"{algorithm} on {spec}")
    assert found.correct


def test_an_algorithm_of_ones_own() -> None:
    found = antiphon.measure_chain("mesh:3x3", model(), "combs", iterations=1, busy=True)
    assert found.runs["variant"].tolist() == ["combs", "combs chained"]
    assert found.correct


def test_wrong_sums_are_seen() -> None:
    schedule = antiphon.build("ring:2", "ring", bytes=64)
    layers = [{"gradient_bytes": 64, "forward_ns": 0.0, "backward_ns": 0.0}]
    rank = ChainedRank(schedule, 0, layers, True, False)
    rank.prepare()
    rank.run(lambda told: told([0]))  # nothing was exchanged
    assert rank.wrong() > 0


@pytest.mark.parametrize("chained", [True, False])
def test_a_layer_waits_for_its_own_gradients_alone(chained: bool) -> None:
    schedule = antiphon.build("ring:2", "ring", bytes=64)
    layers = [{"gradient_bytes": 16, "forward_ns": 0.0, "backward_ns": 0.0}] * 4
    rank = ChainedRank(schedule, 0, layers, chained, False)
    rank.prepare()
    began: list[float] = []
    rank.compute.take = began.append  # type: ignore[method-assign, assignment]

    def exchange(told: Any) -> None:
        began.clear()  # of the backward pass
        for layer in (1, 0, 2):
            told([layer])
            time.sleep(0.02)
        assert len(began) == (3 if chained else 0)

    rank.run(exchange)
    assert len(began) == 4


def test_times_are_taken_without_drift() -> None:
    compute = Compute(busy=False)
    start = time.perf_counter()
    compute.begin()
    for _ in range(50):
        compute.take(1e6)
    assert 0.05 <= time.perf_counter() - start < 0.08


def test_what_fails_ends_all_threads() -> None:
    schedule = antiphon.build("ring:2", "ring", bytes=64)
    layers = [{"gradient_bytes": 64, "forward_ns": 0.0, "backward_ns": 0.0}]
    rank = ChainedRank(schedule, 0, layers, True, False)
    rank.prepare()

    def exchange(_: Any) -> None:
        raise KeyError("broken")

    before = threading.active_count()
    with pytest.raises(KeyError, match="broken"):
        rank.run(exchange)
    assert threading.active_count() == before


def test_a_calibration_predicts_threads(tmp_path: Path) -> None:
    rates = [{"work": work, "rate": 1.0, "beside": "", "cores": 1} for work in ("reduce", "copy")]
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"measured": rates, "machine": {"cores": 1}}))
    found = antiphon.measure_chain("ring:4", model(), iterations=1, calibration=path)
    predicted = dict(zip(found.runs["variant"].tolist(), found.runs["predicted_us"].tolist(), strict=True))
    moved = 2 * 3 * found.gradient_bytes  # half is added, three accesses a byte; half copied, two
    assert predicted["R"] == pytest.approx(found.compute_us + moved * 2.5 / 1e3, rel=1e-3)
    assert found.compute_us < predicted["CC"] < predicted["C1"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"transport": "smoke"}, "transport 'smoke': one of threads, mpi, testbed, cuda"),
        ({"transport": "cuda", "busy": True}, "busy: on a GPU"),
        ({"iterations": 0}, "iterations 0: 1 to 10,000"),
        ({"model": antiphon.Workload("dlrm")}, "exchanges more than gradients"),
        ({"algorithm": "tto"}, "leaves out ranks"),
        ({"fabric": "mesh:17x17"}, "at most 256 are run"),
        ({"link_rate": "fast", "transport": "testbed"}, "link rate 'fast'"),
    ],
)
def test_refuses(given: dict[str, Any], words: str) -> None:
    with pytest.raises(AntiphonError, match=words):
        antiphon.measure_chain(**{"fabric": "mesh:3x3", "model": model(), **given})


def test_mpi_ranks_end_with_the_right_weights() -> None:
    pytest.importorskip("mpi4py")
    found = antiphon.measure_chain("ring:3", model(), transport="mpi", iterations=2, timeout_s=60)
    assert found.correct
    assert found.runs.height == 5


def test_emulated_iterations_take_what_the_model_says() -> None:
    try:
        emulation._host_command()
    except antiphon.NotApplicable as error:
        pytest.skip(str(error))
    found = antiphon.measure_chain(
        "mesh:2x2", model(bytes=100_000, pass_ms=15.0), transport="testbed", link_rate="20mbit", iterations=3
    )
    assert found.correct
    over = found.runs["iteration_us"] / found.runs["predicted_us"]
    assert ((over > 0.9) & (over < 1.1)).all(), found.runs
    iteration = dict(zip(found.runs["variant"].tolist(), found.runs["iteration_us"].tolist(), strict=True))
    assert iteration["CC"] < iteration["C1"] < iteration["R"]
