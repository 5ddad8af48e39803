"""What a collective should take on a GPU cluster, and whether a log of nccl-tests is good."""

from __future__ import annotations

import os
import re
import statistics
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from antiphon._core import System, format_bytes, parse_bytes
from antiphon.arguments import expect as of_type
from antiphon.arguments import shown
from antiphon.collective.tuning import size_range
from antiphon.errors import AntiphonError
from antiphon.expectation.bounds import cuts_us
from antiphon.expectation.causes import ASYMPTOTE, causes_of
from antiphon.expectation.fitting import of_system
from antiphon.expectation.logs import LoggedRun, read_log
from antiphon.expectation.reached import expected
from antiphon.expectation.result import Expectation
from antiphon.given import as_collective, as_system
from antiphon.library.cluster import Cluster
from antiphon.library.nccl import bus_factor
from antiphon.names import Collective
from antiphon.results import Table

LIBRARIES = ("nccl", "rccl", "none")
SIZES = "1KiB..8GiB"
MOST_SIZES = 4096
FLOOR_AT_MOST = 1 << 20
"""The smallest size of a log is its floor up to here: above, rates count."""
TOLERANCES = ((1 << 30, 1.15), (1 << 26, 1.25), (1 << 20, 1.8), (0, 2.5))
"""From these bytes on, measured over expected time above which a size is too slow: no less than the largest error
of the model on the healthy tables of docs/how-to/expect.md."""
LIMITED = 0.85
"""Share of the rate of the largest buffers from which links limit."""
LARGEST = 1 << 34
"""A buffer in which nothing but rates counts."""


class Measured(NamedTuple):
    """What a log says of one collective: its ranks, boxes, place, and the median time of each size."""

    run: LoggedRun
    place: str
    times_us: dict[int, float]


def expect(
    cluster: str,
    collective: Collective | str | None = None,
    sizes: str | Iterable[int | str] | None = None,
    *,
    log: str | os.PathLike[str] | None = None,
    library: str | None = None,
    system: System | str | None = None,
) -> Expectation:
    """Says what a collective should take on a GPU cluster, and whether what was measured is good.

    Rates are those of the cluster's preset; no graph is built, so any number of GPUs takes the same time.

    >>> found = expect("dgx-h100:1", sizes="1GiB")
    >>> [row] = found.rows.rows()
    >>> row["bound_us"] < row["expected_us"], row["algorithm"]
    (True, 'nvls')

    Args:
        cluster: a preset of GPU boxes, as of fabrics: dgx-h100:4, mi300x:1, gb200-nvl72:2.
        collective: what is computed; None: what the log is of, else all-reduce.
        sizes: as nccl-tests counts them, such as "1KiB..8GiB" (doubling) or a list; None: those of the log, else 1KiB
            to 8GiB.
        log: what nccl-tests or rccl-tests printed, or the JSON that they wrote.
        library: ``nccl``, ``rccl``, or ``none`` for plain links; None: what runs on these GPUs.
        system: one with protocols, such as h100-nccl or a file of --fit, in place of a library.

    Raises:
        AntiphonError: ``bad-file`` for the log, ``unknown-name`` for the cluster or library, ``bad-size``,
            ``not-applicable`` for a collective that is not modelled there.
    """
    of_type("cluster", cluster, str)
    of_type("log", log, str, os.PathLike, type(None))
    of_type("library", library, str, type(None))
    collective = None if collective is None else as_collective(collective)
    box = Cluster.parse(cluster)
    library = library or ("rccl" if box.gpu.startswith("mi") else "nccl" if box.gpus_per_box > 1 else "none")
    if library not in LIBRARIES:
        raise AntiphonError(f"no library {shown(library)}; known: {', '.join(LIBRARIES)}", "unknown-name")
    platform = None if system is None else as_system(system)
    notes: list[str] = []
    measured = None if log is None else _measured(os.fspath(log), collective, box, notes)
    name = measured.run.collective if measured else collective or "all-reduce"
    if measured:
        box = _of_log(box, measured.run, notes)
    times = measured.times_us if measured else {}
    floor_us = _floor(times, notes) if times else None

    def should(size: int) -> tuple[float, str, str]:
        if platform is not None:
            time_us, protocol = of_system(platform, box, name, size)
            return time_us, "", protocol
        found = expected(box, name, size, library, floor_us)
        return found.time_us, found.algorithm, found.protocol

    floor = should(1)[0]
    whole = LARGEST / should(LARGEST)[0]
    rows = []
    for size in _sizes(sizes) if sizes is not None or not times else times:
        (expected_us, algorithm, protocol), took = should(size), times.get(size)
        rows.append(
            {
                "bytes": size,
                "bound_us": max(cuts_us(box, name, size).values()),
                "expected_us": expected_us,
                "algorithm": algorithm,
                "protocol": protocol,
                "limit": _limit(box, name, size, floor, expected_us),
                "measured_us": took,
                "share": expected_us / took if took else None,
                "verdict": _verdict(size, took, expected_us, floor, whole),
            }
        )
    sizes_shown = {row["bytes"] for row in rows}
    shown_us = {size: took for size, took in times.items() if size in sizes_shown}
    # Faults are those of a library's model.
    causes = causes_of(box, name, library, floor_us, shown_us) if shown_us and platform is None else []
    if times and not shown_us:
        notes.append("the log has none of these sizes")
    if measured and measured.run.wrong:
        notes.insert(0, f"{measured.run.wrong} rows say that results were wrong: mend that before any speed")
    if shown_us and max(shown_us) < ASYMPTOTE:
        notes.append(f"no size of {format_bytes(ASYMPTOTE)} or more was measured: nothing is said of causes")
    return Expectation(
        cluster=box.name,
        boxes=box.boxes,
        ranks=box.ranks,
        collective=name,
        library=library if platform is None else platform.name,
        bus_factor=bus_factor(name, box.ranks),
        floor_us=floor_us or floor,
        floor_from="log" if floor_us else "library" if platform is None else "system",
        place=measured.place if measured else "",
        rows=Table.of_rows(rows),
        causes=Table({key: [each[key] for each in causes] for key in ("fault", "expected_us")}),
        notes=notes,
    )


