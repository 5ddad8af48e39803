"""The gallery: every algorithm on a small fabric, as it is when the site is built."""

from __future__ import annotations

import re
import tempfile
from html import escape
from pathlib import Path

from click.testing import CliRunner

import antiphon
from antiphon.cli import main

FABRICS = ("mesh:4x4", "mesh:3x3", "ring:8", "torus:4x4", "dgx1v", "switch:8", "aries:4x4")
"""Where an algorithm is shown: on the first on which it can be made."""
BYTES = "1MiB"
INTRO = f"""# Gallery

For everybody who wants to see how algorithms differ: each on a small fabric, for {BYTES} on each rank.
A picture is made by the command below it, when this page is built.

"""


def picture(fabric: str, algorithm: str) -> str:
    """The drawing of a schedule, as SVG."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "picture.svg"
        done = CliRunner().invoke(main, ["show", fabric, algorithm, "--bytes", BYTES, "--picture", str(file)])
        return re.sub(r"<\?xml.*?\?>|\n\s*", "", file.read_text("utf-8")) if done.exit_code == 0 else ""


def shown(algorithm: antiphon.Entry) -> tuple[str, antiphon.Schedule]:
    """The fabric that an algorithm is shown on, and its schedule there."""
    for fabric in (*FABRICS, *(each.example for each in antiphon.fabrics())):
        for collective in algorithm.collectives:
            try:
                return fabric, antiphon.build(fabric, algorithm, collective, BYTES)
            except antiphon.AntiphonError:
                continue
    raise AssertionError(f"{algorithm} is shown on none of the fabrics")


def page() -> str:
    """The page, in Markdown."""
    text = INTRO
    for algorithm in antiphon.algorithms():
        fabric, schedule = shown(algorithm)
        text += f"## {algorithm.name}\n\n{algorithm.summary}\n\n"
        if drawn := picture(fabric, algorithm.name):
            text += f'<figure class="gallery" aria-label="{escape(algorithm.name)} on {fabric}">{drawn}</figure>\n\n'
        text += f"```console\n$ antiphon show {fabric} {algorithm.name} --bytes {BYTES}\n```\n\n"
    return text
