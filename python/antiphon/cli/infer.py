"""The command that says how long a large model takes to answer."""

from __future__ import annotations

from functools import partial
from typing import Any

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.options import read_fabric
from antiphon.cli.output import tell
from antiphon.cli.pages import paged
from antiphon.llm.given import of_boxes
from antiphon.view.documents.inference import inference_document


@command(of=antiphon.infer, common="plan batch prompt context constants memory report opened output")
def infer(model: str, fabric: str, *, plan: str = "", report: str | None, output: str, **parameters: Any) -> None:
    """Time a prompt and the next tokens of a large model, and say which links that needs.

    MODEL is as in antiphon step. All ranks of FABRIC take part.

    Examples:
        antiphon infer llama3-70b dgx-h100:1 --plan tp=8 --batch 32
        antiphon infer mixtral-8x7b dgx-h100:1 --plan tp=8,ep=8 --batch 32 --prompt 4096 --context 8192
        antiphon infer llama3-70b dgx-spark:ring4 --plan tp=4 --constants gb10

    Args:
        plan: How the model is divided, such as tp=8,ep=8. Keys: tp, pp, ep, etp, dp, ep-overlap,
            precision, order; antiphon models says what each means.
    """
    network = fabric if of_boxes(fabric) else read_fabric(fabric)
    with paged(report, output) as write:
        found = antiphon.infer(model, network, plan, **parameters)
        write(found.page)
        tell("infer", found.to_dict(), output, partial(inference_document, found))
