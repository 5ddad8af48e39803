"""Hosts joined cable by cable, in network namespaces, and jobs on them as torchrun starts them.

Everything is in namespaces of one process, which ends when the process that made it does, however that ends; then all
processes in them are killed and no device, mount or file is left. Addresses exist only in there.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from pytorch.ranks import Place, run
from pytorch.wiring import Edges, hosts_of, next_hops

from antiphon.execution.testbed import network
from antiphon.execution.testbed.emulation import own_network

Addresses = Literal["subnets", "link-local", "ipv6"]
"""Of cables: an IPv4 network each; 169.254.0.0/16 on every port; only the link-local ones of IPv6."""
MANAGEMENT, MANAGEMENT_MBIT = "m0", 100
BACKEND = os.environ.get("ANTIPHON_TEST_BACKEND", "antiphon")
"""What tests are about; with gloo one sees what tests of failures are worth."""
ROUTED = "id0"
"""The device with a host's one address, to which all others have a route."""
PORT = 29_500
PRELOADED = ["antiphon.torch", "torch.distributed.checkpoint.state_dict", "torch.distributed.fsdp"]
PRELOADED += ["torch.distributed.tensor.parallel", "torch._dynamo", "torch.testing._internal.common_distributed"]
START_S = 30.0
SETTLE_S = 5.0
"""By then processes that were killed are gone."""


