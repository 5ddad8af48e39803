"""Iterations of training between hosts without a switch, in network namespaces: DDP on gloo, which gets static routes,
DDP on ``antiphon``, and ``antiphon.torch.chain`` beside its model. Layers sleep for declared times.

``chaining.py [CASE ...]`` with Python that has PyTorch (``make torch``: .venv-torch/bin/python).
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from pytorch import wiring
from pytorch.lab import Lab

import antiphon

LAYERS, NUMBERS = 16, 65_536
"""Of the model, and 32-bit numbers of a layer: 4 MiB of gradients in all."""
SHARES = (0.2, 0.5, 1.0)
"""Time of the exchange alone over that of computation."""
CASES = {"ring:4@200": (wiring.ring(4), "ring:4", 200), "mesh:2x4@100": (wiring.mesh(2, 4), "mesh:2x4", 100)}
WAYS = (("gloo", "ddp"), ("antiphon", "ddp"), ("antiphon", "chain"))
WARMUP, ITERATIONS = 17, 10
"""By then DDP's better plans, which are made in the background, are in use."""
LIMIT_S = 600


def rank(backend: str, way: str, layer_ms: str) -> None:
    """Trains, and prints what an iteration took."""
    import torch
    import torch.distributed as dist
    from torch import nn

    import antiphon.torch

    forward_s = float(layer_ms) / 1e3

    class Sleep(torch.autograd.Function):
        """The time of a layer's two passes."""

        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            time.sleep(forward_s)
            return x.clone()

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            time.sleep(2 * forward_s)
            return gradient

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(NUMBERS))

        def forward(self, x: Any) -> Any:
            return Sleep.apply(x * self.weight)

    torch.set_num_threads(1)
    dist.init_process_group(backend)
    model = nn.Sequential(*(Layer() for _ in range(LAYERS)))
    optimizer = torch.optim.SGD(model.parameters(), 1e-6)
    net: Any = antiphon.torch.chain(model, optimizer) if way == "chain" else nn.parallel.DistributedDataParallel(model)
    x = torch.ones(NUMBERS)
    start = 0.0
    for number in range(-WARMUP, ITERATIONS):
        if number == 0:
            dist.barrier()
            start = time.perf_counter()
        net(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    spent_ms = (time.perf_counter() - start) / ITERATIONS * 1e3
    if dist.get_rank() == 0:
        print(json.dumps({"ms": spent_ms, "algorithm": net.algorithm if way == "chain" else ""}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def predicted_ms(fabric: str, mbit: int, algorithm: str, layer_ms: float) -> tuple[float, float]:
    """The exchange alone, and the chained iteration, by the timing model."""
    system = antiphon.System("testbed").with_(link_rate_gb_per_s=mbit / 8e3)
    exchange = antiphon.simulate(
        fabric, antiphon.build(fabric, algorithm, bytes=4 * LAYERS * NUMBERS, system=system), system
    )
    times = [round(layer_ms * 1e6)] * 3
    header = "layer,fwd_compute_ns,fwd_comm,fwd_bytes,ig_compute_ns,ig_comm,ig_bytes,wg_compute_ns,wg_comm,wg_bytes"
    rows = (f"{at},{times[0]},NONE,0,{times[1]},NONE,0,{times[2]},ALLREDUCE,{4 * NUMBERS}" for at in range(LAYERS))
    model = antiphon.Workload.from_csv("layers", "\n".join([header, *rows]))
    plan = antiphon.TrainingPlan(model, "measured", 1, overlap="ccube")
    return exchange.time_ns / 1e6, plan.run([exchange.time_ns], [exchange.chunks]).time_ns / 1e6


def main(wanted: list[str]) -> int:
    """Prints a row for each case and share."""
    if importlib.util.find_spec("torch") is None:
        print("left out: this Python has no PyTorch; make torch, then .venv-torch/bin/python benches/chaining.py")
        return 0
    print(
        "| case | exchange / computation | computation ms | DDP gloo | DDP antiphon | chained | predicted | over it"
        " | x gloo | by |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in wanted or CASES:
        edges, fabric, mbit = CASES[name]
        alone_ms, _ = predicted_ms(fabric, mbit, "ring-bi", 1.0)
        for share in SHARES:
            layer_ms = alone_ms / share / LAYERS / 3
            found: list[dict[str, Any]] = []
            with Lab(edges, mbit, routes=True) as lab, tempfile.TemporaryDirectory() as folder:
                for backend, way in WAYS:
                    script = [__file__, "rank", backend, way, str(layer_ms)]
                    ended = lab.start(script, Path(folder), limit_s=LIMIT_S).wait()[0]
                    if ended.status != 0:
                        sys.exit(ended.text)
                    found.append(json.loads(ended.text.strip().splitlines()[-1]))
            gloo, ddp, chained = (each["ms"] for each in found)
            algorithm = found[-1]["algorithm"]
            _, model_ms = predicted_ms(fabric, mbit, algorithm, layer_ms)
            figures = [layer_ms * LAYERS * 3, gloo, ddp, chained, model_ms]
            cells = [name, f"{share:.0%}", *(f"{each:.0f}" for each in figures)]
            cells += [f"{chained / model_ms:.3f}", f"{gloo / chained:.2f}", algorithm]
            print("| " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank(*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
