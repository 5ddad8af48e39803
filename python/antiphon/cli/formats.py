"""Formats of other tools: the command that writes them, and what verify says of their files."""

from __future__ import annotations

import json
from typing import Any

import click

import antiphon
from antiphon.cli.collectives import one_of, problem_given
from antiphon.cli.declared import command
from antiphon.cli.groups import Outcome, Part, Problem
from antiphon.cli.options import COMPLETIONS, completing, read_fabric
from antiphon.cli.output import tell
from antiphon.collective.chakra import CHAKRA
from antiphon.collective.formats import consumers, extension
from antiphon.collective.schedules import read_schedule
from antiphon.errors import AntiphonError
from antiphon.files import check_prefix, written_whole
from antiphon.results import FileProof
from antiphon.topologies import TOPOLOGY_FORMATS
from antiphon.view.document import Document, Note

COMPLETIONS["format_"] = completing(lambda: [*consumers(), CHAKRA, *TOPOLOGY_FORMATS])
COMPLETIONS["consumer"] = completing(lambda: [name for names in consumers().values() for name in names])


@command()
def export(
    fabric: str,
    algorithm: str | None = None,
    *,
    schedule: str | None,
    size: str | None,
    collective: str = "all-reduce",
    root: int = 0,
    matrix: str | None,
    system: antiphon.System,
    group: str | None,
    format_: str = "msccl",
    consumer: str | None = None,
    instances: int = 1,
    channels: int = 1,
    protocol: str = "Simple",
    min_bytes: str | None = None,
    max_bytes: str | None = None,
    out: str,
    json_: bool = False,
) -> None:
    """Write a schedule, or a fabric, in the format of another tool (docs/reference/formats.md).

    What is written is proven as it stands. What passes a limit of the consumer is refused.

    Examples:
        antiphon export mesh:4x4 multitree --bytes 1MiB --format msccl --consumer executor --out multitree.xml
        antiphon export dgx-a100:1 ring --bytes 1MiB --instances 4 --protocol LL --max-bytes 2MiB --out ring.xml
        antiphon export mesh:4x4 --schedule tto.json --consumer msccl --out tto.xml
        antiphon export torus:4x4 ring-2d --bytes 1MiB --format chakra --out ring-2d
        antiphon export fc:8 halving-doubling --bytes 1MiB --format mscclpp --out plan.json
        antiphon export torus:4x4 tto --bytes 1MiB --format goal --out tto.goal
        antiphon export dgx-h100:2 --format graphml --out dgx.graphml

    Args:
        group: Only these ranks take part: 0,1,8 or 0-3,8-11. They are numbered from 0 in the file.
        format_: The format: msccl, mscclpp, goal or chakra of a schedule; dot or graphml of the fabric alone.
        consumer: Who is to read it: of msccl rccl, executor or msccl; the other formats have one.  [default: the first]
        instances: Of msccl copies of the program, each on channels of its own, for its part of the data.
        channels: Of msccl channels of each copy, to which lanes are dealt.
        protocol: Of msccl how messages are moved: Simple, LL or LL128.
        min_bytes: Of msccl the smallest size that it is used for, such as 64KiB.  [default: any]
        max_bytes: Of msccl the largest size that it is used for.  [default: any]
        out: The file to write; of chakra the prefix.
        json_: Print JSON (docs/reference/json.md).
    """
    if format_ in TOPOLOGY_FORMATS:
        if algorithm is not None or schedule is not None:
            raise click.UsageError(f"--format {format_} writes the fabric alone: leave out ALGORITHM and --schedule")
        for option in problem_given().values():
            raise click.UsageError(f"--format {format_} writes the fabric alone: leave out {option}")
    else:
        one_of(algorithm, schedule)
    how: dict[str, Any] = {"format": format_, "consumer": consumer, "instances": instances, "channels": channels}
    how |= {"protocol": protocol, "min_bytes": min_bytes, "max_bytes": max_bytes}
    network = read_fabric(fabric)
    network = network if group is None else network.group(group)
    problem = Problem(collective=collective, size=size, root=root, matrix=matrix, system=system, part=Part())

    def planned() -> antiphon.Schedule:
        return problem.build(network, algorithm or "") if schedule is None else read_schedule(schedule, network)

    if format_ in TOPOLOGY_FORMATS:
        antiphon.export(network, out, **how)
        nodes, links = len(network.nodes["name"]), len(network.links["from"])
        document = {"fabric": network.name, "format": format_, "nodes": nodes, "links": links, "file": out}
        said = [f"{network.name}: {nodes:,} nodes, {links:,} links", f"File: {out}"]
    elif format_ == CHAKRA:
        check_prefix(out, "--out")
        plan = planned()
        system_file = json.loads(antiphon.export(plan, out, **how))
        messages = int(plan.transfers["chunks"].sum())
        document = {"fabric": plan.fabric, "format": CHAKRA, "algorithm": plan.algorithm}
        document |= {"collective": plan.collective, "bytes": plan.bytes, "ranks": plan.ranks}
        document |= {"messages": messages, "file": out, "system_file": system_file}
        said = [
            f"✓ {plan.algorithm}, {plan.collective} on {plan.ranks:,} ranks: read back as written"
            f" ({messages:,} messages)",
            f"Files: {out}.0.et to {out}.{plan.ranks - 1}.et",
            f"ASTRA-sim's system file: {json.dumps(system_file)}",
        ]
    else:
        with written_whole(out, extension(format_)) as file:
            plan = planned()
            text = antiphon.export(plan, **how)
            file.write(text)
        document = {"fabric": network.name, "algorithm": plan.algorithm, "file": out}
        if format_ == "goal":  # says nothing of data that could be proven
            document |= {"format": format_, "ranks": plan.ranks, "messages": text.count(": send ")}
            said = [f"{document['ranks']:,} ranks, {document['messages']:,} messages"]
        else:
            proof = antiphon.prove_file(text=text)
            document = proof.to_dict() | document
            said = [f"✓ {proven(proof)}", *readers(proof)]
        said.append(f"File: {out}")
    tell("export", document, "json" if json_ else "table", lambda: _lines(*said))


