"""``antiphon discover`` on hosts with cables that are not as they should be."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("psutil")

from pytorch import wiring
from pytorch.lab import Lab

COMMAND = ["-m", "antiphon", "discover"]
QUICK = ["--collective", "all-reduce", "--bytes", "4KiB", "--iterations", "1", "--json"]

pytestmark = pytest.mark.usefixtures("cables")


@pytest.mark.covers_processes
def test_five_faults_at_once_over_ssh(tmp_path: Path) -> None:
    with Lab(wiring.ring(3, interfaces=2), mtu={3: 1500}) as lab:
        lab.slow(1, 100)
        lab.slow(2, 80, [2])
        lab.lose(4, 2, 0.05)
        lab.cut(0)
        hosts = {f"node-{host}": shlex.join(lab.at(host)) for host in range(3)}
        cases = "".join(f'{name}) exec {enter} sh -c "$2" ;;\n' for name, enter in hosts.items())
        ssh = tmp_path / "ssh"
        ssh.write_text(f'#!/bin/sh\ncase "$1" in\n{cases}*) echo "$1: no such host" >&2; exit 255 ;;\nesac\n', "utf-8")
        ssh.chmod(0o755)
        page = tmp_path / "wiring.html"
        command = [sys.executable, *COMMAND, *QUICK, "--ssh", str(ssh), "--hosts"]
        environment = {**os.environ, "MASTER_ADDR": lab.management(0)}
        given = [*command, ",".join(hosts), "--report", str(page)]
        done = subprocess.run(given, env=environment, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["schema"] == "antiphon-discover/1"
        assert [host["name"] for host in found["hosts"]] == ["host-0", "host-1", "host-2"]
        # Of each odd cable: the first port, and the first word about it. Cables 4 and 5 are of hosts 2 and 0.
        odd = {(each["link"].split()[1], each["what"].split()[0]) for each in found["odd"]}
        assert odd == {("v0a", "no"), ("v1a", "slow"), ("v2a", "one"), ("v3a", "MTU"), ("v4b", "loses")}
        rates = {(each["from_port"], each["to_port"]): each["rate_gb_per_s"] for each in found["links"]}
        assert len(rates) == 10
        assert rates["v1a", "v1b"] == pytest.approx(0.0125, rel=0.1)
        assert rates["v2a", "v2b"] == pytest.approx(0.025, rel=0.1)
        assert rates["v2b", "v2a"] == pytest.approx(0.01, rel=0.1)
        assert [(run["collective"], run["bytes"], run["wrong"]) for run in found["runs"]] == [("all-reduce", 4092, 0)]
        assert page.read_text("utf-8").count('<path class="cable odd"') == 4
        given = [*command, "node-0,elsewhere"]
        done = subprocess.run(given, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "error: host elsewhere: elsewhere: no such host\n"


FAULTS = ("swapped", "half", "mtu", "loss", "missing")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_a_fault_anywhere_is_named_and_nothing_else(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    fault = FAULTS[seed % len(FAULTS)]
    edges = chance.choice([wiring.ring(4), wiring.ring(3, interfaces=2), wiring.mesh(2, 3)])
    cable, other = chance.sample(range(len(edges)), 2)
    if fault == "swapped":  # so that no host is cabled to itself
        while set(edges[cable]) & set(edges[other]) and set(edges[cable]) != set(edges[other]):
            cable, other = chance.sample(range(len(edges)), 2)
    end = chance.choice(edges[cable])
    mtu = {cable: 1500} if fault == "mtu" else 9000
    with Lab(edges, mtu=mtu, swapped=(cable, other) if fault == "swapped" else None) as lab:
        if fault == "half":
            lab.slow(cable, 100, chance.choice([None, [end]]))
        elif fault == "loss":
            lab.lose(cable, end, 0.05)
        elif fault == "missing":
            lab.cut(cable)
        ended = lab.start([*COMMAND, *QUICK], tmp_path, limit_s=120).wait()
        found = ended[0].document
        ports = {name[:-1] for each in found["odd"] for name in each["link"].split() if name[0] == "v"}
        words = {each["what"].split()[0] for each in found["odd"]}
    assert ports == ({f"v{cable}", f"v{other}"} if fault == "swapped" else {f"v{cable}"}), found["odd"]
    expected = {"swapped": {"in", "no"}, "half": {"slow", "one"}, "mtu": {"MTU"}, "loss": {"loses"}, "missing": {"no"}}[
        fault
    ]
    assert words <= expected, found["odd"]
