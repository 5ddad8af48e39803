"""The HTML report of trainings: the iteration of each as a timeline.

This module computes geometry; the page is ``templates/training.html``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.plot import COLOURS
from antiphon.results import rows_of
from antiphon.training.result import Training
from antiphon.training.train import CHAINED
from antiphon.view.pages.energy import energy_section
from antiphon.view.pages.page import look, page_template, time_axis
from antiphon.view.text import filled, platform

KINDS = ("forward pass", "backward pass", "local sums", "exchanges")
FORWARD, BACKWARD, SUMS = range(3)
KIND_COLOURS = (COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[5])
WIDTH = 860.0
NARROWEST = 3.0
"""Neighbours in a row that are narrower, in pixels, are drawn as one."""
LANE = 20.0
"""Height of what is computed, of which streams take equal parts."""
GAP = 0.1
"""They are neighbours if less than this is between them."""

Block = tuple[float, float, int, str]
"""Where it starts and ends, its kind and its text."""
Group = tuple[Training, Sequence[Training]]
"""A training and those it is set against."""


def render(results: Sequence[Group], refused: Sequence[dict[str, str]] = ()) -> str:
    """The page as text; trainings of one model on one fabric are drawn to one scale.

    ``refused`` has what could not be done: ``model``, ``fabric``, ``algorithm`` and ``reason``.
    """
    first = results[0][0]
    endpoints = {each.system.endpoint for training, baselines in results for each in [training, *baselines]}
    return page_template("training.html").render(
        first=first,
        platform=platform(first.system) if len(endpoints) == 1 else first.system.name,
        several_endpoints=len(endpoints) > 1,
        chained=first.overlap in CHAINED,
        groups=[_group(training, baselines) for training, baselines in results],
        legend=list(zip(KINDS, KIND_COLOURS, strict=True)),
        refused=refused,
        width=WIDTH,
        lane=LANE,
    )


def _group(training: Training, baselines: Sequence[Training]) -> dict[str, Any]:
    trainings = [training, *baselines]
    longest_ns = max(1e-3, *(each.iteration_ns for each in trainings))
    axis = time_axis(longest_ns, WIDTH)
    return {
        "training": training,
        "axis": axis,
        "longest_ns": longest_ns,
        "rows": [_timeline(each, axis.pixels_per_unit) | {"training": each} for each in trainings],
        "speedups": [training.speedup(each) for each in trainings],
        "energy": energy_section(
            [(each.algorithm, look(number) | {"dash": ""}, each.energy) for number, each in enumerate(trainings)]
        ),
    }


def _timeline(training: Training, scale: float) -> dict[str, Any]:
    """Blocks of what is computed, by stream, and of what is sent: start and width in pixels, and a line of text."""
    iteration = training.iteration
    layers, done, exchanges = training.layers["layer"], iteration.computations, iteration.exchanges
    computed: dict[int, list[Block]] = {stream: [] for stream in sorted(set(done["stream"].tolist()))}
    for row in rows_of(done):
        kind = BACKWARD if row["pass"] else FORWARD
        block = (row["start_ns"] * scale, row["finish_ns"] * scale, kind, str(layers[row["layer"]]))
        computed[row["stream"]].append(block)
    end = iteration.time_ns
    if iteration.aggregation_ns:
        for blocks in computed.values():
            blocks.append(((end - iteration.aggregation_ns) * scale, end * scale, SUMS, ""))
    sent = [
        (row["start_ns"] * scale, row["finish_ns"] * scale, filled("{kind} of {bytes}", row))
        for row in rows_of(exchanges)
    ]
    # Only where layers wait for parts of an exchange: when the gradients of each were there.
    chained = training.overlap in CHAINED
    arrivals = sorted({round(ready * scale, 1) for ready in iteration.forward["ready_ns"].tolist()}) if chained else []
    return {
        "streams": [_merged(blocks) for blocks in computed.values()],
        "stream_height": LANE / len(computed),
        "sent": [(start, max(finish - start, 0.5), text) for start, finish, text in sent],
        "arrivals": [x for x in arrivals if x > 0],
    }


def _merged(blocks: list[Block]) -> list[Block]:
    """Start, width, kind and layers of blocks; narrow ones of one kind that adjoin become one."""
    merged: list[list[Any]] = []
    for start, finish, kind, layer in blocks:
        if merged:
            last = merged[-1]
            narrow = finish - start < NARROWEST and last[1] - last[0] < NARROWEST
            if last[2] == kind and narrow and start - last[1] < GAP:
                last[1], last[4] = finish, layer
                continue
        merged.append([start, finish, kind, layer, layer])
    return [
        (start, finish - start, kind, f"{KINDS[kind]} {first}" + (f" to {last}" if last != first else ""))
        for start, finish, kind, first, last in merged
    ]
