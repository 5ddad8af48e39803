"""Pictures as files: a fabric, the trees and rings of a schedule on it, or how busy a run keeps its links."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from antiphon._core import Fabric, Schedule, format_bytes
from antiphon.arguments import expect
from antiphon.collective.result import Run
from antiphon.errors import AntiphonError
from antiphon.files import written_whole
from antiphon.given import as_fabric
from antiphon.view.drawing.drawing import Drawing, draw
from antiphon.view.drawing.trees import classes_of, patterns
from antiphon.view.pages.page import page_template
from antiphon.view.text import binding_sentence, format_time, without_ranks

MOST_PATTERNS = 6
"""Drawn beside each other; the picture says how many more there are."""
PANEL = 470.0
"""Pixels of the width of one of several."""
NARROWEST = 640.0
"""Pixels of a picture, so that its texts are not cut."""
CHARACTER = 7.6
"""Pixels of a letter of a text, at most."""
STEPS = 10
"""Of the colour scale of utilization, besides idle."""


@dataclass(frozen=True, repr=False)
class Picture:
    """A picture, which notebooks show.

    >>> picture("ring:4")
    <Picture ring:4>

    Attributes:
        title: what it shows.
        svg: the text of an SVG file.
    """

    title: str
    svg: str

    def __repr__(self) -> str:
        return f"<Picture {self.title}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file ``*.svg``.

        Raises:
            AntiphonError: ``bad-file`` if it cannot be written.
        """
        expect("path", path, str, os.PathLike)
        refuse_pixels(path)
        with written_whole(path, ".svg") as file:
            file.write(self.svg)


def refuse_pixels(path: str | os.PathLike[str] | None) -> None:
    """Refuses a picture in pixels, with what to do instead.

    Raises:
        AntiphonError: ``bad-file`` for ``*.png`` and the like.
    """
    if path is not None and os.fspath(path).lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")):
        message = f"{os.fspath(path)}: pictures are written as .svg; a page of --report saves them as PNG"
        raise AntiphonError(message, "bad-file")


def picture(fabric: str | Fabric, what: Schedule | Run | None = None) -> Picture:
    """Draws a fabric; with a schedule its trees and rings, with a run how busy its links were.

    >>> from antiphon import build
    >>> picture("mesh:4x4", build("mesh:4x4", "tto", bytes="1MiB")).title
    'tto: all-reduce of 1MiB on mesh:4x4'

    Args:
        fabric: specification or Fabric.
        what: a Schedule for this fabric, or a Run on it; None: the fabric alone.

    Raises:
        AntiphonError: ``not-applicable`` for a run on another fabric, and for the schedule of a fabric so large that it
            is drawn without links; ``bad-file`` for a schedule that is not for this fabric.
    """
    fabric = as_fabric(fabric)
    if what is not None:
        expect("what", what, Schedule, Run)
    if isinstance(what, Schedule):
        return _of_schedule(fabric, what)
    if isinstance(what, Run):
        return _of_run(fabric, what)
    drawing = draw(fabric)
    links = f"{fabric.ranks:,} ranks, {len(fabric.links['from']):,} directed links"
    return _picture(fabric.name, [links], [("", drawing, _inner(drawing))], drawing.signs)


def _of_schedule(fabric: Fabric, schedule: Schedule) -> Picture:
    drawing = draw(fabric, excluded=_outside(schedule.excluded))
    if drawing.heat:
        raise AntiphonError(
            f"{fabric.name} is too large to draw a schedule on it: it has too many links", "not-applicable"
        )
    stats = schedule.stats(fabric)
    found = patterns(fabric, schedule)
    panels = []
    for number, each in enumerate(found[:MOST_PATTERNS]):
        roots = ["root" if node.rank in each.roots else "" for node in drawing.nodes]
        classes = classes_of(each, len(drawing.links), number % 7)
        panels.append((each.text, drawing, _inner(drawing, classes, roots)))
    steps = "; ".join(f"{name}: {count:,} steps" for name, count in stats.phases)
    lines = [f"Phases: {steps}" if steps and stats.steps <= stats.messages else ""]
    left = len(found) - MOST_PATTERNS
    if left > 0:
        lines.append(f"The {MOST_PATTERNS} patterns with the most data are drawn; {left:,} more are not.")
    back = any(each.adds & each.copies for each in found)
    way = "data on its way to be added" + (", and copied the same way later" if back else "")
    signs = [("t0", way)] if any(each.adds for each in found) else []
    signs += (
        [("t0 copies", "a result or a part that is copied")] if any(each.copies - each.adds for each in found) else []
    )
    signs += [("root", "root")] if any(each.roots for each in found[:MOST_PATTERNS]) else []
    title = f"{schedule.algorithm}: {schedule.collective} of {format_bytes(schedule.bytes)} on {fabric.name}"
    return _picture(title, filter(None, lines), panels, [*signs, *drawing.signs])


