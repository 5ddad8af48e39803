"""A fabric inside a GPU that this machine stands in for: thread blocks, clocks and layers, but no GPU's times."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from cuda_stand_in import Driver

import antiphon
from antiphon.execution.cuda import testbed
from antiphon.execution.cuda.device import Gpu
from antiphon.execution.cuda.program import Layer
from antiphon.execution.cuda.testbed import GpuFabric

Machine = Callable[..., Driver]


@pytest.fixture(autouse=True)
def _few_hops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testbed, "HOPS", 4)
    monkeypatch.setattr(testbed, "SPIN_CYCLES", 10_000_000)
    monkeypatch.setattr(testbed, "PROBE_BYTES", 1 << 18)
    monkeypatch.setattr(testbed, "RATE_TOLERANCE", 1.0)  # threads share cores
    clock = GpuFabric._clock

    def exact(self: GpuFabric) -> float:
        assert 0 < clock(self) < 1.05  # it counts ns, but others have the core meanwhile
        return 1.0

    monkeypatch.setattr(GpuFabric, "_clock", exact)


def test_emulate(stand_in: Machine) -> None:
    driver = stand_in()
    found = antiphon.emulate("mesh:2x2", ["ring", "tto"], bytes="64KiB", device="cuda", link_rate="10MB/s", repeat=2)
    assert found.correct
    assert found.device == "Stand-in"
    assert found.link_rate_bit_per_s == 80_000_000
    assert found.hop_ns is not None
    assert found.hop_ns > 0
    assert 0 < found.slowest_link <= found.fastest_link <= 1.01
    for row in found.runs.rows():
        assert row["least_ns"] <= row["measured_ns"] <= row["most_ns"]
        # A link is never faster than its rate.
        assert row["measured_ns"] > 0.9 * (row["predicted_ns"] - 20 * found.hop_ns)
    assert driver.memory == {}


def test_chained_iterations(stand_in: Machine) -> None:
    driver = stand_in()
    header = "layer,fwd_compute_ns,fwd_comm,fwd_bytes,ig_compute_ns,ig_comm,ig_bytes,wg_compute_ns,wg_comm,wg_bytes"
    rows = [f"l{at},1e6,NONE,0,1e6,NONE,0,1e6,ALLREDUCE,{4000 + 4 * at}" for at in range(3)]
    model = antiphon.Workload.from_csv("layers", "\n".join([header, *rows]))
    found = antiphon.measure_chain("ring:4", model, transport="cuda", link_rate="10MB/s", iterations=1)
    assert found.correct
    assert found.runs["variant"].tolist() == ["B", "C1", "C2", "CC", "R"]
    assert (found.runs["iteration_us"] >= found.compute_us).all()
    assert driver.memory == {}


def test_layers_follow_their_chunks(stand_in: Machine) -> None:
    driver = stand_in()
    gpu = Gpu()
    there = GpuFabric(gpu, antiphon.Fabric("dgx1v"), 0.02)
    schedule = antiphon.build(there.fabric, "overlapped-tree:chunk=4KiB", bytes="64KiB")
    layers = [Layer(1 << 14, 2e6)] * 4
    times = {}
    for is_chained in (False, True):
        loaded = there.loaded(schedule, "float32", layers, is_chained=is_chained)
        run = loaded.run()
        assert run.wrong == 0
        assert run.time_ns == run.rank_ns.max()
        assert (run.rank_ns >= 8e6).all()
        times[is_chained] = run
        loaded.close()
    # Without chaining, layers come after all that comes to their rank.
    assert times[False].time_ns >= times[False].exchange_ns + 8e6
    gpu.close()
    assert driver.memory == {}


def test_slow_links_and_those_that_act_together(stand_in: Machine) -> None:
    stand_in()
    gpu = Gpu()
    for spec, rates in (("ring:4,slow=0-1:0.25", [0.25, 1.0]), ("dgx1v", [2.0])):
        there = GpuFabric(gpu, antiphon.Fabric(spec), 0.01)
        loaded = there.loaded(antiphon.build(spec, "ring", bytes="64KiB"), "float32")._loaded
        cycles = loaded.program.column("cycles")
        wire = loaded.program.wire_bytes
        assert sorted(set(np.round(100 * wire / cycles, 2).tolist())) == rates
        loaded.close()
    gpu.close()


@pytest.mark.parametrize(
    ("spec", "code", "said"),
    [
        ("mesh:2x2@4/10ns", "not-applicable", "of their own"),
        ("mesh:6x6", "too-large", "Stand-in serves 64 at once"),
    ],
)
def test_what_is_refused(spec: str, code: str, said: str, stand_in: Machine) -> None:
    stand_in()
    with pytest.raises(antiphon.AntiphonError) as error:
        antiphon.emulate(spec, "ring", bytes="64KiB", device="cuda")
    assert (error.value.code, said in str(error.value)) == (code, True), error.value


def test_links_that_the_memory_cannot_feed(stand_in: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in()
    monkeypatch.setattr(testbed, "RATE_TOLERANCE", 0.05)
    with pytest.raises(antiphon.NotApplicable, match="lower --link-rate"):
        antiphon.emulate("mesh:2x2", "ring", bytes="64KiB", device="cuda", link_rate="900GB/s")
