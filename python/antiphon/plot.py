"""Charts of results, by matplotlib (the extra ``plots``)."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from antiphon.errors import AntiphonError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Points = tuple[Sequence[float], Sequence[float]]
    """Positions along x and y."""
    Block = tuple[float, float, str]
    """From, how long, and what it is."""

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c8c8c")
"""Okabe and Ito's colours, which the colour-blind can tell apart."""
DASHES = ("-", "--", ":")
"""Line styles; with the colours they tell 21 lines apart."""
WIDTH, HEIGHT = 8.0, 3.6
"""Inches."""
ROW = 0.3
"""Inches of a bar or track."""
SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana"],  # comes with matplotlib; is as wide where there is no DejaVu
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a94a3",
    "axes.labelcolor": "#1b2230",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e6ec",
    "xtick.color": "#5b6678",
    "ytick.color": "#5b6678",
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "antiphon",  # the same input gives the same file
    "svg.fonttype": "none",  # text stays text, a third of the size
}


def require() -> None:
    """Finds out before the work whether there is something to draw with.

    Raises:
        AntiphonError: ``missing-extra`` saying how to install it.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        message = "the plots need matplotlib; install it with: pip install 'antiphon[plots]'"
        raise AntiphonError(message, "missing-extra") from None


def svg(figure: Figure) -> str:
    """A chart as SVG; the same chart gives the same text. Hundredths of a point are enough, and a quarter shorter."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context(SETTINGS):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return re.sub(r"\b\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", text.getvalue())


def bars(title: str, times_ns: Mapping[str, float], bound_ns: float | None = None) -> Figure:
    """A bar for each time, the first on top, and a line where the lower bound is."""
    figure, axes = _new(title, 1.1 + ROW * len(times_ns))
    axes.barh(range(len(times_ns)), [time * 1e-9 for time in times_ns.values()], 0.7, color=COLOURS[0])
    axes.set_yticks(range(len(times_ns)), list(times_ns))
    axes.set_ylim(len(times_ns) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    _seconds(axes)
    if bound_ns:
        axes.axvline(bound_ns * 1e-9, color=COLOURS[3], linestyle="--", label="lower bound")
        figure.legend(loc="outside upper right")
    return figure


def lines(title: str, of: Mapping[str, Points], x_label: str, y_label: str, *, sizes: bool = False) -> Figure:
    """A line for each name; x is time in nanoseconds, or, with ``sizes``, bytes on a logarithmic axis, like y."""
    figure, axes = _new(title, HEIGHT)
    for number, (name, (xs, ys)) in enumerate(of.items()):
        look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)]}
        look["linestyle"] = DASHES[number // len(COLOURS) % len(DASHES)]
        axes.plot(xs if sizes else [x * 1e-9 for x in xs], ys, label=name, **look)
    axes.set_ylabel(y_label)
    if sizes:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(_engineering("B"))
        axes.yaxis.set_major_formatter(_engineering("s"))
        axes.set_xlabel(x_label)
    else:
        axes.set_ylim(0, None)
        _seconds(axes)
    if len(of) > 1:
        figure.legend(loc="outside right upper")
    return figure


def spans(title: str, tracks: Mapping[str, Sequence[Block]]) -> Figure:
    """What happens when: a track for each name, the first on top, with its blocks in nanoseconds."""
    figure, axes = _new(title, 1.2 + ROW * len(tracks))
    kinds = list(dict.fromkeys(kind for blocks in tracks.values() for _start, _length, kind in blocks))
    for track, blocks in enumerate(tracks.values()):
        for number, kind in enumerate(kinds):
            parts = [(start * 1e-9, length * 1e-9) for start, length, each in blocks if each == kind]
            axes.broken_barh(parts, (track - 0.35, 0.7), color=COLOURS[number % len(COLOURS)])
    axes.set_yticks(range(len(tracks)), list(tracks))
    axes.set_ylim(len(tracks) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    _seconds(axes)
    if len(kinds) > 1:
        from matplotlib.patches import Patch

        patches = [Patch(color=COLOURS[number % len(COLOURS)], label=kind) for number, kind in enumerate(kinds)]
        figure.legend(handles=patches, loc="outside right upper")
    return figure


def _new(title: str, height: float) -> tuple[Figure, Axes]:
    require()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title, loc="left")
    vars(figure)["_repr_svg_"] = lambda: svg(figure)  # for notebooks, which otherwise need pyplot
    return figure, axes


def _seconds(axes: Axes) -> None:
    axes.xaxis.set_major_formatter(_engineering("s"))
    axes.set_xlim(0, None)
    axes.set_xlabel("time")


def _engineering(unit: str) -> Any:
    from matplotlib.ticker import EngFormatter

    return EngFormatter(unit)