def _of_run(fabric: Fabric, run: Run) -> Picture:
    links, table = fabric.links, run.result.links
    if (run.fabric, len(links["from"])) != (fabric.name, table.height):
        raise AntiphonError(f"the run is on {run.fabric}, not on {fabric.name}", "not-applicable")
    drawing = draw(fabric, run.bound, excluded=_outside(run.excluded_ranks))
    use = np.asarray(table["utilization"], dtype=np.float64)
    if drawing.heat:
        count = len(drawing.nodes)
        use = np.bincount(links["from"], use, count) / np.maximum(np.bincount(links["from"], minlength=count), 1)
    classes = [f"u{level}" for level in np.clip(np.ceil(use * STEPS), 0, STEPS).astype(int)]
    inner = _inner(drawing, None, classes) if drawing.heat else _inner(drawing, classes)
    lines = [
        f"{format_time(run.time_ns)} ({run.fidelity}){without_ranks(run.excluded_ranks, ', {}')}",
        binding_sentence(run.bound, drawing.sentence),
    ]
    what = "a node whose links are" if drawing.heat else "a link that is"
    signs = [
        (f"u{level}", text) for level, text in ((0, "idle"), (3, "busy 30 %"), (7, "70 %"), (10, "100 % of the run"))
    ]
    signs[0] = (signs[0][0], f"{what} idle")
    title = f"{run.label}: {run.collective} of {format_bytes(run.bytes)} on {fabric.name}"
    return _picture(title, filter(None, lines), [("", drawing, inner)], [*signs, *drawing.signs])


def _outside(ranks: Sequence[int]) -> frozenset[int]:
    return frozenset(ranks)


def _inner(
    drawing: Drawing, link_classes: Sequence[str] | None = None, node_classes: Sequence[str] | None = None
) -> str:
    """What is in the element of a drawing."""
    text = str(drawing.svg("", link_classes, node_classes=node_classes))
    return text[text.index(">") + 1 : text.rindex("</svg>")]


def _picture(
    title: str, lines: Any, panels: Sequence[tuple[str, Drawing, str]], signs: Sequence[tuple[str, str]]
) -> Picture:
    """Sets panels in rows below the title, and the legend below them."""
    lines = [*lines, *filter(None, [panels[0][1].numbering])]
    columns = 1 if len(panels) == 1 else 2 if len(panels) in (2, 4) else 3
    drawing = panels[0][1]
    longest = max(len(title) * 1.25, *(len(line) for line in ["", *lines])) * CHARACTER + 32
    texts = max(len(text) for text, *_ in panels) * CHARACTER
    wide = drawing.width if columns == 1 else max(min(PANEL, drawing.width), min(texts, PANEL))
    tall = drawing.height * wide / drawing.width
    width = max(NARROWEST, longest, columns * (wide + 16) + 16)
    top = 46 + 18 * len(lines)
    shown = []
    for number, (text, _, svg) in enumerate(panels):
        x = 16 + (width - 16) / columns * (number % columns) + ((width - wide) / 2 - 16 if columns == 1 else 0)
        y = top + (tall + 34) * (number // columns)
        box = f"0 0 {drawing.width:.0f} {drawing.height:.0f}"
        shown.append({"x": x, "y": y, "width": wide, "height": tall, "text": text, "svg": svg, "box": box})
    y = top + (tall + 34) * math.ceil(len(panels) / columns) + 18
    x, placed = 16.0, []
    module: Any = page_template("drawing.html").module
    for kind, text in signs:
        need = 42 + len(text) * CHARACTER + 22
        if x + need > width and x > 16:
            x, y = 16.0, y + 24
        placed.append((x, y, _sign(module, kind), text))
        x += need
    svg = page_template("picture.svg").render(
        title=title, lines=lines, panels=shown, signs=placed, width=width, height=y + 14, **_style()
    )
    return Picture(title, svg)


def _sign(module: Any, kind: str) -> str:
    if kind == "root":
        return '<g class="node root"><circle class="shape" cx="17" cy="8" r="6"/></g>'
    if kind[0] in "tu" and kind[1:2].isdecimal():
        return f'<path class="sample {kind}" stroke-width="2.5" d="M2,8 L31,8 L26,12"/>'
    text = str(module.sign(kind))
    return text[text.index(">") + 1 : text.rindex("</svg>")]


@cache
def _style() -> Mapping[str, str]:
    """The look of drawings in light colours; programs that draw SVG need not know variables."""
    light = page_template("colours.css").render().split("@media")[0]
    values = dict(re.findall(r"--([\w-]+): ([^;]+);", light))
    style = re.sub(r"var\(--([\w-]+)\)", lambda found: values[found[1]], page_template("drawing.css").render())
    return {"style": style, "ink": values["ink"], "soft": values["soft"]}
