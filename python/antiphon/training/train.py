"""Training: the time of an iteration and of an epoch, with exchanges proven and simulated."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args

from antiphon._core import (
    Fabric,
    System,
    TrainingPlan,
    Workload,
    build,
    default_batch,
    iterations,
    parse_bytes,
)
from antiphon._core import settled as core_settled
from antiphon.arguments import expect, shown
from antiphon.collective.specs import known_names, split_specs
from antiphon.collective.timing import Progress, Timer, simulator
from antiphon.declared import takes
from antiphon.errors import AntiphonError
from antiphon.files import check_prefix
from antiphon.given import as_fabric, as_system
from antiphon.models.given import workload
from antiphon.names import Fidelity, InFlight, Order
from antiphon.results import Table
from antiphon.training.energy import iteration_energy
from antiphon.training.memory import check_memory, memory_of
from antiphon.training.networks import Network, OnFabricSerially, OnFabricShared, OnRails
from antiphon.training.result import Training
from antiphon.training.traces import write_traces

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from antiphon._options import TrainOptions

IMAGENET = 1_281_167
"""Training images of ImageNet, the data set of the TTO paper's epochs."""
RAILS = "rails:"
"""Before the topology of a multi-dimensional network where a fabric could be."""
DEFAULT_ORDER = "priority"
"""Which exchange goes first where several are under way."""
CHAINED = ("ccube", "both")
"""Overlap policies with which the next forward pass runs behind the exchange of gradients."""
IN_FLIGHT = ("serial", "shared")
"""Whether exchanges on a fabric run one after the other, or share its links."""
MILLION = 1_000_000
MOST_SAMPLES = (1 << 32) - 1
"""Samples of an iteration, as counts go in the core."""


