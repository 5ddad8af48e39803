"""Runs of the ACE paper: collectives and two iterations of training on its tori, and the tables they are of."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import antiphon
from antiphon._core import Workload
from antiphon.repro.data import Data, Series
from antiphon.studies import Heartbeat, Job, Record

DATA = Data("ace")
"""What nothing is said of agrees within 5 %."""
MIB = 1 << 20
SHAPES = {16: "4x2x2", 32: "4x4x2", 64: "4x4x4", 128: "4x8x4"}
"""NPUs, and L x V x H. The paper states those of 64 and 128."""
NO_OVERLAP, COMM_OPT, COMP_OPT, ACE, IDEAL = SYSTEMS = DATA.named(
    "BaselineNoOverlap", "BaselineCommOpt", "BaselineCompOpt", "ACE", "Ideal"
)
"""Table VI."""
MODELS = RESNET, GNMT, DLRM = DATA.named("ResNet-50", "GNMT", "DLRM")


@dataclass(frozen=True)
class AllReduce(Job):
    """An AllReduce of 64 MiB in four phases."""

    topology: str
    endpoint: str
    bytes: int = 64 * MIB

    def measure(self, progress: Heartbeat | None = None) -> Record:
        """Its time, bytes an NPU sends for each of the buffer, and the rate at which it sends them."""
        done = antiphon.rails(self.topology, self.bytes, scheduler="phased", endpoint=self.endpoint)
        sent = float(sum(done.dimensions["bytes"]))
        return {"time_ns": done.time_ns, "sent": sent / self.bytes, "gb_per_s": sent / done.time_ns}


def all_reduce(npus: int, endpoint: str) -> AllReduce:
    """On the torus of so many NPUs."""
    return AllReduce(f"ace:{SHAPES[npus]}", endpoint)


@cache
def workload(model: str, loop: str, scale: float) -> Workload:
    """The table of a model in a training loop, its times scaled."""
    layers = [
        each for each in DATA.table("layers") if each["model"] == model and loop in (each["loops"] or loop).split("|")
    ]
    text = io.StringIO()
    names = [f"{one}_{what}" for one in ("fwd", "ig", "wg") for what in ("compute_ns", "comm", "bytes")]
    table = csv.DictWriter(text, ["layer", *names, "consumer", "stream"], lineterminator="\n")
    table.writeheader()
    for each in layers:
        cells = {name: each[name] for name in ("layer", "consumer", "stream")}
        for one, collective in (("fwd", "all_to_all"), ("ig", "all_to_all"), ("wg", "all_reduce")):
            size = int(each[f"{one}_{collective}"] or 0)
            cells[f"{one}_compute_ns"] = str(round(scale * int(each[f"{one}_compute_ns"])))
            cells |= {f"{one}_comm": collective.replace("_", "-") if size else "none", f"{one}_bytes": str(size)}
        table.writerow(cells)
    return Workload.from_csv(f"{model.lower()}.csv", text.getvalue())


@dataclass(frozen=True)
class Iteration(Job):
    """Two iterations in a row; ``share`` of the times is decided by memory bandwidth."""

    model: str
    npus: int
    endpoint: str
    loop: str
    scale: float
    share: float

    def measure(self, progress: Heartbeat | None = None) -> Record:
        """Their mean, and how busy computation, links and engine are."""
        overlap = self.loop != "blocking"
        done = antiphon.train(
            workload(self.model, self.loop, self.scale),
            f"rails:ace:{SHAPES[self.npus]}",
            "phased",
            antiphon.System().with_(endpoint=self.endpoint),
            overlap="both" if overlap else "none",
            bucket="layer" if overlap else "table",
            blocking=True,
            unroll=2,
            order="lifo",
            contention="static" if overlap else "dynamic",
            memory_bound=self.share if overlap else None,
        )
        network, computed = done.iteration.network, done.iteration.computations
        links = zip(*(network[f"dim{number}"] for number in (1, 2, 3)), strict=True)
        starts = np.append(network["start_ns"], done.iteration.count * done.iteration_ns)
        busy = covered(list(zip(computed["start_ns"], computed["finish_ns"], strict=True)), starts)
        return {
            "iteration_ns": done.iteration_ns,
            "compute_ns": done.compute_ns,
            "exposed_ns": done.exposed_communication_ns,
            "starts_ns": list(map(float, starts[:-1])),
            "compute": [100 * float(share) for share in np.diff(busy) / np.diff(starts)],
            "links": [100 * float(np.mean(shares)) for shares in links],
            "backward": _backward(done.iteration) if overlap else 0.0,
        }


def iteration(model: Series, npus: int, system: Series, loop: str = "overlap", slower: float = 1.0) -> Iteration:
    """Of a model on a system, as fitted; computation may be slower."""
    scale, share = float(model.more["scale"]), float(model.more["memory_bound"])
    return Iteration(model.name, npus, system.run, system.more["loop"] or loop, scale * slower, share)


def left(system: Series, share: float, memory: float = 0, sms: int = 0) -> float:
    """How much longer computation takes with what a system leaves of 900 GB/s and 80 SMs, and some more set aside."""
    rate, count = float(system.more["memory_gb_per_s"]), int(system.more["sms"])
    return share * 900 / (rate - memory) + (1 - share) * 80 / (count - sms)


def covered(spans: Sequence[tuple[float, float]], times: Any) -> Any:
    """How long at least one of the spans lasted before each of the times."""
    ends: list[float] = []
    lasted = [0.0]
    for start, finish in sorted(spans):
        if ends and start <= ends[-1]:
            lasted[-1] += max(finish - ends[-1], 0.0)
            ends[-1] = max(finish, ends[-1])
        else:
            ends += [start, finish]
            lasted += [lasted[-1], lasted[-1] + finish - start]
    return np.interp(times, ends, lasted[1:])


def _backward(done: Any) -> float:
    """Percent of the backward passes in which something is exchanged. A pass ends with its last gradient, computed and
    exchanged."""
    exchanged, computed = (
        list(zip(table["start_ns"], table["finish_ns"], table["pass"], strict=True))
        for table in (done.exchanges, done.computations)
    )
    passes: list[list[float]] = []
    forward = True
    for start, finish, number in sorted(computed):
        if number and forward:
            passes.append([start, finish])
        elif number:
            passes[-1][1] = max(finish, passes[-1][1])
        forward = not number
    for one in passes:
        one[1] = max([finish for start, finish, _ in exchanged if one[0] <= start <= one[1]] + [one[1]])
    found = np.diff(covered([(start, finish) for start, finish, _ in exchanged], np.array(passes)))
    return 100 * float(np.sum(found) / np.sum(np.diff(passes)))
