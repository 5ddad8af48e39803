"""Collectives of PyTorch between hosts without a switch, in network namespaces: ``antiphon`` beside gloo, which gets
static routes; measured over what no schedule can beat, and small ones over loopback.

``switchless.py [CASE ...]`` with Python that has PyTorch (``make torch``: .venv-torch/bin/python).
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from pytorch import wiring
from pytorch.lab import Job, Lab, local

import antiphon

LARGE = {
    "all-reduce": "1MiB,16MiB,64MiB",
    "all-gather": "16777152",
    "reduce-scatter": "16777152",
    "all-to-all": "16777152",
}
"""About 16 MiB, in whole shards of 3, 4, 6 and 9 ranks."""
SMALL = "8KiB,64KiB,1MiB"
BACKENDS = ("gloo", "antiphon")
WARMUP = {"gloo": 4, "antiphon": 16}
"""By then the better plan, which is made in the background, is in use."""
ITERATIONS, SMALL_ITERATIONS = 5, 51
LIMIT_S = 600


@dataclass(frozen=True)
class Case:
    """Hosts and their cables; the order of ranks over hosts."""

    edges: wiring.Edges
    fabric: str
    mbit: int
    order: list[int] | None = None


CASES = {
    "ring:4@200": Case(wiring.ring(4), "ring:4", 200),
    "ring:4@500": Case(wiring.ring(4), "ring:4", 500),
    "ring:3@200": Case(wiring.ring(3), "ring:3", 200),
    "mesh:3x3@200": Case(wiring.mesh(3, 3), "mesh:3x3", 200),
    "mesh:3x3@200,unlucky": Case(wiring.mesh(3, 3), "mesh:3x3", 200, [0, 8, 1, 7, 2, 6, 3, 5, 4]),
}
LOOPBACK = {"loopback:2": 2, "loopback:4": 4}


def options(backend: str, collective: str, sizes: str, iterations: int) -> list[str]:
    """Arguments of Python for a rank."""
    given = ["--backend", backend, "--collective", collective, "--bytes", sizes, "--json"]
    return ["-m", "antiphon.torch.bench", *given, "--warmup", str(WARMUP[backend]), "--iterations", str(iterations)]


def runs(job: Job) -> list[dict[str, Any]]:
    """What rank 0 of a job found; exits where it ended too early."""
    ended = job.wait()
    if ended[0].status != 0:
        sys.exit(ended[0].text)
    return list(ended[0].document["runs"])


def bound_us(case: Case, run: dict[str, Any]) -> float:
    """What no schedule can beat on cables of that rate, with the headers of TCP."""
    system = antiphon.System("testbed").with_(link_rate_gb_per_s=case.mbit / 8e3)
    return antiphon.lower_bound(antiphon.Fabric(case.fabric), run["collective"], run["bytes"], system).time_ns / 1e3


def show(name: str, gloo: dict[str, Any], own: dict[str, Any], bound: float | None) -> None:
    """Prints a row."""
    wrong = gloo["wrong"] + own["wrong"]
    cells = [name, own["collective"], f"{own['bytes'] / 2**20:.3g} MiB"]
    cells += [f"{gloo['time_us'] / 1e3:.4g}", f"{own['time_us'] / 1e3:.4g}"]
    cells += [f"{bound / 1e3:.4g}", f"{bound / own['time_us']:.1%}"] if bound else ["", ""]
    cells.append(f"{gloo['time_us'] / own['time_us']:.2f}")
    predicted = own["predicted_us"]
    cells.append(f"{own['time_us'] / predicted:.3f}" if predicted else "")
    cells += [own["algorithm"] or "", f"{wrong} WRONG" if wrong else ""]
    print("| " + " | ".join(cells) + " |", flush=True)


def main(wanted: list[str]) -> int:
    """Prints a row for each collective and size."""
    if importlib.util.find_spec("torch") is None:
        print("left out: this Python has no PyTorch; make torch, then .venv-torch/bin/python benches/switchless.py")
        return 0
    backends = ("gloo", "gloo") if "gloo-only" in wanted else BACKENDS
    names = [name for name in wanted if name != "gloo-only"] or [*CASES, *LOOPBACK]
    print(
        "| case | collective | bytes | gloo ms | antiphon ms | bound ms | of bound | x gloo | over predicted | by | |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            if name in LOOPBACK:
                given = [options(each, "all-reduce", SMALL, SMALL_ITERATIONS) for each in backends]
                both = [runs(local(each, folder, LOOPBACK[name], limit_s=LIMIT_S)) for each in given]
                for gloo, own in zip(*both, strict=True):
                    show(name, gloo, own, None)
                continue
            case = CASES[name]
            with Lab(case.edges, case.mbit, routes=True) as lab:
                for collective, sizes in LARGE.items():
                    given = [options(each, collective, sizes, ITERATIONS) for each in backends]
                    both = [runs(lab.start(each, folder, hosts=case.order, limit_s=LIMIT_S)) for each in given]
                    for gloo, own in zip(*both, strict=True):
                        show(name, gloo, own, bound_us(case, own))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