def _floor(times_us: dict[int, float], notes: list[str]) -> float | None:
    """The time of a log's smallest size, if launching is most of it."""
    smallest = min(times_us)
    if smallest <= FLOOR_AT_MOST:
        return times_us[smallest]
    large = f"its smallest size is {format_bytes(smallest)}; measure from 1 KiB on for yours"
    notes.append(f"the launch floor is the library's, not the log's: {large}")
    return None


def _sizes(sizes: str | Iterable[int | str] | None) -> list[int]:
    found = size_range(SIZES if sizes is None else sizes) if sizes is None or isinstance(sizes, str) else None
    if found is None:
        of_type("sizes", sizes, Iterable)
        found = [parse_bytes(size) for size in sizes or ()]
    if not 1 <= len(found) <= MOST_SIZES or not all(found):
        raise AntiphonError(f"sizes: give 1 to {MOST_SIZES:,} sizes above 0, such as {SIZES}", "bad-size")
    return list(dict.fromkeys(found))


def _measured(path: str, collective: str | None, box: Cluster, notes: list[str]) -> Measured:
    """The runs of a log that are of one collective, on as many GPUs as the cluster has if there are such."""
    runs = read_log(path)
    named = list(dict.fromkeys(run.collective for run in runs))
    if collective is None and len(named) > 1:
        raise AntiphonError(f"{path}: has runs of {', '.join(named)}; say which: --collective {named[0]}", "bad-spec")
    wanted = collective or named[0] or "all-reduce"
    if wanted not in named and "" not in named:
        raise AntiphonError(f"{path}: has runs of {', '.join(named)}, not of {wanted}", "not-applicable")
    runs = [run for run in runs if run.collective in (wanted, "")]
    if "" in named:
        notes.append(f"the log does not name its program: taken as {wanted} (--collective says otherwise)")
    ranks = [run.ranks for run in runs]
    runs = [run for run in runs if run.ranks == (box.ranks if box.ranks in ranks else ranks[0])]
    if len(set(ranks)) > 1:
        notes.append(
            f"the log has runs on {', '.join(map(str, sorted(set(ranks))))} GPUs; of {runs[0].ranks} are these"
        )
    rows = list(chain.from_iterable(run.rows for run in runs))
    place = "in place" if all(row.in_place_us for row in rows) else "out of place"
    times: dict[int, list[float]] = {}
    for row in rows:
        time = row.in_place_us if place == "in place" else row.out_of_place_us
        times.setdefault(row.bytes, []).append(time or row.us)
    if len(times) > MOST_SIZES:
        raise AntiphonError(f"{path}: has {len(times):,} sizes; {MOST_SIZES:,} at most", "too-large")
    run = runs[0]
    run.collective = wanted
    _check_factor(path, run, wanted)
    return Measured(run, place, {size: statistics.median(times[size]) for size in sorted(times)})


