"""Collectives on an emulated fabric, measured beside predicted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from antiphon._core import Executor, Fabric, Schedule, System, simulate
from antiphon.arguments import expect, shown
from antiphon.collective.schedules import as_schedule, build
from antiphon.errors import AntiphonError, NotApplicable
from antiphon.execution.job import LEAVE_S, Job
from antiphon.execution.result import Emulated, emulated_row
from antiphon.execution.testbed import network
from antiphon.execution.testbed.host import WARM_UP_RUNS
from antiphon.execution.testbed.node import ELEMENT
from antiphon.given import as_fabric
from antiphon.names import Collective

UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9, "kb/s": 8 * 10**3, "mb/s": 8 * 10**6, "gb/s": 8 * 10**9}
RATES = {"namespaces": "200mbit", "cuda": "4GB/s"}
"""Devices, and the rate of their links if none is given."""
FASTEST = {"namespaces": (10**10, "10gbit"), "cuda": (8 * 10**12, "1000GB/s")}
SLOWEST_BIT_PER_S = 10**6
TOOLS = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux", "setpriv": "util-linux"}
"""Programs that are needed, and the packages that have them."""
LARGEST_BYTES = 1 << 30
"""Of a rank's data."""


def emulate(
    fabric: str | Fabric,
    algorithms: str | Schedule | Sequence[str | Schedule | os.PathLike[str]],
    collective: Collective | str = "all-reduce",
    bytes: str | int = "8MiB",
    *,
    root: int = 0,
    device: str = "namespaces",
    link_rate: str | None = None,
    repeat: int = 5,
    timeout_s: float = 8.0,
    progress: Callable[[float], object] | None = None,
) -> Emulated:
    """Runs collectives on an emulated fabric, and predicts what they take.

    On device ``namespaces`` a network namespace is a node, and an Ethernet cable stands for every two opposite links,
    shaped to a rate each way. Messages go over TCP, a connection a link, and nodes on the way pass packets on. All is
    made within namespaces of their own, with addresses from 10.0.0.0/8 that exist only there, and is gone when the
    processes are, however they end. Predicted is the system ``testbed`` at packets. On device ``cuda`` a link is a
    thread block of a GPU, which keeps the rate by its clock; predicted is the system ``ideal`` with this rate and the
    latency of a hop, which is measured first. The rate of all links is measured under full load before. Numbers are
    int32, and every element is compared.

    >>> emulate("mesh:3x3", ["ring", "tto"], bytes="1MiB", link_rate="50mbit").correct  # doctest: +SKIP
    True

    Args:
        fabric: specification or Fabric, without rates of its own; in namespaces of at most 64 nodes, without parallel
            links, all of one rate; on a GPU of at most as many links as it has SMs.
        algorithms: one or several: ``name[:key=value,...]``, Schedules or files ``*.json``.
        collective: what to compute.
        bytes: full buffer size.
        root: of a broadcast or reduce.
        device: ``namespaces``, or ``cuda``, the first GPU (extra ``cuda``).
        link_rate: of every link, each way: a number of ``bit``, ``kbit``, ``mbit`` or ``gbit`` a second, or of
            ``kB/s``, ``MB/s`` or ``GB/s``; default: 200mbit in namespaces, 4GB/s on a GPU.
        repeat: runs of each, in turn, after one that is only checked; what counts is the median.
        timeout_s: a node or link to which nothing happens for so long ends the run.
        progress: called about ten times a second; what it raises ends the run.

    Raises:
        AntiphonError: ``not-applicable`` where this machine cannot do it, by its kernel, rights, programs or speed, or
            for other fabrics; ``missing-extra`` without CUDA for Python; ``bad-spec`` for schedules of different
            collectives; ``unknown-name`` for the device; ``not-proven``, ``stalled``; as ``build``.
    """
    whole = as_fabric(fabric)
    expect("device", device, str)
    if device not in RATES:
        raise AntiphonError(f"device '{device:.40}': one of {', '.join(RATES)}", "unknown-name")
    if device == "namespaces":
        network.cables(whole)  # before any work
    rate = rate_of(device, link_rate)
    expect("repeat", repeat, int)
    expect("timeout_s", timeout_s, int, float)
    for name, number, most in (("repeat", repeat, 1000), ("timeout_s", timeout_s, 86_400)):
        if not 1 <= number <= most:
            raise AntiphonError(f"{name} {shown(number)}: 1 to {most:,}", "bad-size")
    given = [algorithms] if isinstance(algorithms, (str, Schedule, os.PathLike)) else list(algorithms)

    def schedules_for(system: System) -> list[Schedule]:
        return _schedules(whole, given, collective, bytes, system, root)

    if device == "cuda":
        from antiphon.execution.cuda.testbed import emulate_on_gpu

        return emulate_on_gpu(whole, schedules_for, rate, repeat, timeout_s, progress)
    system = testbed(rate)
    schedules = schedules_for(system)
    predicted = [simulate(whole, schedule, system).time_ns for schedule in schedules]
    rates, measured = run_emulated(whole, schedules, rate, repeat, timeout_s, progress)
    rows = []
    for schedule, predicted_ns, (times, wrong) in zip(schedules, predicted, measured, strict=True):
        rows.append(emulated_row(schedule, times, wrong == 0, predicted_ns))
    return Emulated.of(whole, schedules[0], rate, repeat, rates, rows)


