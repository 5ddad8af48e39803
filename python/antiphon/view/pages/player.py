"""What the player of a page plays: a fabric whose links light up, step by step or over time, and bars over time.

This module packs the data; ``templates/player.js`` plays it and ``templates/player.html`` has the controls.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon._core import Fabric, Schedule
from antiphon.collective.result import Run
from antiphon.plot import COLOURS
from antiphon.results import Playback, RailsRun
from antiphon.view.drawing.drawing import HEAT_LINKS, HEAT_NODES
from antiphon.view.pages.page import time_axis

Bytes = NDArray[np.uint8]
"""Shape (shapes, windows): a row a link, or a node of a heat map."""

MOST_BYTES = 500_000
"""Of the data of all runs on a page."""
RICHNESS = ((1, 2048), (2, 1024), (4, 512), (4, 128))
"""What is tried until a run fits: windows that become one, and messages that are followed."""
LEVELS = 15
"""Steps of brightness, besides idle."""
NO_LANE = 255
MOST_STEPS = 128
"""More steps are shown several at a time."""
GANTT_WIDTH, GANTT_ROW = 820.0, 30.0
"""Pixels."""
NARROWEST = 0.6
"""Bars of a Gantt chart are drawn at least so many pixels wide."""

Block = tuple[float, float, str, int]
"""Start and finish in nanoseconds, what it is, and the number of its colour."""


@dataclass(frozen=True)
class _Frames:
    """What shapes do in each window: ``levels`` from 0 (idle) to LEVELS, ``groups`` of lanes (NO_LANE: unknown), and
    the ``shares`` of what each rank receives that it has, in 255ths. A ``window`` is in nanoseconds, or steps."""

    levels: Bytes
    groups: Bytes
    shares: Bytes
    window: float

    def packed(self) -> str:
        # What ranks have only grows, by little: differences are shorter.
        steps = np.diff(self.shares, axis=1, prepend=np.uint8(0)).astype(np.uint8)
        return _packed(b"".join(part.tobytes() for part in (self.levels, self.groups, steps)))


def played(fabric: Fabric, runs: Sequence[Run]) -> dict[str, Any] | None:
    """The data of runs for the player, in their order; None if none was recorded (``playback=True``).

    Together they take at most about MOST_BYTES: where that is little, windows become longer and fewer messages are
    followed; a run that still does not fit is left out, and the page says so.
    """
    if all(run.result.playback is None for run in runs):
        return None
    left, packed = MOST_BYTES, []
    for number, run in enumerate(runs):
        found = None
        if run.result.playback is not None:
            found = _fitting(fabric, run, run.result.playback, left // (len(runs) - number))
        left -= len(found["frames"]) + len(found["messages"]) if found else 0
        packed.append(found)
    return _player(fabric, packed, "time")


def _fitting(fabric: Fabric, run: Run, playback: Playback, most: int) -> dict[str, Any] | None:
    frames = _frames(fabric, playback, run.time_ns)
    for merged, messages in RICHNESS:
        few = _merged(frames, merged)
        found = {
            "name": run.label,
            "length": run.time_ns,
            "window": few.window,
            "windows": few.levels.shape[1],
            "lanes": int(playback.lanes_a_group),
            "phases": [[row["name"], row["start_ns"], row["finish_ns"]] for row in playback.phases.rows()],
            "frames": few.packed(),
            "messages": _packed_messages(_followed(fabric, playback, messages)),
        }
        if len(found["frames"]) + len(found["messages"]) <= most:
            return found
    return None


def steps_of(fabric: Fabric, schedule: Schedule) -> dict[str, Any] | None:
    """The first chunk of every lane of a schedule for the player, phase after phase; None if nothing is sent."""
    transfers, payloads, routes = schedule.transfers, schedule.payloads, schedule.routes
    if not len(transfers["from"]):
        return None
    names = [name for name, _ in schedule.stats(fabric).phases]
    phase, step = transfers["phase"].astype(np.int64), transfers["step"].astype(np.int64)
    lengths = np.zeros(len(names), np.int64)
    np.maximum.at(lengths, phase, step + 1)
    ends = np.cumsum(lengths)
    at, steps = step + (ends - lengths)[phase], int(ends[-1])
    merged = -(-steps // MOST_STEPS)
    shape = (len(fabric.links["from"]), -(-steps // merged))
    together = -(-len(schedule.lanes["offset"]) // NO_LANE)
    lane = np.full(len(phase), np.iinfo(np.int64).max)
    np.minimum.at(lane, payloads["transfer"], payloads["lane"].astype(np.int64))
    levels, groups = np.zeros(shape, np.uint8), np.full(shape, NO_LANE, np.uint8)
    place = routes["link"], at[routes["transfer"]] // merged
    levels[place], groups[place] = LEVELS, lane[routes["transfer"]] // together
    received = np.zeros((fabric.ranks, shape[1]))
    inside = transfers["to"] < fabric.ranks
    sizes = transfers["message_bytes"] * transfers["chunks"]
    np.add.at(received, (transfers["to"][inside], at[inside] // merged), sizes[inside])
    found = {
        "name": schedule.algorithm,
        "length": steps,
        "window": merged,
        "windows": shape[1],
        "lanes": together,
        "phases": [list(each) for each in zip(names, (ends - lengths).tolist(), ends.tolist(), strict=True)],
        "frames": _Frames(*_shown(fabric, levels, groups), _shares(received), merged).packed(),
        "messages": _packed_messages(_steps_followed(schedule, at)),
    }
    return _player(fabric, [found], "step")


def _steps_followed(schedule: Schedule, at: NDArray[np.int64]) -> list[Any]:
    """As ``_followed``, of the first chunk; ``at`` has the step of each transfer."""
    transfers, payloads, routes = schedule.transfers, schedule.payloads, schedule.routes
    ends = np.cumsum(np.bincount(routes["transfer"], minlength=len(at)))
    links = np.split(routes["link"], ends[:-1])
    lanes: dict[int, list[Any]] = {}
    order = np.argsort(at[payloads["transfer"]], kind="stable")
    for transfer, lane in zip(payloads["transfer"][order].tolist(), payloads["lane"][order].tolist(), strict=True):
        message = [int(transfers[name][transfer]) for name in ("from", "to", "reduces")]
        first = int(at[transfer])
        lanes.setdefault(lane, []).append([*message, first, first + 1, links[transfer].tolist()])
    return _fewest([[lane, 0, lanes[lane]] for lane in sorted(lanes)], RICHNESS[0][1])


def _player(fabric: Fabric, runs: list[dict[str, Any] | None], unit: str) -> dict[str, Any]:
    ranks = np.asarray(fabric.nodes["rank"])
    return {
        "unit": unit,
        "heat": _is_heat(fabric),
        "shapes": len(ranks) if _is_heat(fabric) else len(fabric.links["from"]),
        "levels": LEVELS,
        "colours": len(COLOURS),
        "node_of_rank": np.argsort(np.where(ranks < 0, len(ranks), ranks), kind="stable")[: fabric.ranks].tolist(),
        "runs": runs,
    }


def _is_heat(fabric: Fabric) -> bool:
    return len(fabric.nodes["rank"]) >= HEAT_NODES or len(fabric.links["from"]) > HEAT_LINKS


def _frames(fabric: Fabric, playback: Playback, time_ns: float) -> _Frames:
    table, shape = playback.links, (len(fabric.links["from"]), playback.windows)
    lengths = np.minimum(playback.window_ns, time_ns - playback.window_ns * np.arange(playback.windows))
    share = np.zeros(shape)
    share[table["link"], table["window"]] = table["busy_ns"] / lengths[table["window"]]
    groups = np.full(shape, NO_LANE, np.uint8)
    group = np.where(table["lane"] < 0, NO_LANE, table["lane"] // playback.lanes_a_group)
    groups[table["link"], table["window"]] = group
    shares = np.zeros((fabric.ranks, playback.windows), np.uint8)
    ranks = playback.ranks
    shares[ranks["rank"], ranks["window"]] = np.floor(255 * ranks["share"])
    levels = np.ceil(np.clip(share, 0, 1) * LEVELS - 1e-6).astype(np.uint8)
    levels[share > 0] = np.maximum(levels[share > 0], 1)
    return _Frames(*_shown(fabric, levels, groups), shares, playback.window_ns)


def _shown(fabric: Fabric, levels: Bytes, groups: Bytes) -> tuple[Bytes, Bytes]:
    """Of links, or of the nodes of a heat map: the mean of the links that leave each, and the lane of the busiest."""
    if not _is_heat(fabric):
        return levels, groups
    count, out = len(fabric.nodes["rank"]), np.asarray(fabric.links["from"])
    total = np.zeros((count, levels.shape[1]))
    np.add.at(total, out, levels)
    mean = np.ceil(total / np.maximum(np.bincount(out, minlength=count), 1)[:, None]).astype(np.uint8)
    of = np.full((count, levels.shape[1]), NO_LANE, np.uint8)
    most = np.zeros_like(mean)
    for link, node in enumerate(out):
        more = levels[link] > most[node]
        of[node][more], most[node][more] = groups[link][more], levels[link][more]
    return mean, of


def _shares(received: NDArray[np.float64]) -> Bytes:
    """Bytes of ranks by window as shares of all so far, in 255ths; ranks that receive nothing have all."""
    until = np.cumsum(received, axis=1)
    total = until[:, -1:]
    return np.asarray(np.floor(255 * np.divide(until, total, out=np.ones_like(until), where=total > 0)), np.uint8)


def _merged(frames: _Frames, by: int) -> _Frames:
    """So many windows as one: the mean, rounded up, and the lane of the busiest."""
    if by == 1:
        return frames
    shapes, windows = frames.levels.shape
    after = -(-windows // by)
    pad = ((0, 0), (0, after * by - windows))
    levels = np.pad(frames.levels, pad).reshape(shapes, after, by)
    groups = np.pad(frames.groups, pad, constant_values=NO_LANE).reshape(shapes, after, by)
    busiest = levels.argmax(axis=2)[:, :, None]
    last = np.minimum(np.arange(1, after + 1) * by, windows) - 1
    mean = np.ceil(levels.sum(axis=2) / by).astype(np.uint8)
    return _Frames(mean, np.take_along_axis(groups, busiest, 2)[:, :, 0], frames.shares[:, last], frames.window * by)


def _followed(fabric: Fabric, playback: Playback, most: int) -> list[Any]:
    """Chunks with their messages, ``[lane, chunk, [from, to, adds, start, finish, links]]``: of as many lanes as fit,
    the first chunk before others."""
    routes: list[list[int]] = [[] for _ in range(playback.messages.height)]
    if not _is_heat(fabric):
        for message, link in zip(playback.hops["message"].tolist(), playback.hops["link"].tolist(), strict=True):
            routes[message].append(link)
    chunks: dict[tuple[int, int], list[Any]] = {}
    for row, route in zip(playback.messages.rows(), routes, strict=True):
        start = None if np.isnan(row["start_ns"]) else round(row["start_ns"], 1)
        message = [row["from"], row["to"], int(row["adds"]), start, round(row["finish_ns"], 1), route]
        chunks.setdefault((row["lane"], row["chunk"]), []).append(message)
    first_chunks_first = sorted(chunks, key=lambda each: (each[1] > 0, each))
    return sorted(_fewest([[*each, chunks[each]] for each in first_chunks_first], most), key=lambda each: each[:2])


def _fewest(chunks: list[list[Any]], most: int) -> list[list[Any]]:
    """The first of some chunks that have at most so many messages together, one at least."""
    totals = np.cumsum([len(messages) for _, _, messages in chunks])
    return chunks[: max(1, int(np.searchsorted(totals, most, side="right")))]


def _packed_messages(chunks: list[Any]) -> str:
    return _packed(json.dumps(chunks, separators=(",", ":")).encode())


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


# --- bars ---------------------------------------------------------------------------------------


def gantt(tracks: Mapping[str, Sequence[Block]], length_ns: float = 0.0) -> dict[str, Any]:
    """A chart of what happens when, a track for each name, for ``players.gantt``. Blocks that overlap lie in rows.

    It is ``length_ns`` long, or until the last block ends.
    """
    length_ns = max([length_ns, *(finish for blocks in tracks.values() for _, finish, _, _ in blocks)])
    axis = time_axis(length_ns or 1.0, GANTT_WIDTH)
    drawn, top = [], 0.0
    for name, blocks in tracks.items():
        free: list[float] = []
        placed = []
        for start, finish, text, colour in sorted(blocks):
            row = next((row for row, end in enumerate(free) if end <= start), len(free))
            free[row : row + 1] = [finish]
            placed.append((row, start, finish, text, colour % len(COLOURS)))
        height = (GANTT_ROW - 6) / max(len(free), 1)
        rows = [
            {
                "x": start * axis.pixels_per_unit,
                "y": top + 3 + row * height,
                "width": max((finish - start) * axis.pixels_per_unit, NARROWEST),
                "height": height,
                "text": text,
                "colour": colour,
            }
            for row, start, finish, text, colour in placed
        ]
        drawn.append({"name": name, "y": top, "blocks": rows})
        top += GANTT_ROW
    size = {"width": GANTT_WIDTH, "row": GANTT_ROW, "height": top}
    return {"axis": axis, "tracks": drawn, "length_ns": length_ns, **size}


def rails_gantt(run: RailsRun) -> dict[str, Any]:
    """When each dimension served which chunk, for ``players.gantt``."""
    names = run.dimensions["name"].tolist()
    tracks: dict[str, list[Block]] = {name: [] for name in names}
    for row in run.stages.rows():
        text = f"chunk {row['chunk']}, stage {row['stage'] + 1}"
        tracks[names[row["dimension"] - 1]].append((row["start_ns"], row["finish_ns"], text, row["chunk"]))
    return gantt(tracks, run.time_ns)
