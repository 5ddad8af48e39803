"""Discovery on hosts that are joined cable by cable: it finds exactly the cables, over all kinds of addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("psutil")

from pytorch import wiring
from pytorch.lab import Addresses, Lab

RANK = """
import json, time
from dataclasses import asdict
import torch.distributed as dist
from antiphon.torch.discovery import Settings, connect
store, rank, size = next(dist.rendezvous("env://"))
found = connect(store, rank, size, timeout_s=30, settings=Settings.from_environment())
links = {name: found.fabric.links[name].tolist() for name in ("from", "to", "rate_gb_per_s")}
cables = [asdict(each.cable) | {"trouble": each.trouble} for each in found.findings]
print(json.dumps({"links": links, "cables": cables}))
store.add("done", 1)
while rank == 0 and store.add("done", 0) < size:
    time.sleep(0.01)
"""
pytestmark = pytest.mark.usefixtures("cables")


def discover(lab: Lab, folder: Path, ranks: list[int]) -> list[dict[str, Any]]:
    """What each rank finds; `ranks` are their hosts."""
    script = folder / "rank.py"
    script.write_text(RANK, "utf-8")
    job = lab.start(
        [str(script)], folder, hosts=ranks, environment={"ANTIPHON_SAVE": str(folder / "fabric.json")}, limit_s=60
    )
    return [each.document for each in job.wait()]


@pytest.mark.parametrize("addresses", ["link-local", "ipv6"])
def test_a_triangle(tmp_path: Path, addresses: Addresses) -> None:
    with Lab(wiring.ring(3), {(0, 0): 80}, addresses=addresses) as lab:
        found = discover(lab, tmp_path, [0, 1, 2])
        seen = []
        for each in found[0]["cables"]:
            ends = [each["low"], each["high"]]
            seen.append((ends[0]["rank"], ends[1]["rank"]))
            cable = {(0, 1): 0, (1, 2): 1, (0, 2): 2}[seen[-1]]
            for end in ends:
                assert end["interface"]["name"] == lab.port(cable, end["rank"])
                assert end["address"] == lab.address(cable, end["rank"])
            assert not each["trouble"]
        assert seen == [(0, 1), (0, 2), (1, 2)]
    assert found[0] == found[1] == found[2]
    links = found[0]["links"]
    assert (links["from"], links["to"]) == ([0, 1, 0, 2, 1, 2], [1, 0, 2, 0, 2, 1])
    there, back, *others = links["rate_gb_per_s"]
    assert 0.007 < there < 0.013
    assert back > 0.007  # what says that its bytes came waits behind those that go there
    assert all(0.016 < rate < 0.03 for rate in others), links


def test_a_cut_cable_and_ranks_of_one_host(tmp_path: Path) -> None:
    with Lab([(0, 1), (0, 1)]) as lab:
        lab.cut(1)
        found = discover(lab, tmp_path, [0, 0, 1])
    kinds = [(each["kind"], each["low"]["rank"], each["high"]["rank"]) for each in found[0]["cables"]]
    assert kinds == [("network", 0, 2), ("memory", 0, 1)]
    assert found[0]["links"]["from"] == [0, 2, 0, 1]
    assert found[0] == found[1] == found[2]
