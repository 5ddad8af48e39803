"""Fabrics as DOT and GraphML, and from topologies of NCCL, lstopo and InfraGraph."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

import antiphon
from antiphon import AntiphonError, Fabric
from antiphon.studies import identity
from antiphon.studies.commands import CommandPoint

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "topologies"
NCCL = (EXAMPLES / "nccl.xml").read_text()
TOPOLOGIES = {"nccl.xml": 3, "lstopo.xml": 3, "infragraph.yaml": 4}
SPECS = [
    "mesh:3x4@50/7ns,slow=0-1:0.5,drop=2-3",
    "switch:4",
    "dgx-h100:2",
    "mesh:4x4[0-3]",
    *(f"file:{EXAMPLES / name}" for name in TOPOLOGIES),
]
ODD = json.dumps(
    {
        "schema": "antiphon-fabric/1",
        "nodes": [{"name": 'a "b" <c>&\\'}, {"name": "ü\\"}, {"name": "s", "rank": False}],
        "links": [
            {"from": 0, "to": 2, "both": True, "dimension": '<x "y">', "rate_gb_per_s": 0.1, "energy_pj_per_bit": 1.5},
            {"from": 1, "to": 2, "both": True, "latency_ns": 0.001},
            {"from": 1, "to": 2, "both": True, "length_mm": 2.5},
        ],
    }
)


def fabrics() -> list[Fabric]:
    return [*map(Fabric, SPECS), Fabric.from_json(ODD, 'odd "names" \\')]


def rows(table: Mapping[str, Any]) -> list[str]:
    return sorted(map(str, antiphon.Table(table).rows()))


def test_the_command_writes_fabrics(commands: Any, tmp_path: Path) -> None:
    path = tmp_path / "mesh.dot"
    export = ("export", "mesh:2x2", "--format", "dot", "--out", path)
    document = commands.document(*export)
    assert (document["nodes"], document["links"]) == (4, 8)
    assert path.read_text() == antiphon.export(Fabric("mesh:2x2"), format="dot")
    graphml = commands.invoke("export", "mesh:2x2", "--format", "graphml", "--out", tmp_path / "mesh.graphml")
    assert "4 nodes, 8 links" in graphml.output
    path.unlink()
    for arguments in (["ring"], ["--bytes", "1MiB"], ["--schedule", "tto.json"]):
        refused = commands.refused(*export[:2], *arguments, *export[2:])
        assert "--format dot writes the fabric alone: leave out" in refused
    commands.refused(*export[:-1], tmp_path / "mesh.xml")
    assert not path.exists()


@pytest.fixture(params=TOPOLOGIES)
def topology(request: pytest.FixtureRequest) -> tuple[Path, int]:
    return EXAMPLES / request.param, TOPOLOGIES[request.param]


def test_topologies_are_fabrics(topology: tuple[Path, int]) -> None:
    path, ranks = topology
    fabric = Fabric(f"file:{path}")
    again = Fabric.from_text(path.read_text(), fabric.name)
    assert (fabric.ranks, fabric, fabric.notes) == (ranks, again, again.notes)
    assert antiphon.Table(Fabric(str(path)).links) == antiphon.Table(fabric.links)
    assert pickle.loads(pickle.dumps(fabric)) == fabric
    assert antiphon.verify(fabric, antiphon.build(fabric, "ring", bytes="1MiB")).complete


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('<!DOCTYPE a [<!ENTITY b "c">]><system/>', "entities are not expanded"),
        ("<svg/>", "XML of no known format: <svg>; read are JSON (antiphon-fabric/1), topologies of NCCL"),
        ("hello", "of no known format; read are JSON (antiphon-fabric/1), topologies of NCCL"),
        ("<system><cpu/></system>", "line 1: <cpu>: numaid is missing"),
    ],
)
def test_what_is_no_topology_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "x.xml"
    path.write_text(text)
    with pytest.raises(AntiphonError) as error:
        Fabric(f"file:{path}")
    assert why in str(error.value)
    assert error.value.code == "bad-file"
    assert "\n" not in str(error.value)


def test_graphs_that_would_not_end_are_refused(tmp_path: Path) -> None:
    expanding = tmp_path / "entities.graphml"
    expanding.write_text('<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]><graphml>&d;</graphml>')
    packed = tmp_path / "packed.graphml.gz"
    packed.write_bytes(gzip.compress(antiphon.export(Fabric("mesh:2x2"), format="graphml").encode()))
    pipe = tmp_path / "pipe.graphml"
    os.mkfifo(pipe)
    large = tmp_path / "large.graphml"
    with large.open("wb") as file:
        file.truncate(1 << 27)
    for path, why in [
        (expanding, "declares entities, which are not expanded"),
        (packed, "is not UTF-8 text"),
        (pipe, "is not a regular file"),
        (large, "is larger than 64MiB"),
        (tmp_path, "Is a directory"),
    ]:
        with pytest.raises(AntiphonError) as error:
            Fabric.from_graphml(path)
        assert why in str(error.value)


@pytest.mark.parametrize("fabric", fabrics(), ids=lambda fabric: fabric.name)
def test_graphs_come_back(fabric: Fabric, tmp_path: Path) -> None:
    path = tmp_path / "fabric.graphml"
    assert antiphon.export(fabric, path, format="graphml") == path.read_text()
    back = Fabric.from_graphml(path)
    assert antiphon.Table(back.nodes) == antiphon.Table(fabric.nodes)
    assert rows(back.links) == rows(fabric.links)
    path = tmp_path / "fabric.dot"
    back = Fabric.from_text(antiphon.export(fabric, path, format="dot"), fabric.name)
    for key in ("name", "rank"):
        assert back.nodes[key].tolist() == fabric.nodes[key].tolist()
    assert rows(back.links) == rows(fabric.links)
    assert Fabric(str(path)).ranks == fabric.ranks


def test_a_small_file_in_dot() -> None:
    nodes = [{"name": 'a "b"\\', "coords": [0, 1]}, {"name": "s", "rank": False}, {}]
    links = [{"from": 0, "to": 1, "both": False, "dimension": "<x>", "rate_gb_per_s": 0.1}]
    links += [{"from": 1, "to": 2}, {"from": 2, "to": 0, "both": False}]
    text = json.dumps({"schema": "antiphon-fabric/1", "nodes": nodes, "links": links})
    assert (
        antiphon.export(Fabric.from_json(text, "small"), format="dot")
        == r"""digraph "small" {
  "a \"b\"\\" [shape=circle, comment="rank 0", pos="1.0,-0.0!"];
  "s" [shape=box];
  "2" [shape=circle, comment="rank 1"];
  "a \"b\"\\" -> "s" [dimension="<x>", rate_gb_per_s="0.1", speed="1.0"];
  "s" -> "2" [dimension="x", speed="1.0"];
  "2" -> "s" [dimension="x", speed="1.0"];
  "2" -> "a \"b\"\\" [dimension="x", speed="1.0"];
}
"""
    )


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"format": "graphml"}, antiphon.NotApplicable, "no way to write the name"),
        ({"format": "dot", "consumer": "rccl"}, AntiphonError, "dot has no consumers"),
        ({"format": "gml"}, AntiphonError, r"known: msccl, mscclpp, goal, dot, graphml"),
        ({"format": "dot", "of": "schedule"}, TypeError, "schedule"),
    ],
)
def test_what_cannot_be_written_is_refused(
    options: dict[str, Any], kind: type[Exception], message: str, tmp_path: Path
) -> None:
    what: Any = Fabric.from_json(ODD.replace("\\u00fc", "\\ufffe"), "strange")
    if options.pop("of", None):
        what = antiphon.build("ring:4", "ring", bytes=4096)
    with pytest.raises(kind, match=message):
        antiphon.export(what, tmp_path / "strange.graphml", **options)
    assert not list(tmp_path.iterdir())


def test_boxes_on_rails_and_what_is_taken_is_said(commands: Any, tmp_path: Path) -> None:
    path = EXAMPLES / "nccl.xml"
    fabric = Fabric(f"file:{path}")
    assert len(fabric.notes) == 3
    assert fabric.notes[0].startswith("2 links without a rate in the file: 22 GB/s (cpu: ")
    assert Fabric(f"file:{path}@5").notes == Fabric("mesh:2x2").notes == []
    result = commands.invoke("simulate", f"file:{path}", "ring", "--bytes", "1MiB", "--json")
    assert result.stderr == "".join(f"note: {note}\n" for note in fabric.notes)
    assert json.loads(result.stdout)["fabric"] == f"file:{path}"
    boxes = Fabric(spec := f"{path}*4@rails")
    assert (boxes.ranks, boxes.name) == (12, spec)
    assert boxes.notes[-1].startswith("4 boxes are joined by 2 switches")
    with pytest.raises(AntiphonError, match="this file names none"):
        Fabric(f"{EXAMPLES / 'infragraph.yaml'}*2@rails")
    # A study finds the file in all of its spellings.
    file = tmp_path / "box.xml"
    file.write_text(NCCL)
    for end in ("", "@5", "*4@rails", "@5*4@rails:50/1us", "[0,1]", ",dead=5"):
        point = CommandPoint("simulate", (("fabric", f"{file}{end}"),))
        assert str(file) in identity.files_of(point), end


def test_damaged_graphs(tmp_path: Path) -> None:
    text, path = antiphon.export(Fabric("mesh:2x2@50/7ns"), format="graphml"), tmp_path / "damaged.graphml"
    random, read, said = Random(1), 0, ""
    pieces = ["-1", "1e999", "nan", "9" * 20, "", "<", '"', "&", "é", "<graph>", "</node>", "x", "0", "\n"]
    for _ in range(400):
        damaged = text
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(len(damaged))
            damaged = damaged[:at] + random.choice(pieces) + damaged[at + random.choice([0, 1, 1, 9, 40]) :]
        path.write_text(damaged)
        try:
            read += Fabric.from_graphml(path).ranks >= 2
        except AntiphonError as error:
            said = str(error)
        assert "\n" not in said
        assert len(said) < 2000
    assert 0 < read < 400
