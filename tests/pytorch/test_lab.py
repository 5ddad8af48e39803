"""The hosts, cables and jobs that tests of ``antiphon.torch`` stand on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pytorch import wiring
from pytorch.lab import Ended, Lab

pytestmark = pytest.mark.usefixtures("cables")


@pytest.mark.parametrize(
    ("edges", "most"),
    [
        (wiring.ring(4), 2),
        (wiring.ring(6, interfaces=2), 5),
        (wiring.line(4), 4),
        (wiring.mesh(3, 3), 7),
        (wiring.star_with_leaf(), 6),
    ],
)
def test_routes_are_shortest_and_shared(edges: wiring.Edges, most: int) -> None:
    hops, hosts = wiring.next_hops(edges), wiring.hosts_of(edges)
    load: dict[tuple[int, int], int] = {}
    for start in range(hosts):
        for end in range(hosts):
            at, taken = start, 0
            while at != end:
                cable = hops[at, end]
                load[cable, at] = load.get((cable, at), 0) + 1
                at = sum(edges[cable]) - at
                taken += 1
                assert taken < hosts
    assert max(load.values()) <= most


def test_hosts_reach_all_others_by_routes() -> None:
    with Lab(wiring.line(4), routes=True) as lab:
        with pytest.raises(AssertionError, match="ConnectionRefusedError"):  # by host 3: nobody listens
            lab.call(0, "import socket; socket.create_connection(('10.255.0.4', 5000), 5)")
        assert lab.call(2, "import socket; print(socket.gethostname())") == "host-2\n"


KILLED = """
import sys, time
from pytorch import wiring
from pytorch.lab import Lab
lab = Lab(wiring.ring(3))
import subprocess
process = subprocess.Popen([*lab.at(1), "sleep", "1000.25"])
print("made", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_its_process_is_killed(by: signal.Signals) -> None:
    had = {each.name for each in Path("/sys/class/net").iterdir()}
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as maker:
        assert maker.stdout is not None
        assert maker.stdout.readline() == b"made\n"
        until = time.monotonic() + 5
        while not sleeping() and time.monotonic() < until:
            time.sleep(0.02)
        assert sleeping()
        maker.send_signal(by)
        maker.wait(10)
        until = time.monotonic() + 5
        while sleeping() and time.monotonic() < until:
            time.sleep(0.02)
    assert not sleeping()
    assert {each.name for each in Path("/sys/class/net").iterdir()} == had


def sleeping() -> bool:
    """Whether the process at a host of ``KILLED`` is there."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if file.read_bytes().endswith(b"sleep\x001000.25\x00"):
                return True
        except OSError:
            continue
    return False


SAY = """
import os, socket, sys, time
rank = int(os.environ["RANK"])
os.write(1, f"rank {rank} of {os.environ['WORLD_SIZE']} at {socket.gethostname()}\\n".encode())
time.sleep(float(sys.argv[1]))
"""


def test_jobs_have_their_ranks_in_the_order_that_is_wanted(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is too large for the development environment")
    script = tmp_path / "say.py"
    script.write_text(SAY, "utf-8")
    with Lab(wiring.line(2)) as lab:
        ended = lab.start([str(script), "0"], tmp_path, hosts=[1, 0], each=2).wait()
        said = [f"rank {rank} of 4 at host-{1 - rank // 2}\n" for rank in range(4)]
        assert ended == [Ended(0, text) for text in said]
        job = lab.start([str(script), "60"], tmp_path, limit_s=60)
        for rank in (0, 1):
            job.wait_for(f"rank {rank}", rank)
            job.kill(rank)
        assert [each.status for each in job.wait()] == [-signal.SIGKILL] * 2
        job = lab.start([str(script), "60"], tmp_path, hosts=[0], limit_s=2)
        assert [each.status for each in job.wait()] == [-signal.SIGKILL]
