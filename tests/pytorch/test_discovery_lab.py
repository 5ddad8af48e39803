"""Discovery on hosts that are joined cable by cable: it finds exactly the cables, over all kinds of addresses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("psutil")

from pytorch import wiring
from pytorch.lab import Addresses, Lab

RANK = """
import json, sys, time
from dataclasses import asdict
from datetime import timedelta
import torch.distributed as dist
from antiphon.errors import AntiphonError
from antiphon.torch.discovery import Settings, connect
rank, size = int(sys.argv[2]), int(sys.argv[3])
store = dist.TCPStore(sys.argv[1], 29500, size, rank == 0, timedelta(seconds=30))
try:
    found = connect(store, rank, size, timeout_s=30, settings=Settings.from_environment())
    links = {name: found.fabric.links[name].tolist() for name in ("from", "to", "rate_gb_per_s")}
    print(json.dumps({"links": links, "findings": [asdict(each) for each in found.findings]}))
except AntiphonError as error:
    print(json.dumps({"error": error.message}))
store.add("done", 1)
while rank == 0 and store.add("done", 0) < size:
    time.sleep(0.01)
"""
LIMIT_S = 60
pytestmark = pytest.mark.usefixtures("cables")


def discover(lab: Lab, folder: Path, ranks: list[int], **variables: str) -> list[dict[str, Any]]:
    """What each rank finds; `ranks` are their hosts."""
    environment = {**os.environ, "MASTER_ADDR": lab.management(ranks[0]), "ANTIPHON_SAVE": str(folder / "fabric.json")}
    jobs = [
        subprocess.Popen(
            [*lab.at(host), sys.executable, "-c", RANK, lab.management(ranks[0]), str(rank), str(len(ranks))],
            stdout=subprocess.PIPE,
            text=True,
            env={**environment, **variables},
        )
        for rank, host in enumerate(ranks)
    ]
    try:
        return [json.loads(job.communicate(timeout=LIMIT_S)[0]) for job in jobs]
    finally:
        for job in jobs:
            job.kill()
            job.communicate()


SLOW = [pytest.param(addresses, marks=pytest.mark.slow) for addresses in ("subnets", "ipv6")]


@pytest.mark.parametrize("addresses", ["link-local", *SLOW])
def test_a_triangle(tmp_path: Path, addresses: Addresses) -> None:
    with Lab(wiring.ring(3), {(0, 0): 80}, addresses=addresses) as lab:
        found = discover(lab, tmp_path, [0, 1, 2])
        ports = {(0, 1): 0, (1, 2): 1, (0, 2): 2}
        assert [tuple(each["ranks"]) for each in found[0]["findings"]] == [(0, 1), (0, 2), (1, 2)]
        for each in found[0]["findings"]:
            cable = ports[tuple(each["ranks"])]
            assert each["interfaces"] == [lab.port(cable, rank) for rank in each["ranks"]]
            assert each["addresses"] == [lab.address(cable, rank) for rank in each["ranks"]]
            assert not each["trouble"]
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
    kinds = [(each["kind"], each["ranks"]) for each in found[0]["findings"]]
    assert kinds == [("network", [0, 2]), ("memory", [0, 1])]
    assert found[0]["links"]["from"] == [0, 2, 0, 1]
    assert found[0] == found[1] == found[2]
