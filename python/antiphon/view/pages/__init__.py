"""HTML pages of results: one file each that needs nothing else, drawn as inline SVG."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from antiphon._core import Fabric
from antiphon.errors import AntiphonError


def page_of(result: Any, fabric: Fabric | None = None) -> str:
    """The page of a result, a file that needs nothing else; of results without one of their own, that of their figures.

    Args:
        fabric: what the result is about, where the page draws it; None: the one of this name.

    Raises:
        AntiphonError: ``not-applicable`` if the fabric is drawn, and has no name by which it can be made again.
    """
    from antiphon.view.pages import (
        comparison,
        emulated,
        expected,
        exploration,
        limits,
        llm,
        noc,
        rails,
        simulation,
        study,
        survival,
        training,
        tuning,
        varied,
    )

    makers: dict[str, Callable[[Any], str]] = {
        "BesideRun": lambda run: varied.render_beside(fabric or _fabric(run), run),
        "BestPlans": llm.render_plans,
        "Comparison": lambda found: comparison.render(fabric or _fabric(found), found),
        "Emulated": emulated.render,
        "Expectation": expected.render,
        "Limits": limits.render,
        "Exploration": exploration.render,
        "NocResult": lambda run: noc.render([run]),
        "RailsFlights": lambda run: rails.render_flights([run]),
        "RailsRun": lambda run: rails.render([run]),
        "Run": lambda run: simulation.render(fabric or _fabric(run), run),
        "Saturation": noc.render_saturation,
        "StepRun": llm.render,
        "Study": study.render,
        "Survival": lambda found: survival.render(fabric or _fabric(found), found),
        "Training": lambda run: training.render([(run, [])]),
        "Tuning": tuning.render,
        "Variations": varied.render,
    }
    maker = makers.get(type(result).__name__)
    return _figures(result) if maker is None else maker(result)


def _figures(result: Any) -> str:
    """What a notebook shows of a result, as a page."""
    from antiphon.view.documents import document_of
    from antiphon.view.pages.sheet import document_page, result_page

    document = document_of(result)
    return result_page(result) if document is None else document_page(document)


def _fabric(result: Any) -> Fabric:
    """The fabric that a result names."""
    try:
        whole = Fabric(result.fabric.partition("[")[0])
    except AntiphonError:
        message = f"the page draws {result.fabric:.80}, which has no specification: give the fabric, too"
        raise AntiphonError(message, "not-applicable") from None
    return whole if getattr(result, "group", None) is None else whole.group(",".join(map(str, result.group)))