def testbed(bits_per_s: int) -> System:
    """The system that predicts what links of a rate take."""
    return System("testbed").with_(link_rate_gb_per_s=bits_per_s / 8e9)


def run_emulated(
    fabric: Fabric,
    schedules: Sequence[Schedule],
    bits_per_s: int,
    repeat: int,
    timeout_s: float,
    progress: Callable[[float], object] | None,
    chain: dict[str, Any] | None = None,
) -> tuple[tuple[float, float], list[tuple[list[float], int]]]:
    """Runs proven schedules in turn on an emulated fabric; with ``chain`` as the exchanges of chained iterations.

    Returns:
        The least and largest share of its rate that a link had under full load; for each schedule the times of its runs
        in ns, and how many numbers were wrong in all.

    Raises:
        AntiphonError: as ``emulate``.
    """
    ranks = [int(rank) for rank in fabric.nodes["rank"]]
    task = {"bits_per_s": bits_per_s, "repeat": repeat, "timeout_s": float(timeout_s), "ranks": ranks, "chain": chain}
    command = _host_command()
    texts = [fabric.to_json(), *(schedule.to_json() for schedule in schedules)]
    with Job(task, texts) as job:
        results = _results(job, command, (WARM_UP_RUNS + repeat) * len(schedules), timeout_s, progress)
    found = []
    for number in range(len(schedules)):
        runs = [each for each in results[1:] if each["schedule"] == number]
        found.append(([each["time_ns"] for each in runs[WARM_UP_RUNS:]], sum(each["wrong"] for each in runs)))
    return (results[0]["slowest_link"], results[0]["fastest_link"]), found


def compared(fabric: Fabric, collective: str) -> list[str]:
    """Algorithms to compare: a ring, a ring both ways, TTO and combs, those that apply.

    >>> compared(Fabric("mesh:3x3"), "all-reduce")
    ['ring', 'ring-bi-odd', 'tto', 'combs']
    """
    found = []
    for names in (("ring",), ("ring-bi", "ring-bi-odd"), ("tto",), ("combs",)):
        for name in names:
            with suppress(NotApplicable):
                build(fabric, name, collective, 1 << 20)
                found.append(name)
                break
    return found


def rate_of(device: str, given: str | None) -> int:
    """The rate of a device's links in bits a second, by default that of ``RATES``."""
    return bits_per_s(RATES[device] if given is None else given, device)


def bits_per_s(text: str, device: str = "namespaces") -> int:
    """A rate in bits a second.

    >>> bits_per_s("200mbit"), bits_per_s("4GB/s", "cuda")
    (200000000, 32000000000)

    Raises:
        AntiphonError: ``bad-spec``.
    """
    expect("link_rate", text, str)
    number = text.strip().lower()
    unit = next((unit for unit in sorted(UNITS, key=len, reverse=True) if number.endswith(unit)), None)
    try:
        rate = int(float(number.removesuffix(unit or " ")) * UNITS[unit or ""])
    except (KeyError, ValueError, OverflowError):
        raise AntiphonError(
            f"link rate '{text:.40}': a number and a unit, such as 200mbit or 4GB/s", "bad-spec"
        ) from None
    fastest, words = FASTEST[device]
    if not SLOWEST_BIT_PER_S <= rate <= fastest:
        raise AntiphonError(f"link rate '{text:.40}': 1mbit to {words} are emulated", "bad-spec")
    return rate