@takes("train")
def train(
    model: str | Workload,
    fabric: str | Fabric,
    algorithm: str,
    system: str | System = "generic",
    *,
    batch: int | None = None,
    global_batch: int | None = None,
    dataset: int = IMAGENET,
    compute: str | None = None,
    in_flight: InFlight | str | None = None,
    exchange: str | None = None,
    fidelity: Fidelity | str = "packet",
    chunks: int | None = None,
    order: Order | str | None = None,
    collectives: Timer | None = None,
    progress: Progress | None = None,
    energy: bool = False,
    memory: int | str | None = None,
    chakra: str | os.PathLike[str] | None = None,
    **options: Unpack[TrainOptions],
) -> Training:
    """The time of training: forward pass, backward pass, AllReduce of the gradients.

    >>> training = train("alexnet", "mesh:4x4", "multitree", "tto", overlap="layerwise")
    >>> training.compute_ns < training.iteration_ns < training.compute_ns + training.communication_ns
    True

    Args:
        model: a name, a CSV file (docs/reference/workloads.md) or a Workload.
        fabric: specification or Fabric, or ``rails:TOPOLOGY``, a multi-dimensional network
            (docs/explanation/rails.md) that is timed stage by stage and carries several collectives at a time.
        algorithm: ``name[:key=value,...]`` of the collectives; on rails the scheduler, with its queue
            policy after a colon if it is not the default: ``themis:fifo``.
        system: preset name or System.
        batch: samples on each rank (weak scaling), or on the ranks that share a model; default: one
            for each PE of a systolic array, else 32. Measured times are of the batch of their table:
            only counts of samples follow from it.
        global_batch: samples on all ranks together (strong scaling), instead of those on each; a multiple
            of the ranks that train, and not for tables of measured times.
        dataset: samples of an epoch.
        compute: ``systolic``, ``roofline`` or ``measured``, ``[:key=value,...]``; default: the
            table's times where it has them, else the system's processor.
        in_flight: on a fabric ``serial`` (default): one exchange after the other as they become ready; ``shared``: all
            that are ready share the links, on which the one that was ready first goes first. Rails are always shared.
        exchange: algorithm of collectives that the other does not do, such as all-to-all; on fabrics only,
            default ``direct``.
        fidelity: ``alpha-beta``, ``packet`` or ``flit``; rails have only their own, ``stage``.
        chunks: chunks of every collective; on rails only, default 64, or of the size of the endpoint's.
        order: which exchange goes first where several are under way: ``priority`` (default: with overlap ``both`` that
            of the earliest layers, then the one that was ready first), ``fifo``, ``lifo`` or ``fair`` (not on rails).
        collectives: times the collectives instead of ``simulator``: called with fabric, algorithm, collective and
            bytes, it gives what has ``time_ns`` and ``excluded_ranks``, as a ``Run`` has, and for overlap ``ccube`` and
            ``both`` the table ``chunks``.
        progress: called while collectives are simulated.
        energy: also what the exchanges of an iteration take, and static power (docs/explanation/energy.md); computation
            is not
            counted.
        memory: what a rank has, such as ``16GiB``; a model that needs more for weights, gradients and receive
            buffers is refused.
        chakra: also Chakra execution traces of what every rank computes and exchanges, files ``CHAKRA.0.et``,
            ``CHAKRA.1.et``, ... (docs/reference/formats.md), on fabrics and for overlap ``none`` and ``layerwise``.

    Raises:
        AntiphonError: as ``build`` and ``simulate``, or ``rails``; ``not-applicable`` naming the layer
            that the compute model cannot time; ``bad-size`` for counts; ``too-large``, also for what does not fit in
            ``memory``, naming the layer.
    """
    work = workload(model)
    expect("energy", energy, bool)
    expect("fabric", fabric, str, Fabric)
    expect("algorithm", algorithm, str)
    for name, text in (("compute", compute), ("in_flight", in_flight), ("exchange", exchange), ("order", order)):
        expect(name, text, str, type(None))
    expect("global_batch", global_batch, int, type(None))
    settled: dict[str, Any] = core_settled(**options)
    settled |= {name: value for name, value in options.items() if value is not None}
    model_parallel: int = settled["model_parallel"]
    del settled["gradient_bytes"]  # results have those of all layers
    system = as_system(system)
    compute = compute or ("measured" if work.measured else system.processor)
    if batch is not None and global_batch is not None:
        raise AntiphonError("give either batch (on each rank) or global_batch (on all), not both", "bad-spec")
    if global_batch is not None and not 1 <= global_batch <= MOST_SAMPLES:
        raise AntiphonError(f"global_batch is {shown(global_batch)}; expected 1 to {MOST_SAMPLES:,}", "bad-size")
    if in_flight not in (None, *IN_FLIGHT):
        raise AntiphonError(f"no in_flight '{in_flight[:40]}'; known: {', '.join(IN_FLIGHT)}", "unknown-name")
    order = DEFAULT_ORDER if order is None else order
    if order not in get_args(Order):
        raise AntiphonError(f"no order '{order[:40]}'; known: {', '.join(get_args(Order))}", "unknown-name")
    network: Network
    if isinstance(fabric, str) and fabric.startswith(RAILS):
        if in_flight == "serial":
            message = f"{fabric}: exchanges on rails share the dimensions; in_flight serial is for fabrics"
            raise AntiphonError(message, "not-applicable")
        in_flight = "shared"
        if fidelity not in ("packet", "stage"):
            raise AntiphonError(
                f"{fabric} is timed stage by stage; fidelity '{fidelity}' is for fabrics", "not-applicable"
            )
        if exchange is not None:
            message = f"{fabric}: its scheduler does every collective; exchange '{exchange}' is for fabrics"
            raise AntiphonError(message, "not-applicable")
        platform = system if energy else None
        network = OnRails(fabric, algorithm, chunks, model_parallel, order, platform)
    else:
        fabric = as_fabric(fabric)
        if chunks is not None:
            message = f"{fabric.name}: chunks are for rails:...; an algorithm has options of its own, NAME:KEY=VALUE"
            raise AntiphonError(message, "not-applicable")
        if exchange is not None and exchange.partition(":")[0] not in known_names():
            build(fabric, exchange, "all-to-all", 1, system)  # raises, naming the nearest
        in_flight = in_flight or "serial"
        if collectives is not None and (in_flight == "shared" or model_parallel != 1):
            message = "times of collectives by themselves say nothing about those in flight together"
            raise AntiphonError(f"{message}; use in_flight serial, model_parallel 1", "bad-spec")
        how = (fabric, algorithm, exchange or "direct", fidelity, system, model_parallel)
        if in_flight == "shared":
            network = shared = OnFabricShared(*how)
            shared.progress, shared.order = progress, order
        else:
            if order != DEFAULT_ORDER:
                message = f"order {order}: exchanges are under way one by one; use in_flight shared"
                raise AntiphonError(message, "not-applicable")
            network = serial = OnFabricSerially(*how)
            keep_chunks = settled["overlap"] in CHAINED
            serial.timer = collectives or simulator(system, fidelity, progress, keep_chunks=keep_chunks)
    if global_batch is not None:
        replicas = network.replicas()
        if global_batch % replicas:
            near = max(round(global_batch / replicas), 1) * replicas
            message = (
                f"global_batch {global_batch:,} cannot be divided among {replicas:,} ranks that train; {near:,} can"
            )
            raise AntiphonError(message, "bad-size")
        batch = global_batch // replicas
    if work.measured and compute == "measured" and global_batch is not None:
        message = f"{work.name}: the table's times are of its own batch, so its batch cannot be divided; use batch"
        raise AntiphonError(message, "not-applicable")
    batch = default_batch(compute) if batch is None else batch
    share, streams = round(system.relay_processors * MILLION), [0] * network.ranks if settled["slow"] else []
    plan, relays = TrainingPlan(work, compute, batch, system.endpoint, streams, **options), None
    if share:
        streams = network.relays(plan, work.name)
        plan = TrainingPlan(work, compute, batch, system.endpoint, [count * share for count in streams], **options)
    if share or settled["slow"]:
        found = zip(range(network.ranks), streams, plan.slowdowns, strict=True)
        columns = ("rank", "streams", "slowdown")
        relays = Table.of_rows([dict(zip(columns, each, strict=True)) for each in found if each[1] or each[2] > 1])
    prefix = None if chakra is None else check_prefix(chakra, "chakra")
    if prefix is not None and isinstance(network, OnRails):
        raise AntiphonError(f"{network.name}: traces are of exchanges on fabrics, not on rails", "not-applicable")
    limit, what = None if memory is None else parse_bytes(memory), f"{work.name} on {network.name}"
    layers = Table(plan.layers)
    if limit is not None:
        check_memory(what, layers, memory_of(layers, None), limit)
    iteration = network.run(plan, work.name)
    held = memory_of(layers, iteration.buffer_bytes)
    if limit is not None:
        check_memory(what, layers, held, limit)
    excluded = network.excluded_ranks
    if relays and settled["slow"] and (left := set(relays["rank"].tolist()).intersection(excluded)):
        message = f"slow {settled['slow']}: {algorithm} leaves out rank {min(left)}, which does not compute"
        raise AntiphonError(message, "not-applicable")
    if prefix is not None:
        if excluded:
            message = f"{algorithm} leaves out ranks, which a trace of each rank cannot say; use another algorithm"
            raise AntiphonError(message, "not-applicable")
        trace = plan.trace(network.ranks)
        write_traces(prefix, network.ranks, trace.write, trace.groups_json())
    spent = iteration_energy(iteration, *network.energies()) if energy else None
    return Training(
        model=work.name,
        fabric=network.name,
        group=fabric.members if isinstance(fabric, Fabric) else None,
        algorithm=algorithm,
        system=system,
        fidelity=network.fidelity,
        compute=compute,
        in_flight=in_flight,
        order=order,
        batch=batch,
        dataset=dataset,
        ranks=network.ranks,
        excluded_ranks=excluded,
        gradient_bytes=held.gradients_bytes,
        memory=held,
        iterations=iterations(dataset, batch, (network.ranks - len(excluded)) // model_parallel),
        iteration=iteration,
        layers=layers,
        energy=spent,
        relays=relays,
        **{each.name: settled[each.name] for each in fields(Training) if each.name in settled},
    )


def split_fabrics(text: str) -> list[str]:
    """Splits a list of fabrics at commas; dimensions after ``rails:`` belong to it, and what is joined by ``then``.

    >>> split_fabrics("mesh:4x4,drop=0-1,rails:ring4@1000/20ns,sw8@800/700ns,rails:2D-SW_SW")
    ['mesh:4x4,drop=0-1', 'rails:ring4@1000/20ns,sw8@800/700ns', 'rails:2D-SW_SW']
    >>> split_fabrics("aries:4x4,x0=0-3,then,y0=0-3,ring:4")
    ['aries:4x4,x0=0-3,then,y0=0-3', 'ring:4']
    """
    fabrics: list[str] = []
    for part in split_specs([text]):
        more = fabrics and fabrics[-1].startswith(RAILS) and ":" not in part
        if more or (fabrics and part.partition(",")[0] == "then"):
            fabrics[-1] += f",{part}"
        else:
            fabrics.append(part)
    return fabrics
