"""Bus bandwidth of an AllReduce over this machine's memory: by threads, by MPI ranks, and that of MPI's own, as
ratios."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median

import antiphon
from antiphon.execution.launch import mpiexec

SIZES = ("64KiB", "1MiB", "16MiB", "64MiB")
CASES = {"ring:2": ("direct", "ring"), "mesh:2x2": ("ring", "ring-bi", "combs"), "mesh:2x4": ("ring", "combs")}
REPEATED = 5
"""Times all are measured, in turn; medians are printed."""
ITERATIONS = 10

MPI_ALL_REDUCE = """
import json, sys, time
import numpy as np
from mpi4py import MPI
comm, times = MPI.COMM_WORLD, []
for size in map(int, sys.argv[2:]):
    own, total = np.ones(size // 4, np.float32), np.empty(size // 4, np.float32)
    comm.Allreduce(own, total)
    comm.Barrier()
    start = time.perf_counter_ns()
    for _ in range(int(sys.argv[1])):
        comm.Allreduce(own, total)
    times.append(comm.allreduce((time.perf_counter_ns() - start) / int(sys.argv[1]), op=MPI.MAX))
if comm.rank == 0:
    print(json.dumps(times))
"""


def mpi_ns(ranks: int, sizes: list[int]) -> list[float]:
    """Times of MPI's own AllReduce, out of place."""
    command = [*mpiexec(ranks), sys.executable, "-c", MPI_ALL_REDUCE, str(ITERATIONS), *map(str, sizes)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [float(time) for time in json.loads(output.splitlines()[-1])]


def main() -> int:
    """Prints a line for each size."""
    sizes = [antiphon.parse_bytes(size) for size in SIZES]
    for fabric, algorithms in CASES.items():
        ranks = antiphon.Fabric(fabric).ranks
        own: list[list[float]] = []
        times: dict[tuple[str, str], list[list[float]]] = {}
        for _ in range(REPEATED):
            own.append(mpi_ns(ranks, sizes))
            for algorithm in algorithms:
                for transport in ("threads", "mpi"):
                    found = antiphon.measure(
                        fabric, algorithm, sizes=sizes, transport=transport, iterations=ITERATIONS, timeout_s=60
                    )
                    times.setdefault((transport, algorithm), []).append(found.runs["time_ns"].tolist())
        for number, size in enumerate(sizes):
            reference = median(each[number] for each in own)
            factor = antiphon.bus_factor("all-reduce", ranks) * size
            ratios = {key: reference / median(each[number] for each in all_) for key, all_ in times.items()}
            best = {
                transport: max((ratio, algorithm) for (by, algorithm), ratio in ratios.items() if by == transport)
                for transport in ("threads", "mpi")
            }
            print(
                f"{ranks} ranks, {SIZES[number]}: MPI_Allreduce {factor / reference:.3g} GB/s of bus bandwidth; "
                + ", ".join(f"{by} x{ratio:.2f} ({name})" for by, (ratio, name) in best.items()),
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
