"""The page of ``bound``: how fast any schedule could be, by what, and the links that this rests on."""

from __future__ import annotations

from markupsafe import Markup

from antiphon._core import Fabric
from antiphon.results import Bound
from antiphon.view.documents.collective import BOUNDS, bound_document
from antiphon.view.drawing import draw
from antiphon.view.pages.plots import Bar, Bars
from antiphon.view.pages.sheet import Picture, Section, sheet
from antiphon.view.text import binding_sentence, format_time, limit_text

MEANINGS = {
    "volume": "all traffic over all rates",
    "cut": "the most loaded cut between two groups of ranks",
    "strength": "the weakest partition into many groups of ranks",
    "prices": "the cheapest plan at prices of links",
    "latency": "a packet between the ranks farthest apart",
    "endpoint": "what a rank must read, bring over its bus or write",
    "computation": "additions at the rates of all that add",
}
"""What each bound is by."""


def render(fabric: Fabric, bound: Bound, title: str) -> str:
    """The page as text; ``title`` says what is bounded, where, and then after a comma how."""
    times = {name: getattr(bound, f"{name}_ns") for name in MEANINGS}
    bars = [
        Bar(
            name,
            ns,
            f"{format_time(ns)} · {MEANINGS[name]}",
            "var(--accent)" if name == bound.binding else "var(--bar)",
        )
        for name, ns in sorted(times.items(), key=lambda each: -(each[1] or 0.0))
        if ns is not None and (ns or name not in BOUNDS[-2:])
    ]
    rates, by_rates = bound.by_rates
    what, _, how = title.partition(", ")
    drawing = draw(fabric, bound)
    others = {"endpoints": bound.endpoint_ns, "additions": bound.computation_ns}
    more = "".join(f", {name} {format_time(ns)}" for name, ns in others.items() if ns)
    verdict = Markup(
        "No schedule takes less than <strong>{}</strong>: rates of links alone need {}, latency {}{}."
    ).format(format_time(bound.time_ns), format_time(by_rates), format_time(bound.latency_ns), more)
    return sheet(
        f"Lower bound of {what}",
        how,
        verdict,
        [
            Section(
                "Bounds", "Each holds for every schedule; the longest is the lower bound.", [Bars("Lower bounds", bars)]
            ),
            Section("All figures", shown=bound_document(title, bound)),
        ],
        picture=Picture(
            drawing,
            "What it rests on" if bound.binds == "rates" else "What the bound by rates rests on",
            binding_sentence(bound, drawing.sentence) or f"{rates.capitalize()}: {limit_text(bound)}",
            "The fabric with the links that the bound by rates rests on",
            "bound",
        ),
    )
