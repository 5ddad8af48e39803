"""How long steps and plans of large models take to compute, in seconds of one core (docs/evidence/performance.md).

A step is to take under 1 s, one of 16,384 GPUs under 5 s, the best plan under 10 s.
"""

from __future__ import annotations

from time import process_time

import antiphon

STEPS = (
    ("llama3-405b", "dgx-h100:64", "tp=8,cp=2,pp=8,v=8", 1152),
    ("llama3-405b", "dgx-h100:2048", "tp=8,pp=16,v=8", 2048),
    ("deepseek-v3", "h800:256", "pp=16,ep=64,schedule=dualpipe,precision=fp8", 15360),
)
PLANS = (
    ("llama3-405b", "dgx-h100:128", 1152),
    ("deepseek-v3", "h800:256", 15360),
)


def main() -> None:
    for model, fabric, plan, batch in STEPS:
        start = process_time()
        run = antiphon.step(model, fabric, plan, batch=batch, memory="none")
        print(f"step {model} {fabric} {plan}: {process_time() - start:.2f} s for {run.operations:,} operations")
    for model, fabric, batch in PLANS:
        start = process_time()
        best = antiphon.plan(model, fabric, batch=batch, plan="precision=fp8")
        print(
            f"plan {model} {fabric}: {process_time() - start:.1f} s, {best.simulated} of {best.legal:,} plans simulated"
        )


if __name__ == "__main__":
    main()
