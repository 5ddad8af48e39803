"""Antiphon beside other programs that do the same work: results and times, for docs/evidence/performance.md.

``make peers`` runs it. A peer that is missing is named with how to get it:

- HiGHS (pip): the optimum of AllGather as a linear program of flows, beside the bound of ``antiphon.lower_bound``.
- Open MPI (pip): AllReduce between processes of this machine, beside ``antiphon run``.
- gloo (PyTorch, ``make torch``): the same, beside ``torch.distributed`` on ``antiphon``.
- BookSim 2 (a checkout that is built: ``--booksim PATH/TO/booksim``): routers under synthetic traffic.

Times are medians of ``REPEATED`` whole runs in turns, both sides on this machine, one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import antiphon
from antiphon.view.text import format_time

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "evidence" / "performance.md"
TABLE = re.compile(r"(?<=<!-- peers: make peers -->\n).*?(?=<!-- end of peers -->)", re.DOTALL)
REPEATED = 3


class Row(NamedTuple):
    """One case of a peer; results and times as text, and how many times as long the peer takes."""

    peer: str
    case: str
    theirs: str
    ours: str
    ratio: float


class Missing(Exception):
    """A peer is not installed; says how to get it."""


def seconds(*works: Callable[[], Any]) -> list[tuple[float, Any]]:
    """Median seconds of each work, done in turns, and its last result."""
    times: list[list[float]] = [[] for _ in works]
    found: list[Any] = [None] * len(works)
    for _ in range(REPEATED):
        for number, work in enumerate(works):
            start = perf_counter()
            found[number] = work()
            times[number].append(perf_counter() - start)
    return [(median(taken), result) for taken, result in zip(times, found, strict=True)]


def row(peer: str, case: str, theirs: tuple[float, str], ours: tuple[float, str]) -> Row:
    """A row of two times in seconds and two results."""
    cells = [f"{result}, {format_time(taken * 1e9)}" for taken, result in (theirs, ours)]
    return Row(peer, case, *cells, theirs[0] / ours[0])


# --- HiGHS ---------------------------------------------------------------------------------------


def highs() -> Iterator[Row]:
    """The least time of an AllGather as a linear program.

    A unit of data of every root flows to every other rank within the copies of that root that links carry. What all
    roots put on a link takes at most the time times its rate (multicommodity flows; routing with copies).
    """
    try:
        import highspy
        import numpy as np
    except ImportError:
        raise Missing("HiGHS: pip install highspy") from None

    def optimum_ns(fabric: antiphon.Fabric, size: int) -> float:
        ranks, links = fabric.ranks, fabric.links
        tails, heads, given = links["from"], links["to"], links["rate_gb_per_s"]
        rates = np.where(np.isnan(given), antiphon.System("ideal").link_rate_gb_per_s, given) * links["speed"]
        count, nodes = len(tails), len(fabric.nodes["rank"])
        part = size / ranks
        model = highspy.Highs()
        model.silent()
        infinity = highspy.kHighsInf
        # Columns: the time, copies [root, link], flows [root, sink, link].
        copies = 1
        flows = copies + ranks * count
        columns = flows + ranks * (ranks - 1) * count
        model.addVars(columns, np.zeros(columns), np.full(columns, infinity))
        model.changeColCost(0, 1.0)
        starts, indices, values, lower, upper = [0], [], [], [], []

        def add(entries: list[tuple[int, float]], least: float, most: float) -> None:
            indices.extend(column for column, _ in entries)
            values.extend(value for _, value in entries)
            starts.append(len(indices))
            lower.append(least)
            upper.append(most)

        for link in range(count):
            entries = [(copies + root * count + link, part) for root in range(ranks)]
            add([*entries, (0, -float(rates[link]))], -infinity, 0)
        for root in range(ranks):
            for place, sink in enumerate(rank for rank in range(ranks) if rank != root):
                flow = flows + (root * (ranks - 1) + place) * count
                for link in range(count):
                    add([(flow + link, 1), (copies + root * count + link, -1)], -infinity, 0)
                for node in range(nodes):
                    out = [(flow + link, 1.0) for link in range(count) if tails[link] == node]
                    into = [(flow + link, -1.0) for link in range(count) if heads[link] == node]
                    surplus = 1.0 if node == root else -1.0 if node == sink else 0.0
                    add([*out, *into], surplus, surplus)
        model.addRows(
            len(lower),
            np.array(lower, float),
            np.array(upper, float),
            len(indices),
            np.array(starts[:-1], np.int32),
            np.array(indices, np.int32),
            np.array(values, float),
        )
        model.run()
        assert model.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return float(model.getInfo().objective_function_value)

    size = 64 << 20
    for name in ("dgx1v", "mesh:3x3", "mesh:4x4,drop=5-6"):
        fabric = antiphon.Fabric(name)
        theirs, ours = seconds(
            lambda fabric=fabric: optimum_ns(fabric, size),
            lambda name=name: antiphon.lower_bound(antiphon.Fabric(name), "all-gather", size, "ideal"),
        )
        bound = ours[1]
        rates_ns = max(each for each in (bound.volume_ns, bound.cut_ns, bound.strength_ns, bound.prices_ns) if each)
        yield row(
            f"HiGHS {version('highspy')}",
            f"optimum of AllGather by rates, {name}, 64 MiB",
            (theirs[0], format_time(theirs[1])),
            (ours[0], format_time(rates_ns)),
        )


# --- Open MPI, gloo ------------------------------------------------------------------------------


MPI_RANK = """
import json, sys, time
import numpy as np
from mpi4py import MPI
comm, count, repeated = MPI.COMM_WORLD, int(sys.argv[1]) // 4, int(sys.argv[2])
own, total = np.ones(count, np.float32), np.empty(count, np.float32)
comm.Allreduce(own, total)
comm.Barrier()
start = time.perf_counter()
for _ in range(repeated):
    comm.Allreduce(own, total)
