"""Runs of the ACE paper: collectives and two iterations of training on its tori, and the tables they are of."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from typing import Any

import numpy as np

import antiphon
from antiphon._core import Workload
from antiphon.platforms import read_endpoint
from antiphon.repro.data import Data, Series
from antiphon.studies import Heartbeat, Job, Record

DATA = Data("ace")
"""What nothing is said of agrees within 5 %."""
MIB = 1 << 20
SHAPES = {16: "4x2x2", 32: "4x4x2", 64: "4x4x4", 128: "4x8x4"}
"""NPUs, and L x V x H. The paper states those of 64 and 128."""
ACE_GB = 128
"""Memory bandwidth of ACE, each way (Table VI)."""
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
        """Its time, bytes an NPU sends for each of the buffer, the rate at which it sends them, and what limits it."""
        done = antiphon.rails(self.topology, self.bytes, scheduler="phased", endpoint=self.endpoint)
        sent = float(sum(done.dimensions["bytes"]))
        limit = done.endpoint_use.limit if done.endpoint_use else ""
        return {"time_ns": done.time_ns, "sent": sent / self.bytes, "gb_per_s": sent / done.time_ns, "limit": limit}


def all_reduce(npus: int, endpoint: str) -> AllReduce:
    """On the torus of so many NPUs."""
    return AllReduce(f"ace:{SHAPES[npus]}", endpoint)


@dataclass(frozen=True)
class Walk(Job):
    """One chunk around a ring of three nodes, a link of 25 GB/s each way (Fig. 8)."""

    endpoint: str
    bytes: int

    def measure(self, progress: Heartbeat | None = None) -> Record:
        """What a node sends, reads and writes, and when its parts are busy."""
        done = antiphon.rails("ring3@400/401.606ns", self.bytes, scheduler="phased", endpoint=self.endpoint)
        rates = {key: float(value) for key, value in re.findall(r"(\w+)=([\d.]+)", self.endpoint) if "gb" in key}
        use, rate = done.endpoint_use, rates.get("memory_gb_per_s", ACE_GB)
        assert use is not None
        busy = {row["part"]: row["busy"] * done.time_ns * rate for row in use.parts.rows()}
        activity = {name: column.tolist() for name, column in use.timeline.items()} | {"links": done.timeline["dim1"]}
        window = done.time_ns / len(activity["start_ns"])
        spans = {
            part: [(start, window) for start, share in zip(activity["start_ns"], shares, strict=True) if share > 0.5]
            for part, shares in activity.items()
            if part not in ("start_ns", "under_way", "fsms", "sram")
        }
        sent = float(sum(done.dimensions["bytes"]))
        found = {"sent": sent, "read": busy["read"], "written": busy.get("write", 0.0)}
        return {"time_ns": done.time_ns, "spans": spans} | found


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
            "limit": done.iteration.endpoint_use.limit if done.iteration.endpoint_use else "",
            "passes": _passes(done.iteration) if overlap else [0.0, 0.0],
        }


def iteration(model: Series, npus: int, system: Series, loop: str = "overlap", slower: float = 1.0) -> Iteration:
    """Of a model on a system, as fitted; computation may be slower."""
    scale, share = float(model.more["scale"]), float(model.more["memory_bound"])
    return Iteration(model.name, npus, system.run, system.more["loop"] or loop, scale * slower, share)


def measured(options: str) -> str:
    """The endpoint of an H200 with its law of contention (docs/explanation/endpoints.md), some options replaced."""
    with as_file(files("antiphon.papers.ace") / "h200.json") as path:
        return read_endpoint(f"{path}:{options}")


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


def _passes(done: Any) -> list[float]:
    """Percent of the forward passes, and of the backward passes, in which something is exchanged.

    A backward pass begins with its first gradient and ends with its last, computed and exchanged; the rest of the time
    is of forward passes.
    """
    exchanged, computed = (
        list(zip(table["start_ns"], table["finish_ns"], table["pass"], strict=True))
        for table in (done.exchanges, done.computations)
    )
    backward: list[list[float]] = []
    forward = True
    for start, finish, number in sorted(computed):
        if number and forward:
            backward.append([start, finish])
        elif number:
            backward[-1][1] = max(finish, backward[-1][1])
        forward = not number
    for one in backward:
        one[1] = max([finish for start, finish, _ in exchanged if one[0] <= start <= one[1]] + [one[1]])
    ends = np.array(backward)
    under_way = [(start, finish) for start, finish, _ in exchanged]
    busy, lasts = float(np.sum(np.diff(covered(under_way, ends)))), float(np.sum(np.diff(ends)))
    end = done.count * done.time_ns
    others = float(covered(under_way, [end])[0]) - busy
    return [100 * others / (end - lasts), 100 * busy / lasts]
