"""What a page plays of a simulated collective."""

from __future__ import annotations

from antiphon.results.base import Result
from antiphon.results.record import record, says
from antiphon.results.table import Table


@record
class Playback(Result):
    """What links carried and ranks received over time, in equal windows, and the way of some chunks. Its size does not
    grow with the time of the run.

    >>> import antiphon
    >>> schedule = antiphon.build("ring:4", "ring", bytes="1MiB")
    >>> playback = antiphon.simulate("ring:4", schedule, playback=True).playback
    >>> playback.phases["name"].tolist()
    ['reduce-scatter', 'all-gather']
    """

    window_ns: float = says("length of a window.")
    windows: int = says("number of windows; the last one may end after the run.")
    lanes_a_group: int = says("lanes that follow each other and count as one in ``links``.")
    links: Table = says(
        "``link`` (index in the fabric), ``window``, ``busy_ns`` (time for which it transmitted), ``lane`` (the first"
        " of the group of lanes that it carried longest; -1 where the fidelity does not say); idle links are left out."
    )
    ranks: Table = says("``rank``, ``window``, ``share`` (0 to 1) of the bytes it receives that it has and has added.")
    phases: Table = says(
        "``name``, ``start_ns`` (the first message begins to be sent; at ``flit``, has come), ``finish_ns`` (the last"
        " is received and added)."
    )
    messages: Table = says(
        "of some chunks of the first lanes, in the order of time: ``lane``, ``chunk``, ``transfer``, ``phase``,"
        " ``from``, ``to`` (ranks; switches are numbered behind them), ``adds``, ``start_ns`` (begins to be sent; NaN"
        " where the fidelity does not say), ``finish_ns`` (received and added)."
    )
    hops: Table = says("the ``link``s of the route of each ``message`` (row of ``messages``), in order.")

    headline = "Playback: {0.windows} windows of {0.window_ns:,.1f} ns, {0.messages.height:,} messages followed"
