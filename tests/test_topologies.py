"""Fabrics as DOT and GraphML, and from topologies of NCCL, lstopo and InfraGraph."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

import antiphon
from antiphon import AntiphonError, Fabric
from antiphon.cli import main
from antiphon.studies import identity
from antiphon.studies.commands import CommandPoint

SPECS = ["mesh:3x4@50/7ns,slow=0-1:0.5,drop=2-3", "switch:4", "dgx1v", "dgx-h100:2", "torus:2x2", "mesh:4x4[0-3]"]
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


@pytest.mark.parametrize("fabric", fabrics(), ids=lambda fabric: fabric.name)
def test_graphml_comes_back(fabric: Fabric, tmp_path: Path) -> None:
    path = tmp_path / "fabric.graphml"
    assert antiphon.export(fabric, path, format="graphml") == path.read_text()
    back = Fabric.from_graphml(path)
    assert antiphon.Table(back.nodes) == antiphon.Table(fabric.nodes)
    assert rows(back.links) == rows(fabric.links)


STRING = r'"((?:[^"\\]|\\.)*)"'


def unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


@pytest.mark.parametrize("fabric", fabrics(), ids=lambda fabric: fabric.name)
def test_dot_has_every_node_and_link(fabric: Fabric) -> None:
    first, *lines, last = antiphon.export(fabric, format="dot").splitlines()
    title = re.fullmatch(f"digraph {STRING} {{", first)
    assert title is not None
    assert (unquoted(title[1]), last) == (fabric.name, "}")
    names, links = [], []
    for line in lines:
        node = re.fullmatch(rf'  {STRING} \[shape=(\w+)(?:, comment="rank (\d+)")?(?:, pos="\S+,\S+!")?\];', line)
        link = re.fullmatch(rf"  {STRING} -> {STRING} \[(.*)\];", line)
        assert (node is None) != (link is None)
        if node is not None:
            assert node[2] == ("box" if node[3] is None else "circle")
            names.append((unquoted(node[1]), -1 if node[3] is None else int(node[3])))
        if link is not None:
            attributes = {key: unquoted(value) for key, value in re.findall(rf"(\w+)={STRING}(?:, |$)", link[3])}
            links.append((unquoted(link[1]), unquoted(link[2]), float(attributes.get("rate_gb_per_s", "nan"))))
    assert names == list(zip(fabric.nodes["name"].tolist(), fabric.nodes["rank"].tolist(), strict=True))
    called = fabric.nodes["name"].tolist()
    ends = zip(*(fabric.links[key].tolist() for key in ("from", "to", "rate_gb_per_s")), strict=True)
    assert str(links) == str([(called[start], called[end], rate) for start, end, rate in ends])


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    strange = Fabric.from_json(ODD.replace("\\u00fc", "\\ufffe"), "strange")
    path = tmp_path / "strange.graphml"
    with pytest.raises(AntiphonError, match="no way to write the name") as error:
        antiphon.export(strange, path, format="graphml")
    assert error.value.code == "not-applicable"
    with pytest.raises(TypeError, match="schedule"):
        antiphon.export(antiphon.build("ring:4", "ring", bytes=4096), format="dot")
    with pytest.raises(AntiphonError, match="dot has no consumers"):
        antiphon.export(strange, format="dot", consumer="rccl")
    with pytest.raises(AntiphonError, match=r"known: msccl, mscclpp, goal, dot, graphml"):
        antiphon.export(strange, format="gml")
    assert not list(tmp_path.iterdir())


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


def test_the_command_writes_fabrics(tmp_path: Path) -> None:
    path = tmp_path / "mesh.dot"
    result = call("mesh:2x2", "--format", "dot", "--out", path, "--json")
    document = json.loads(result.output)
    assert (document["schema"], document["nodes"], document["links"]) == ("antiphon-export/1", 4, 8)
    assert path.read_text() == antiphon.export(Fabric("mesh:2x2"), format="dot")
    assert "4 nodes, 8 links" in call("mesh:2x2", "--format", "graphml", "--out", tmp_path / "mesh.graphml").output
    path.unlink()
    for arguments in (["ring"], ["--bytes", "1MiB"], ["--schedule", "tto.json"]):
        result = call("mesh:2x2", *arguments, "--format", "dot", "--out", path)
        assert result.exit_code == 2
        assert "--format dot writes the fabric alone: leave out" in result.output
    assert call("mesh:2x2", "--format", "dot", "--out", tmp_path / "mesh.xml").exit_code != 0
    assert not path.exists()


EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "topologies"
NCCL = (EXAMPLES / "nccl.xml").read_text()
TOPOLOGIES = {"nccl.xml": 3, "lstopo.xml": 3, "infragraph.yaml": 4}


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
    schedule = antiphon.build(fabric, "ring", bytes="1MiB")
    assert antiphon.verify(fabric, schedule).complete


def test_topologies_can_be_written(topology: tuple[Path, int], tmp_path: Path) -> None:
    fabric = Fabric(f"file:{topology[0]}")
    out = tmp_path / "out.graphml"
    antiphon.export(fabric, out, format="graphml")
    for back in (Fabric.from_graphml(out), antiphon.from_networkx(antiphon.to_networkx(fabric))):
        assert antiphon.Table(back.nodes) == antiphon.Table(fabric.nodes)
        assert rows(back.links) == rows(fabric.links)
    assert antiphon.export(fabric, format="dot").count(" -> ") == len(fabric.links["from"])


def test_what_is_taken_is_said() -> None:
    path = EXAMPLES / "nccl.xml"
    fabric = Fabric(f"file:{path}")
    assert sorted(set(fabric.links["rate_gb_per_s"].tolist())) == [1.25, 12.0, 22.0, 41.2, 48.0, 50.0, 185.4]
    assert len(fabric.notes) == 3
    assert fabric.notes[0].startswith("2 links without a rate in the file: 22 GB/s (cpu: ")
    assert Fabric(f"file:{path}@5").notes == []
    assert Fabric("mesh:2x2").notes == []
    arguments = ["simulate", f"file:{path}", "ring", "--bytes", "1MiB", "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    assert result.stderr == "".join(f"note: {note}\n" for note in fabric.notes)
    assert json.loads(result.stdout)["fabric"] == f"file:{path}"


@pytest.mark.parametrize("fabric", fabrics(), ids=lambda fabric: fabric.name)
def test_dot_comes_back(fabric: Fabric, tmp_path: Path) -> None:
    path = tmp_path / "fabric.dot"
    back = Fabric.from_text(antiphon.export(fabric, path, format="dot"), fabric.name)
    for key in ("name", "rank"):
        assert back.nodes[key].tolist() == fabric.nodes[key].tolist()
    assert rows(back.links) == rows(fabric.links)
    assert Fabric(str(path)).ranks == fabric.ranks


def test_boxes_on_rails(tmp_path: Path) -> None:
    spec = f"{EXAMPLES / 'nccl.xml'}*4@rails"
    boxes = Fabric(spec)
    assert (boxes.ranks, boxes.name) == (12, spec)
    assert {name for name in boxes.nodes["name"] if name.startswith("rail")} == {"rail0", "rail1"}
    assert boxes.notes[-1].startswith("4 boxes are joined by 2 switches")
    ring = antiphon.build(boxes, "ring", bytes="1MiB")
    assert antiphon.verify(boxes, ring).complete
    result = CliRunner().invoke(main, ["bound", spec, "--bytes", "1GiB", "--json"])
    assert json.loads(result.stdout)["fabric"] == spec
    # A study finds the file in all of its spellings.
    file = tmp_path / "box.xml"
    file.write_text(NCCL)
    for end in ("", "@5", "*4@rails", "@5*4@rails:50/1us", "[0,1]", ",dead=5"):
        point = CommandPoint("simulate", (("fabric", f"{file}{end}"),))
        assert str(file) in identity.files_of(point), end
    with pytest.raises(AntiphonError, match="this file names none"):
        Fabric(f"{EXAMPLES / 'infragraph.yaml'}*2@rails")


def test_what_is_no_topology_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    for text, why in [
        ('<!DOCTYPE a [<!ENTITY b "c">]><system/>', "entities are not expanded"),
        ("<svg/>", "XML of no known format: <svg>; read are JSON (antiphon-fabric/1), topologies of NCCL"),
        ("hello", "of no known format; read are JSON (antiphon-fabric/1), topologies of NCCL"),
        ("<system><cpu/></system>", "line 1: <cpu>: numaid is missing"),
        (NCCL.replace('count="5"', 'count="1e9"'), "count is '1e9', expected a whole number"),
    ]:
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


def test_damaged_graphs(tmp_path: Path) -> None:
    text = antiphon.export(Fabric("mesh:2x2@50/7ns"), format="graphml")
    path = tmp_path / "damaged.graphml"
    random = Random(1)
    pieces = [
        "-1",
        "1e999",
        "nan",
        "99999999999999999999",
        "",
        "<",
        '"',
        "&",
        "é",
        "<graph>",
        "</node>",
        "x",
        "0",
        "\n",
    ]
    read, refusal = 0, ""
    for _ in range(400):
        damaged = text
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(len(damaged))
            damaged = damaged[:at] + random.choice(pieces) + damaged[at + random.choice([0, 1, 1, 9, 40]) :]
        path.write_text(damaged)
        try:
            assert Fabric.from_graphml(path).ranks >= 2
            read += 1
        except AntiphonError as error:
            refusal = str(error)
        assert "\n" not in refusal
        assert len(refusal) < 2000
    assert 0 < read < 400