def _lines(*lines: str) -> Document:
    return Document([Note(line, wrap=True) for line in lines])


def proven(proof: FileProof) -> str:
    """What was proven, in one line."""
    what = proof.collective if proof.root is None else f"{proof.collective} (root {proof.root})"
    slots = "one message" if proof.fifo_depth == 1 else f"{proof.fifo_depth} messages"
    connections = f", with connections of {slots} too" if proof.fifo_depth else ""
    blocks = f"{proof.thread_blocks:,} thread blocks, {proof.steps:,} steps, " if proof.thread_blocks else ""
    return (
        f"{proof.name}, {what} on {proof.ranks} ranks: proven {' and '.join(proof.places)};"
        f" every rank ends with the right data{connections} ({blocks}{proof.messages:,} messages)"
    )


def readers(proof: FileProof) -> list[str]:
    """Who can read a file, and what keeps the others from it."""
    if not proof.consumers:
        return []
    able = [name for name, why in proof.consumers if why is None]
    return [
        f"Within the limits of: {', '.join(able) or 'nobody'}",
        *(f"Not of {name}: {why}" for name, why in proof.consumers if why is not None),
    ]


def verified_file(path: str, fabric: antiphon.Fabric | None, size: str | None) -> Outcome:
    """Proves a file of another tool, and says what it is as a schedule."""
    try:
        proof = antiphon.prove_file(path)
    except AntiphonError as error:
        if error.code != "not-proven":
            raise
        return Outcome({"file": path, "verified": False, "counter_example": error.message}, Document, error)
    document: dict[str, Any] = {"file": path, "verified": True, "counter_example": None} | proof.to_dict()
    lines = [f"✓ {proven(proof)}", *readers(proof)]
    try:
        schedule = antiphon.load(path, fabric, bytes=size)
        checked = antiphon.verify(fabric or schedule.fabric, schedule)
        document |= {
            "fabric": schedule.fabric,
            "schedule_lanes": checked.lanes,
            "schedule_transfers": checked.transfers,
        }
        lines.append(f"As a schedule on {schedule.fabric}: {checked.lanes:,} lanes, {checked.transfers:,} transfers")
    except AntiphonError as error:
        if error.code != "not-applicable":
            raise
        document |= {"fabric": None, "no_schedule": error.message}
        lines.append(f"No schedule, so it cannot be timed: {error.message}")
    return Outcome(document, lambda: _lines(*lines))