class Lab:
    """Hosts 0, 1, ... and cables 0, 1, ... between them; a slow management network joins all hosts, too.

    Args:
        edges: the hosts that each cable joins.
        mbit: rate of the cables each way, in Mbit/s; of one as a dictionary by cable and host that sends.
        mtu: of the cables, in bytes; of one by cable.
        addresses: of the ports.
        swapped: two cables of which each ends in the other's second port.
        routes: also an address for each host on ``id0`` and routes to it over shortest ways, which gloo needs.

    Raises:
        AntiphonError: ``not-applicable`` where this machine cannot, with the reason.
    """

    def __init__(
        self,
        edges: Edges,
        mbit: float | Mapping[tuple[int, int], float] = 200,
        *,
        mtu: int | Mapping[int, int] = network.MTU_BYTES,
        addresses: Addresses = "subnets",
        routes: bool = BACKEND == "gloo",
        swapped: tuple[int, int] | None = None,
    ) -> None:
        self.hosts = hosts_of(edges)
        self.cables = [network.Cable(number, ends, ()) for number, ends in enumerate(edges)]
        self._mbit, self._mtu, self._addresses, self._swapped = mbit, mtu, addresses, swapped
        self._environment = {"GLOO_SOCKET_IFNAME": ROUTED} if routes else {}
        self._jobs: list[Job] = []
        command = own_network()
        more = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        names = ["127.0.0.1 localhost"]
        names += [
            f"{form}{self.management(host)} host-{host}" for host in range(self.hosts) for form in ("", "::ffff:")
        ]
        steps = ["mkdir -p /run/netns", "mount -t tmpfs tmpfs /run/netns", 'echo "$0" > /run/netns/hosts']
        # Without names PyTorch asks a name server that no host reaches.
        steps += ["mount --bind /run/netns/hosts /etc/hosts", "echo ready", "exec cat"]
        keep = ["sh", "-c", " && ".join(steps), "\n".join(names)]
        # `cat` reads until this process is gone; with it, the first of their processes, the namespaces end.
        self._keeper = subprocess.Popen(
            [*command, *more, *keep], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        of = f"/proc/{self._keeper.pid}/ns"
        self.spaces = {"mount": f"{of}/mnt", "net": f"{of}/net", "pid": f"{of}/pid_for_children"}
        if "--user" in command:
            self.spaces = {"user": f"{of}/user", **self.spaces}
        self._inside = ["nsenter", f"--wd={Path.cwd()}", *(f"--{kind}={path}" for kind, path in self.spaces.items())]
        self._inside += ["--preserve-credentials"] * ("user" in self.spaces)
        try:
            assert self._keeper.stdout is not None
            assert self._keeper.stdout.readline() == "ready\n", "the namespaces were not made"
            self._make(edges, routes)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all processes in it; with them all that it consists of is gone."""
        for job in self._jobs:
            job.close()
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.stdout.close()
        try:
            self._keeper.wait(SETTLE_S)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()

    def at(self, host: int | None = None) -> list[str]:
        """What a command begins with that runs at a host, or outside of all, where the bridge is."""
        if host is None:
            return self._inside
        # Shared memory is of a host, and so is its name.
        own = 'hostname "$0" && mount -t tmpfs tmpfs /dev/shm && exec "$@"'
        enter = ["nsenter", f"--net=/run/netns/h{host}", "unshare", "--uts", "--mount", "sh", "-c", own, f"host-{host}"]
        return [*self._inside, *enter]

    def management(self, host: int) -> str:
        """A host's address in the management network."""
        return f"10.200.0.{host + 1}"

    def address(self, cable: int, host: int) -> str:
        """That of a port; of IPv6 as it is without its zone."""
        made = self.cables[cable]
        if self._addresses == "subnets":
            return made.address(host)
        end = 2 * cable + made.ends.index(host)
        return f"169.254.{1 + end // 200}.{1 + end % 200}" if self._addresses == "link-local" else f"fe80::{end + 1:x}"

    def port(self, cable: int, host: int) -> str:
        """The name of a cable's device at a host."""
        return self.cables[cable].device(host)

    def rate(self, cable: int, host: int) -> float:
        """Of what a host sends over a cable, in Mbit/s, as it was made."""
        if not isinstance(self._mbit, Mapping):
            return self._mbit
        return self._mbit.get((cable, host), 200)

    def start(
        self,
        script: Sequence[str],
        folder: Path,
        *,
        hosts: Sequence[int] | None = None,
        each: int = 1,
        environment: Mapping[str, str] | None = None,
        limit_s: float = 120,
    ) -> Job:
        """Starts a job.

        Args:
            script: of Python with its arguments; or ``-m`` and a module.
            folder: for what its ranks print.
            hosts: those of the first ranks, of the next, ...; default: all in order.
            each: ranks a host.
            environment: variables besides this process's.
            limit_s: then the job is killed.
        """
        order = list(range(self.hosts)) if hosts is None else list(hosts)
        known = {**self._environment, "MASTER_ADDR": self.management(order[0]), **(environment or {})}
        places = [(f"host-{host}", f"/run/netns/h{host}", self.spaces) for host in order for _ in range(each)]
        self._jobs.append(Job(script, folder, known, places, each, limit_s))
        return self._jobs[-1]

    def call(self, host: int, program: str, *arguments: str, limit_s: float = START_S) -> str:
        """What a program of Python prints at a host."""
        command = [*self.at(host), sys.executable, "-c", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def cut(self, cable: int) -> None:
        """Pulls the cable out: both ends lose their carrier."""
        for host in self.cables[cable].ends:
            self._ip(host, f"link set {self.port(cable, host)} down")

    def drop(self, cable: int, senders: Sequence[int] | None = None) -> None:
        """Loses silently all that hosts at it send, by default both: no packet fits into the shaper."""
        for host in self.cables[cable].ends if senders is None else senders:
            self._tc(host, f"qdisc replace dev {self.port(cable, host)} root tbf rate 8bit burst 20 limit 20")

    def slow(self, cable: int, mbit: float, senders: Sequence[int] | None = None) -> None:
        """Changes the rate at which hosts at it send, by default both."""
        for host in self.cables[cable].ends if senders is None else senders:
            self._tc(host, f"qdisc replace dev {self.port(cable, host)} root {network.shaper(int(mbit * 1e6))}")

    def lose(self, cable: int, sender: int, share: float) -> None:
        """Loses at random a share of the packets that a host sends over it: the other end drops them as they come."""
        receiver = sum(self.cables[cable].ends) - sender
        device = self.port(cable, receiver)
        # "Random number at least ... ? drop : pass", in the kernel's classic instructions.
        program = f"4,32 0 0 {0xFFFFF038},53 0 1 {int((1 - share) * 2**32)},6 0 0 2,6 0 0 0"
        taking = f'filter add dev {device} ingress bpf direct-action bytecode "{program}"'
        self._tc(receiver, f"qdisc add dev {device} clsact", taking)

    def _make(self, edges: Edges, routes: bool) -> None:
        names = {host: f"h{host}" for host in range(self.hosts)}
        self._ip(None, *(f"netns add {name}" for name in names.values()), "link set lo up")
        self._ip(None, "link add br0 type bridge", "link set br0 up", *self._plugging(names))
        hops = next_hops(edges) if routes else {}
        shaper = network.shaper(MANAGEMENT_MBIT * 10**6)
        for host, name in names.items():
            self._ip(None, f"link add m{host + 1} type veth peer name {MANAGEMENT} netns {name}")
            self._ip(None, f"link set m{host + 1} master br0 up")
            self._tc(None, f"qdisc add dev m{host + 1} root {shaper}")
            self._tc(host, f"qdisc add dev {MANAGEMENT} root {shaper}")
            self._set(host, routes)
            ports = [cable.number for cable in self.cables if host in cable.ends]
            self._ip(host, *self._addressing(host, ports, routes))
            shapes = {port: network.shaper(int(self.rate(port, host) * 1e6)) for port in ports}
            self._tc(host, *(f"qdisc add dev {self.port(port, host)} root {shape}" for port, shape in shapes.items()))
            for (start, end), cable in hops.items():
                if start == host:
                    via = self.cables[cable].address(sum(edges[cable]) - host)
                    self._ip(host, f"route add {_routed(end)}/32 via {via} src {_routed(host)}")

    def _plugging(self, names: Mapping[int, str]) -> list[str]:
        """Commands that make the cables."""
        lines = sorted(network.making(self.cables, names).splitlines(), key=lambda line: line.startswith("link set"))
        if self._swapped:
            first, second = self._swapped
            ends = [each.split() for each in (lines[first], lines[second])]
            ends[0][-1], ends[1][-1] = ends[1][-1], ends[0][-1]
            lines[first], lines[second] = (" ".join(each) for each in ends)
        return lines

    def _addressing(self, host: int, ports: Sequence[int], routes: bool) -> list[str]:
        """Commands that give a host's devices their addresses."""
        commands = ["link set lo up", f"link set {MANAGEMENT} up"]
        commands.append(f"address add {self.management(host)}/24 dev {MANAGEMENT}")
        if routes:
            # A bridge without ports serves as the dummy device that not every kernel has.
            commands += [f"link add {ROUTED} type bridge", f"link set {ROUTED} mtu {network.MTU_BYTES} up"]
            commands.append(f"address add {_routed(host)}/32 dev {ROUTED}")
        bits = {"subnets": "30", "link-local": "16", "ipv6": "64"}[self._addresses]
        more = " nodad" if self._addresses == "ipv6" else ""
        for port in ports:
            mtu = self._mtu.get(port, network.MTU_BYTES) if isinstance(self._mtu, Mapping) else self._mtu
            device = self.port(port, host)
            commands += [f"link set {device} mtu {mtu} up"]
            commands += [f"address add {self.address(port, host)}/{bits} dev {device}{more}"]
        return commands

    def _set(self, host: int, routes: bool) -> None:
        """What the kernel is to do at a host."""
        ipv6 = "ipv6/conf/{}/addr_gen_mode=1" if self._addresses == "ipv6" else "ipv6/conf/{}/disable_ipv6=1"
        wanted = ["ipv4/tcp_slow_start_after_idle=0", f"ipv4/ip_forward={int(routes)}"]
        for device in ("all", "default"):
            wanted += [f"ipv4/conf/{device}/rp_filter=0", ipv6.format(device)]
        for device in [self.port(each.number, host) for each in self.cables if host in each.ends]:
            wanted.append(ipv6.format(device))
        texts = [setting.split("=") for setting in wanted]
        commands = [f"[ ! -e /proc/sys/net/{file} ] || echo {text} > /proc/sys/net/{file}" for file, text in texts]
        self._call(["nsenter", f"--net=/run/netns/h{host}", "sh", "-c", "; ".join(commands)])

    def _ip(self, host: int | None, *commands: str) -> None:
        self._call(["ip", *([] if host is None else ["-n", f"h{host}"]), "-batch", "-"], commands)

    def _tc(self, host: int | None, *commands: str) -> None:
        self._call(["tc", *([] if host is None else ["-n", f"h{host}"]), "-batch", "-"], commands)

    def _call(self, command: list[str], given: Sequence[str] = ()) -> None:
        done = subprocess.run(
            [*self._inside, *command],
            input="".join(f"{each}\n" for each in given),
            text=True,
            capture_output=True,
            timeout=START_S,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}{given}"


def local(script: Sequence[str], folder: Path, ranks: int, limit_s: float = 120) -> Job:
    """Starts a job on this machine as it is, over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        known = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    return Job(script, folder, known, [None] * ranks, ranks, limit_s)


def _routed(host: int) -> str:
    return f"10.255.0.{host + 1}"


@dataclass(frozen=True)
class Ended:
    """How a rank ended."""

    status: int
    """As of Popen; of a job that took too long -9."""
    text: str
    """What it printed."""

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object among what was printed."""
        assert self.status == 0, self.text
        return dict(
            json.loads(self.text[self.text.index("\n{") if self.text[0] != "{" else 0 : self.text.rindex("}") + 1])
        )


class Job:
    """Ranks that belong together, forked from a process that has loaded PyTorch, which takes seconds."""

    def __init__(
        self,
        script: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        places: Sequence[Place | None],
        each: int,
        limit_s: float,
    ) -> None:
        self._until = time.monotonic() + limit_s
        self._ranks: list[tuple[Any, Path]] = []
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        for rank, place in enumerate(places):
            output = folder / f"node-{rank}.txt"
            output.touch()
            own = {"RANK": rank, "WORLD_SIZE": len(places), "LOCAL_RANK": rank % each, "LOCAL_WORLD_SIZE": each}
            whole = {**os.environ, "MASTER_PORT": str(PORT), **{name: str(own[name]) for name in own}, **environment}
            process = context.Process(target=run, args=(list(script), str(output), whole, place))
            process.start()
            self._ranks.append((process, output))

    @property
    def ended(self) -> bool:
        """Whether no rank is left; when the time is over, none is."""
        if time.monotonic() > self._until:
            self.close()
        return all(process.exitcode is not None for process, _ in self._ranks)

    def text(self, rank: int) -> str:
        """What a rank has printed so far."""
        return self._ranks[rank][1].read_text("utf-8", "replace")

    def wait_for(self, said: str, rank: int = 0) -> None:
        """Waits until a rank has printed a text."""
        while said not in self.text(rank):
            assert self._ranks[rank][0].exitcode is None, f"rank {rank} ended without '{said}':\n{self.text(rank)}"
            assert time.monotonic() < self._until, f"rank {rank} did not print '{said}':\n{self.text(rank)}"
            time.sleep(0.01)

    def wait(self) -> list[Ended]:
        """Waits until all ranks have ended; kills those that have not when the time is over."""
        while not self.ended:
            time.sleep(0.01)
        return [Ended(process.exitcode, self.text(rank)) for rank, (process, _) in enumerate(self._ranks)]

    def kill(self, rank: int) -> None:
        """Kills a rank."""
        self._ranks[rank][0].kill()

    def close(self) -> None:
        """Kills all that is left of it."""
        for process, _ in self._ranks:
            process.kill()
            process.join()
