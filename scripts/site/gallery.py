"""The gallery: every algorithm on a small fabric, drawn when the site is built."""

from __future__ import annotations

import antiphon

FABRICS = ("mesh:4x4", "mesh:3x3", "ring:8", "dgx1v", "dgx-h100:2")
"""Where an algorithm is shown: on the first on which it can be made."""
BYTES = "1MiB"
FOLDER = "images/gallery/"
INTRO = f"""# Gallery

For everybody who wants to see how algorithms differ: each on a small fabric, with {BYTES} on each rank.
The command below a picture makes it again.

"""


def shown(algorithm: antiphon.Entry) -> tuple[str, str, antiphon.Schedule]:
    """The fabric and the collective that an algorithm is shown for, and its schedule."""
    for fabric in FABRICS:
        for collective in algorithm.collectives:
            try:
                return fabric, collective, antiphon.build(fabric, algorithm, collective, BYTES)
            except antiphon.AntiphonError:
                continue
    raise AssertionError(f"{algorithm} can be made on none of {FABRICS}")


def pages() -> dict[str, str]:
    """The page, in Markdown, and its pictures, as SVG, by their place in docs/."""
    text, pictures = INTRO, {}
    for algorithm in antiphon.algorithms():
        fabric, collective, schedule = shown(algorithm)
        file = f"{FOLDER}{algorithm.name}.svg"
        pictures[file] = str(antiphon.picture(fabric, schedule).svg)
        what = "" if collective == "all-reduce" else f" --collective {collective}"
        command = f"antiphon show {fabric} {algorithm.name}{what} --bytes {BYTES} --picture {algorithm.name}.svg"
        text += (
            f"## {algorithm.name}\n\n{algorithm.summary[:1].upper()}{algorithm.summary[1:]}.\n\n"
            f"![{algorithm.name}: {collective} on {fabric}]({file}){{ .picture }}\n\n"
            f"```console\n$ {command}\n```\n\n"
        )
    return {"gallery.md": text} | pictures
