"""The hosts, cables and jobs that tests of ``antiphon.torch`` stand on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytorch import wiring
from pytorch.lab import Addresses, Ended, Lab

SEND = """
import socket, sys, threading, time
address, count = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
with socket.socket(family, socket.SOCK_STREAM) as to:
    to.settimeout(float(sys.argv[3]))
    to.connect(socket.getaddrinfo(address, 5000)[0][4])
    start = time.monotonic()
    to.sendall(bytes(count))
    to.shutdown(socket.SHUT_WR)
    print(to.recv(1).decode(), time.monotonic() - start)
"""
MTU = """
import fcntl, socket, sys
with socket.socket() as any_:
    found = fcntl.ioctl(any_, 0x8921, sys.argv[1].encode().ljust(40, bytes(1)))  # SIOCGIFMTU
print(int.from_bytes(found[16:20], sys.byteorder))
"""
RECEIVE = """
import os, socket, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
with socket.socket(socket.AF_INET6 if {six} else socket.AF_INET, socket.SOCK_STREAM) as at:
    at.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, {device})
    at.bind(("", 5000))
    at.listen()
    print("ready", flush=True)
    while True:
        came, _ = at.accept()
        with came:
            while came.recv(1 << 20): pass
            came.sendall(b"k")
"""
"""Takes what comes, then says so."""
pytestmark = pytest.mark.usefixtures("cables")


class Sink:
    """Takes what comes at a host; with a device only what comes there."""

    def __init__(self, lab: Lab, host: int, six: bool = False, device: str = "") -> None:
        program = RECEIVE.replace("{six}", str(six)).replace("{device}", repr(device.encode()))
        self.process = subprocess.Popen(
            [*lab.at(host), sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()


def took_s(lab: Lab, sender: int, address: str, count: int, limit_s: float = 10) -> float:
    """How long bytes take to an address where a sink is."""
    said, seconds = lab.call(sender, SEND, address, str(count), str(limit_s)).split()
    assert said == "k"
    return float(seconds)


@pytest.fixture(scope="module")
def pair() -> Iterator[Lab]:
    """Two hosts with two cables, of which the second is slow from host 1."""
    with Lab([(0, 1), (0, 1)], {(0, 0): 80, (0, 1): 80, (1, 0): 80, (1, 1): 20}, mtu={1: 1500}) as lab:
        yield lab


def test_cables_have_their_rates_each_way(pair: Lab) -> None:
    for sender, receiver in ((0, 1), (1, 0)):
        with Sink(pair, receiver):
            for cable in (0, 1):
                count = int(pair.rate(cable, sender) * 1e6 / 8 / 2)  # half a second
                seconds = took_s(pair, sender, pair.address(cable, receiver), count)
                assert 0.35 < seconds < 0.75, (sender, cable)
    assert [pair.call(0, MTU, pair.port(cable, 0)) for cable in (0, 1)] == ["9000\n", "1500\n"]


def test_cables_are_slowed_dropped_and_cut() -> None:
    with Lab([(0, 1), (0, 1), (0, 1)], 80) as lab, Sink(lab, 1):
        lab.slow(0, 20, senders=[0])
        assert took_s(lab, 0, lab.address(0, 1), 1_000_000) > 0.3
        assert took_s(lab, 0, lab.address(1, 1), 1_000_000) < 0.3
        lab.drop(1, senders=[1])
        lab.cut(2)
        for cable in (1, 2):
            with pytest.raises(AssertionError, match=r"timed out|unreachable|No route"):
                took_s(lab, 0, lab.address(cable, 1), 1, 0.5)
        assert took_s(lab, 0, lab.address(0, 1), 1_000) < 0.3


@pytest.mark.parametrize("addresses", ["link-local", "ipv6"])
def test_hosts_reach_neighbours_by_other_addresses(addresses: Addresses) -> None:
    with Lab(wiring.ring(3), addresses=addresses) as lab:
        for cable in (0, 2):  # both ports of host 0
            other = sum(lab.cables[cable].ends)
            near, far = lab.port(cable, 0), lab.port(cable, other)
            zone, program = f"%{near}" if addresses == "ipv6" else "", SEND
            if addresses == "link-local":  # all ports have this network: which is meant, both ends must say
                bound = f"to.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'{near}')"
                program = SEND.replace("to.connect", f"{bound}\n    to.connect")
            with Sink(lab, other, addresses == "ipv6", "" if zone else far):
                said = lab.call(0, program, lab.address(cable, other) + zone, "1000", "5")
            assert said.startswith("k")


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
    with Lab(wiring.line(4), routes=True) as lab, Sink(lab, 3):
        assert took_s(lab, 0, "10.255.0.4", 1_000_000) < 1
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