def _check_factor(path: str, run: LoggedRun, collective: str) -> None:
    """Refuses a log whose bandwidths are of another collective, or of one GPU."""
    if run.ranks == 1:
        raise AntiphonError(
            f"{path}: every rank in it is rank 0: nccl-tests was built without MPI=1, and each process ran alone",
            "bad-file",
        )
    factor = next((row.bus_factor for row in reversed(run.rows) if row.bus_factor), 0.0)
    if factor and run.ranks > 1 and abs(factor / bus_factor(collective, run.ranks) - 1) > 0.02:
        wrong = f"busbw is {factor:.3f} of algbw, of {collective} on {run.ranks} GPUs it is"
        raise AntiphonError(
            f"{path}: {wrong} {bus_factor(collective, run.ranks):.3f}; say which --collective", "bad-file"
        )


def _of_log(box: Cluster, run: LoggedRun, notes: list[str]) -> Cluster:
    """The part of a cluster that a log is of; notes what does not fit."""
    if run.device and _generation(run.device) not in ("", box.gpu):
        notes.append(f"the log is of {run.device}, {box.name} has {box.gpu}: not the same machine")
    if not run.ranks:
        notes.append(f"the log does not say how many GPUs: taken as all {box.ranks:,} of {box.name}")
        return box
    boxes = len(run.hosts)
    if not boxes or box.gpus_per_box > 8:  # a rack has several hosts
        boxes = -(-run.ranks // box.gpus_per_box)
    if (run.ranks, boxes) == (box.ranks, box.boxes):
        return box
    hosts = len(run.hosts) or boxes
    where = f"{run.ranks} GPUs on {hosts} host{'s' * (hosts > 1)}"
    if run.ranks % boxes == 0 and boxes <= box.boxes and run.ranks // boxes <= box.gpus_per_box:
        notes.append(f"the log is of {where}: expected of as many of {box.name}")
        return box.group(run.ranks // boxes, boxes)
    notes.append(f"the log is of {where}, {box.name} has {box.ranks:,} on {box.boxes:,}: not the same machine")
    return box


def _generation(device: str) -> str:
    """The generation of a GPU by the name that its driver gives; empty if that says nothing."""
    found = re.search(r"\b(gb200|b200|h[128]00|a100|v100|mi300x|mi250)", device.lower())
    return found[1] if found else ""


def _limit(box: Cluster, collective: str, size: int, floor_us: float, expected_us: float) -> str:
    """What most of the expected time is: the launch, or the link that is full."""
    if floor_us >= expected_us / 2:
        return "launch"
    cuts = cuts_us(box, collective, size, raw=False)
    link = max(cuts, key=lambda name: cuts[name])
    if box.gpus_per_box == 1:
        return "link"
    return ("xGMI" if box.gpu.startswith("mi") else "NVLink") if link == "gpu" else link


def _verdict(size: int, took_us: float | None, expected_us: float, floor_us: float, whole: float) -> str:
    """What is said of a size; ``whole`` is the expected rate of the largest buffers, bytes a us."""
    if took_us and took_us > expected_us * next(most for least, most in TOLERANCES if size >= least):
        return "too slow"
    time_us = took_us or expected_us
    if floor_us >= time_us / 2:
        return "launch floor"
    return "link-limited" if size / time_us >= LIMITED * whole else "ramp"
