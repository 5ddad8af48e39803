"""What the figures of ARIES compare: fabrics, as they are configured for an algorithm, and what they train."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import antiphon
from antiphon.collective.timing import simulator
from antiphon.names import Fidelity
from antiphon.repro.data import Data, Series
from antiphon.repro.table import Entry
from antiphon.studies import Heartbeat, Job, Point, Record

DATA = Data("aries")
"""What nothing is said of agrees within 5 %."""
SYSTEM = antiphon.System("aries")
GRADIENT_BYTES = 4
"""Table II: 32 bits."""
PORTS = 4
"""Of a router, without the local one: no configuration has more."""
SIDES = (4, 8)
ALGORITHMS = {"ring": "Ring", "dbtree": "Double binary tree", "multitree": "Multi-tree"}
RUNS = {"ring": "ring:gather=back"}
"""What a name stands for: the configurations found for rings double both directions."""
LARGE = 16
"""Side of a network beyond those of the figures, which section IV-B1 names."""
MESH, TORUS, BUTTERFLY, ADAPT = PEERS = [each for each in DATA.series.values() if each.more["kind"] == "peer"]
ARIES, LATENCY, BEST = DATA.named("ARIES", "ARIES, latency-optimised", "ARIES, best found")
"""As the paper has it: doubled rings, its policy for double binary trees, concentrated multi-trees; and beside it."""
WIDE, SUBNETS = DATA.named("Flattened butterfly, full channels", "Adapt-NoC, subnets")
ASIDES = [each for each in DATA.series.values() if each.more["kind"] == "aside"]
VARIANTS = [each for each in ASIDES if each.name.startswith(ARIES.name)]
MODELS = [each for each in DATA.series.values() if each.more["kind"] == "model"]


@dataclass(frozen=True)
class Design:
    """A fabric, the algorithm on it, and how flits leave its routers: ARIES has circuits to the local port."""

    fabric: str
    algorithm: str
    ejection: str


@cache
def design(series: Series, algorithm: str, side: int) -> Design | None:
    """As designs.csv has it, where an empty cell is any algorithm, or any side; None for what it does not have.

    Ports of flattened butterflies share the rate of a mesh's router.
    """
    ports = 2 * (side - 1) if series in (BUTTERFLY, WIDE) else PORTS
    rate = SYSTEM.link_rate_gb_per_s * PORTS / ports
    for each in DATA.table("designs"):
        if each["design"] == series.name and each["algorithm"] in ("", algorithm) and each["side"] in ("", str(side)):
            run = each["run"] or RUNS.get(algorithm, algorithm)
            return Design(each["fabric"].format(side=side, gb=rate), run, each["ejection"])
    return None


def exists(case: Entry) -> bool:
    """Whether there is such a design."""
    return design(case["series"], case["algorithm"], case["side"]) is not None


def of(case: Entry, series: Series) -> Design:
    """A design in a case."""
    found = design(series, case["algorithm"], case["side"])
    assert found, f"designs.csv lacks {series} for {case['algorithm']} on {case['side']}x{case['side']}"
    return found


def all_reduce(case: Entry, series: Series, fidelity: Fidelity = "flit") -> Point:
    """An AllReduce of a size on a design."""
    found = of(case, series)
    changes = (("router_ejection", found.ejection),)
    return Point(found.fabric, found.algorithm, case["size"], SYSTEM.name, changes, fidelity=fidelity)


def least_ns(side: int, size: int) -> float:
    """An AllReduce in which every rank sends through all of its ports all the time, headers included."""
    ranks, payload = side**2, SYSTEM.packet_payload_bytes
    wire = (payload + SYSTEM.header_flits * SYSTEM.flit_bytes) / payload
    return 2 * (ranks - 1) / ranks * size * wire / (PORTS * SYSTEM.link_rate_gb_per_s)


PROCESSOR = dict(pair.split("=") for pair in SYSTEM.processor.partition(":")[2].split(","))
"""Table II: PEs of a chiplet, their arrays and clock."""
PEAK = 2e-3 * float(PROCESSOR["clock-ghz"]) * int(PROCESSOR["pes"]) * int(PROCESSOR["rows"]) * int(PROCESSOR["cols"])
"""TFLOPS: a multiply-add in every cell and cycle."""
COMPUTE = {
    "peak": f"roofline:tflops={PEAK:g},gb-per-s=1e6,efficiency=1,memory-efficiency=1,element-bytes=4",
    "array": SYSTEM.processor,
    "measured": "measured",
}
"""Memory is ideal in both, as in the model of the array."""


SAMPLES = (1, 16)
"""On each chiplet: as few as there can be, so that exchanges weigh most, and one for each PE."""


@dataclass(frozen=True)
class Training(Job):
    """Iterations of a network with layer-wise overlap; times of exchanges are the same whatever the samples."""

    model: str
    compute: str
    fabric: str
    algorithm: str
    ejection: str

    def measure(self, progress: Heartbeat | None = None) -> Record:
        """Times of an iteration and of its exchanges, and what these take without static power, by samples."""
        system = SYSTEM.with_(router_ejection=self.ejection)
        timer = simulator(system, "packet", energy=True)
        return {
            str(samples): _numbers(
                antiphon.train(
                    self.model,
                    self.fabric,
                    self.algorithm,
                    system,
                    overlap="layerwise",
                    batch=samples,
                    compute=COMPUTE[self.compute],
                    gradient_bytes=GRADIENT_BYTES,
                    collectives=timer,
                    energy=True,
                ).to_dict()
            )
            for samples in SAMPLES
        }


def _numbers(done: Record) -> Record:
    times = {name: done[f"{name}_ns"] for name in ("iteration", "compute", "communication")}
    sizes = {"gradient_bytes": done["gradient_bytes"], "memory_bytes": done["memory"]["bytes"]}
    return times | sizes | {"dynamic_j": done["energy"]["dynamic_j"]}


def training(case: Entry) -> Training:
    """Of a network on a design."""
    model, found = case["model"], of(case, case["series"])
    return Training(model.run, model.more["compute"], found.fabric, found.algorithm, found.ejection)
