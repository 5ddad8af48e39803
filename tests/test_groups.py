"""Groups of ranks: in specifications, in Python, on the command line, and in what commands print."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon import AntiphonError, Fabric

SMALL = ("--bytes", "64KiB")
CORNER = "0-3,8-11,16-19,24-27"


def test_a_group_is_a_fabric(tmp_path: Path) -> None:
    mesh = Fabric("mesh:8x8")
    corner = mesh.group(CORNER)
    assert corner == Fabric(f"mesh:8x8[{CORNER}]") == mesh.group(corner.members or [])
    assert (corner.ranks, mesh.members, (corner.members or [])[4]) == (16, None, 8)
    graph = Fabric.from_json(Fabric("mesh:3x3,drop=0-1").to_json()).group([8, 0, 4])
    assert graph.members == [8, 0, 4]
    for fabric in (corner, graph):
        assert pickle.loads(pickle.dumps(fabric)) == fabric
    nested = Fabric("mesh:4x4[4-7][0,1]")
    assert nested == Fabric("mesh:4x4").group("4-7").group("0,1")
    assert (nested.name, nested.members) == ("mesh:4x4[4,5]", [4, 5])
    mesh = Fabric("mesh:2x3")
    file = tmp_path / "groups.json"
    file.write_text("[[5, 0], [1, 4]]")
    for which, members in (
        ("rows", [[0, 1, 2], [3, 4, 5]]),
        ("columns", [[0, 3], [1, 4], [2, 5]]),
        ("dimension=0", [[0, 3], [1, 4], [2, 5]]),
        (str(file), [[5, 0], [1, 4]]),
    ):
        assert [group.members for group in mesh.groups(which)] == members
    packages = Fabric("packages:1x2:of=2x2")
    for chiplets in (packages, Fabric.from_json(packages.to_json()), pickle.loads(pickle.dumps(packages))):
        assert [group.members for group in chiplets.groups("package")] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert chiplets.nodes["package"].tolist() == [0] * 4 + [1] * 4
    assert Fabric.from_json(mesh.to_json()).groups("rows")[1].members == [3, 4, 5]
    schedule = antiphon.build(mesh.group("0,4"), "direct", "broadcast", bytes=1200)
    assert json.loads(schedule.to_json())["group"] == [0, 4]
    run = antiphon.run(mesh.group("0,4"), schedule)
    assert run.result.ranks["received_bytes"].tolist() == [0, 1200]
    with pytest.raises(AntiphonError, match="it is for ranks 0,4, not for all ranks"):
        antiphon.verify(mesh, schedule)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--group", "0,9"), "rank 9 does not exist"),
        (("--group", "0,0"), "twice"),
        (("--group", "3"), "at least 2"),
        (("--group", "a-b"), "is no rank"),
        (("--groups", "rings"), "rows, columns, dimension=K, package"),
        (("--groups", "package"), "says of no package"),
        (("--groups", "dimension=7"), "no such dimension"),
        (("--group", "0,1", "--groups", "rows"), "either --group or --groups"),
    ],
)
def test_mistakes_are_one_line(commands: Any, arguments: tuple[str, ...], what: str) -> None:
    assert what in commands.refused("simulate", "mesh:3x3", "direct", *SMALL, *arguments)


def test_every_command_takes_groups(commands: Any, tmp_path: Path) -> None:
    group = ("--group", "0-2")
    for command in (
        ("simulate", "mesh:3x3", "direct", *SMALL),
        ("verify", "mesh:3x3", "direct", *SMALL),
        ("show", "mesh:3x3", "direct", *SMALL),
        ("bound", "mesh:3x3", *SMALL),
        ("compare", "mesh:3x3", "--algorithms", "direct,combs", *SMALL),
        ("tune", "mesh:3x3", "--sizes", "4KiB", "--algorithms", "direct"),
        ("train", "alexnet", "mesh:3x3", "direct"),
        ("noc", "mesh:3x3", "--rate", "0.01", "--warm-up-cycles", "100", "--cycles", "100"),
    ):
        assert commands.document(*command, *group)["group"] == [0, 1, 2], command
        assert commands.document(*command)["group"] is None, command
        several = commands.document(*command, "--groups", "rows")
        parts = several["runs"] if command[0] == "train" else several["groups"]
        assert [part["group"] for part in parts] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]], command
    written = tmp_path / "schedule.json"
    show = ("show", "mesh:3x3", "direct", *SMALL)
    commands.document(*show, *group, "--out", str(written))
    assert commands.document("verify", "mesh:3x3", "--schedule", str(written), *group)["verified"]
    assert "choose its group of ranks" in commands.refused("verify", "mesh:3x3", "--schedule", str(written))
    assert "--out is for one group" in commands.refused(*show, "--groups", "rows", "--out", "x.json")


def test_tables_and_programs() -> None:
    schedule = antiphon.build("mesh:2x3", "ring-2d:dependencies=held", bytes=9600)
    transfers, waits, program = schedule.transfers, schedule.dependencies, schedule.program()
    assert len(schedule.payloads["lane"]) == transfers["lanes"].sum()
    assert len(schedule.routes["link"]) == transfers["hops"].sum()
    assert waits["at_receiver"].any()
    assert (schedule.lanes["bytes"].sum(), len(program["rank"])) == (9600, 2 * len(transfers["from"]))
    assert program["waits"].sum() == len(waits["after"])
    sends = program["action"] == "send"
    assert (transfers["from"][program["transfer"][sends]] == program["rank"][sends]).all()


def test_waits_of_a_builder() -> None:
    fabric = Fabric("ring:3")
    builder = antiphon.ScheduleBuilder(fabric, "broadcast", 1200)
    lanes = [builder.lane(400 * part, 400) for part in range(3)]
    first = builder.copy(0, 1, [lanes[0], lanes[2]], 0)
    second = builder.copy(0, 1, lanes[1], 1)
    builder.copy(0, 2, lanes[0], 0, lanes=3)
    builder.start_after(second, first, "sent")
    schedule = builder.finish()
    assert antiphon.verify(fabric, schedule).complete
    document = json.loads(schedule.to_json())
    assert [transfer["payload"] for transfer in document["transfers"]] == [[0, 2], [1], [[0, 3]]]
    assert document["transfers"][1]["start_after"] == [{"transfer": 0, "event": "sent", "lag": 0}]
    wrong: Any
    for wrong, what in (
        ((first, 9), "there is no transfer 9"),
        ((first, second, "received"), "no event 'received'; known: applied, sent"),
        ((first, second, "sent", 256), "a lag of 256 chunks"),
    ):
        with pytest.raises(AntiphonError, match=what):
            builder.apply_after(*wrong)


def test_several_fabrics_are_compared(commands: Any) -> None:
    given = ("compare", "mesh:2x2,slow=0-1:0.5", "ring:4", "--bytes", "64KiB", "--algorithms", "ring,direct")
    document = commands.document(*given)
    assert [each["fabric"] for each in document["fabrics"]] == ["mesh:2x2,slow=0-1:0.5", "ring:4"]
    alone = commands.document("compare", "ring:4", *given[3:])
    head = ("schema", "version")
    assert document["fabrics"][1] | {"seconds": []} == {k: alone[k] for k in alone if k not in head} | {"seconds": []}
    rows = commands.invoke(*given, "--format", "csv").stdout.splitlines()
    assert (len(rows), rows[1].split(",")[0], rows[4].split(",")[0]) == (5, '"mesh:2x2', "ring:4")
    printed = commands.invoke(*given).stdout
    assert (
        printed.index("mesh:2x2,slow=0-1:0.5 ─") < printed.index("ring:4 ─") < printed.index("The best on each fabric")
    )
    assert "The best on each fabric" not in commands.invoke("compare", "ring:4", *given[3:]).stdout
    both = commands.document(*given, "--groups", "dimension=0")["fabrics"]
    assert [each["group"] for each in both] == [[0, 2], [1, 3], None]
    assert "--report is for one fabric" in commands.refused(*given, "--report", "x.html")
    # A mistake is found before anything is timed.
    assert "no fabric 'rnig'" in commands.refused("compare", "mesh:2x2", "rnig:4", *given[3:])