taken = comm.allreduce((time.perf_counter() - start) / repeated, op=MPI.MAX)
if comm.rank == 0:
    print(json.dumps([taken, MPI.Get_library_version().split(",")[0]]))
"""
TORCH_RANK = """
import json, os, sys, time
import torch, torch.distributed as dist
dist.init_process_group(sys.argv[3])
data, repeated = torch.ones(int(sys.argv[1]) // 4), int(sys.argv[2])
for _ in range(16):  # by then the better plan, which is made in the background, is in use
    dist.all_reduce(data)
dist.barrier()
start = time.perf_counter()
for _ in range(repeated):
    dist.all_reduce(data)
taken = torch.tensor([(time.perf_counter() - start) / repeated])
dist.all_reduce(taken, dist.ReduceOp.MAX)
if dist.get_rank() == 0:
    print(json.dumps([float(taken), torch.__version__]))
dist.destroy_process_group()
"""
RANKS = 2
"""As many as cores of a small machine."""
SIZES = {"64KiB": 200, "16MiB": 10}
"""Repetitions, by size."""


def _last_line(command: list[str]) -> list[Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    if done.returncode or not lines:
        raise Missing(f"{command[0]} failed: {done.stderr.strip()[-200:]}")
    return list(json.loads(lines[-1]))


def open_mpi() -> Iterator[Row]:
    """AllReduce of float32 between two processes."""
    try:
        from antiphon.execution.launch import mpiexec

        command = mpiexec(RANKS)
    except antiphon.AntiphonError as error:
        raise Missing(error.message) from None
    for size, repeated in SIZES.items():
        count = antiphon.parse_bytes(size)
        theirs, ours, library = [], [], ""
        for _ in range(REPEATED):
            taken, library = _last_line([*command, sys.executable, "-c", MPI_RANK, str(count), str(repeated)])
            theirs.append(taken)
            found = antiphon.measure(f"ring:{RANKS}", "direct", sizes=[count], transport="mpi", iterations=repeated)
            ours.append(float(found.runs["time_ns"][0]) * 1e-9)
        yield row(library, f"AllReduce of {size}, {RANKS} processes", (median(theirs), ""), (median(ours), ""))


def gloo() -> Iterator[Row]:
    """The same between two processes of a PyTorch job."""
    python = ROOT / ".venv-torch" / "bin" / "python"
    if not python.exists():
        raise Missing("gloo: make torch")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "rank.py"
        script.write_text(TORCH_RANK)
        launch = [str(python), "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", str(script)]
        for size, repeated in SIZES.items():
            times: dict[str, list[float]] = {"gloo": [], "antiphon": []}
            library = ""
            for _ in range(REPEATED):
                for backend, found in times.items():
                    arguments = [str(antiphon.parse_bytes(size)), str(repeated), backend]
                    taken, library = _last_line([*launch, *arguments])
                    found.append(taken)
            case = f"AllReduce of {size}, {RANKS} processes"
            both = [(median(times[backend]), "") for backend in ("gloo", "antiphon")]
            yield row(f"gloo (PyTorch {library})", case, *both)


# --- BookSim 2 -----------------------------------------------------------------------------------

BOOKSIM = """
topology = mesh; k = 8; n = 2; routing_function = dor; num_vcs = 4; vc_buf_size = 8;
traffic = uniform; injection_rate = {rate}; packet_size = 1; sim_type = latency;
warmup_periods = 3; sample_period = 10000; max_samples = 3;
"""


def booksim(program: str | None) -> Iterator[Row]:
    """The mean latency of packets on an 8x8 mesh."""
    if program is None or not os.access(program, os.X_OK):
        raise Missing("BookSim 2: build a checkout and give --booksim PATH/TO/booksim")
    for rate in (0.1, 0.3):
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "config"
            config.write_text(BOOKSIM.format(rate=rate))

            def theirs(config: Path = config) -> float:
                text = subprocess.run([program, str(config)], capture_output=True, text=True, check=False).stdout
                return float(re.findall(r"Packet latency average = ([0-9.]+)", text)[-1])

            def ours(rate: float = rate) -> float:
                return antiphon.noc(
                    "mesh:8x8", rate=rate, vcs=4, vc_depth=8, warm_up_cycles=30000, cycles=10000
                ).packet_latency_cycles.mean

            peer, own = seconds(theirs, ours)
        cells = [(taken, f"{latency:.1f} cycles") for taken, latency in (peer, own)]
        yield row("BookSim 2", f"mean latency, mesh 8x8, uniform traffic at {rate}", *cells)


# --- the page ------------------------------------------------------------------------------------


def table(rows: list[Row], missing: list[str]) -> str:
    """What stands in the page."""
    cores = os.cpu_count()
    info = Path("/proc/cpuinfo").read_text() if sys.platform == "linux" else ""
    names = re.findall(r"model name\s*: (.+)", info)
    model = names[0] if names else platform.machine()
    lines = [
        f"Measured on {cores} cores of {model}, Python {platform.python_version()}, Antiphon {antiphon.__version__}; "
        f"medians of {REPEATED} runs in turns.",
        "",
        "| Peer | Case | The peer | Antiphon | Ratio |",
        "|---|---|---|---|---|",
        *("| " + " | ".join([*(cell.lstrip(", ") for cell in each[:4]), f"{each.ratio:.3g}"]) + " |" for each in rows),
        "",
        *(f"Not measured: {each}." for each in missing),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Prints the table, and writes it into the page with ``--write``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--booksim", help="the program of a checkout of BookSim 2 that is built")
    parser.add_argument("--write", action="store_true", help="put the table into docs/evidence/performance.md")
    arguments = parser.parse_args()
    rows: list[Row] = []
    missing: list[str] = []
    for peer in (highs, open_mpi, gloo, lambda: booksim(arguments.booksim)):
        try:
            for each in peer():
                rows.append(each)
                print("  ".join([*each[:4], f"{each.ratio:.3g} times as long"]), flush=True)
        except Missing as error:
            missing.append(str(error))
            print(error, flush=True)
    if arguments.write:
        page = PAGE.read_text("utf-8")
        PAGE.write_text(TABLE.sub(lambda _: table(rows, missing), page), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