def _schedules(
    fabric: Fabric,
    given: Sequence[str | Schedule | os.PathLike[str]],
    collective: str,
    bytes: str | int,
    system: System,
    root: int,
) -> list[Schedule]:
    schedules = [_schedule(fabric, each, collective, bytes, system, root) for each in given]
    if not schedules:
        raise AntiphonError("algorithms: give at least one", "bad-spec")
    first = schedules[0]
    for schedule in schedules[1:]:
        if (schedule.collective, schedule.root) != (first.collective, first.root):
            message = f"{first.algorithm} does {_task(first)}, {schedule.algorithm} {_task(schedule)}"
            raise AntiphonError(f"{message}: give schedules of one collective", "bad-spec")
    return schedules


def _schedule(
    fabric: Fabric,
    given: str | Schedule | os.PathLike[str],
    collective: str,
    bytes: str | int,
    system: System,
    root: int,
) -> Schedule:
    if isinstance(given, str) and not given.lower().endswith(".json"):
        schedule = build(fabric, given, collective, bytes, system, root)
    else:
        schedule = as_schedule(given, fabric, "algorithms")
    if schedule.bound_of == "placement":
        raise AntiphonError(
            f"{schedule.algorithm} places ranks on other nodes, which is not emulated", "not-applicable"
        )
    if schedule.bytes > LARGEST_BYTES:
        raise AntiphonError(f"{schedule.bytes:,} bytes; at most {LARGEST_BYTES:,} are emulated", "too-large")
    proof = schedule.verify(fabric)
    if not proof.complete:
        raise AntiphonError(f"{schedule.algorithm}: {proof.gaps}; it is not run", "not-proven")
    Executor(schedule, 0, ELEMENT)  # refuses what is no whole number of elements
    return schedule


def _task(schedule: Schedule) -> str:
    return schedule.collective if schedule.root is None else f"{schedule.collective} with root {schedule.root}"


def _host_command() -> list[str]:
    return [*own_network(), sys.executable, "-m", "antiphon.execution.testbed.host"]


def own_network() -> list[str]:
    """What starts a command in a network of its own, where it may make cables.

    Raises:
        AntiphonError: ``not-applicable`` where that cannot be, with the reason.
    """
    if sys.platform != "linux":
        raise AntiphonError("an emulated fabric needs Linux and its network namespaces", "not-applicable")
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            raise AntiphonError(f"an emulated fabric needs the program {tool} (package {package})", "not-applicable")
    command = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    check = (
        "ip link add name v0a type veth peer name v0b && tc qdisc add dev v0a root tbf rate 1mbit burst 64kb limit 64kb"
    )
    tried = subprocess.run([*command, "sh", "-c", check], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        why = tried.stderr.strip().splitlines()[-1:] or ["unshare failed"]
        what = "network namespaces, veth and the shaper tbf, as root or with user namespaces"
        raise AntiphonError(f"an emulated fabric needs {what}: {why[0][:200]}", "not-applicable")
    return command


def _results(
    job: Job, command: Sequence[str], wanted: int, timeout_s: float, progress: Callable[[float], object] | None
) -> list[dict[str, Any]]:
    """What the host found: the rates of links, then the runs.

    Raises:
        AntiphonError: what it could not do.
    """
    host = job.start(command)
    try:
        while host.status(within_s=0.1) is None:
            if progress is not None:
                progress(max(0, len(job.results()) - 1) / wanted)
            for number, state in job.states().items():
                # By then the others have said what they wait for, where they do.
                if host.status() is None and state["age_s"] > timeout_s + LEAVE_S:
                    name = "the host" if number == network.MOST_NODES else f"node {number}"
                    raise AntiphonError(f"{name} hangs: it has said nothing for {state['age_s']:.0f} s", "stalled")
    finally:
        host.end()  # the nodes see that it is gone
    results = job.results()
    for result in results:
        if "error" in result:
            raise AntiphonError(result["error"], result["code"])
    if len(results) != wanted + 1:
        lines = job.printed().strip().splitlines()
        raise AntiphonError(f"the emulated fabric ended too early: {(lines or ['killed'])[-1][:200]}", "stalled")
    return results
