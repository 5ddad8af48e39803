"""What a schedule does, as pictures: the trees, rings and exchanges of its lanes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from antiphon._core import Fabric, Schedule

MOST_ROOTS = 3
"""Of more roots none is named."""


@dataclass(frozen=True)
class Pattern:
    """Lanes that use the same links.

    Attributes:
        word: ``ring``, ``chain``, ``tree`` or ``exchange``.
        lanes: their numbers.
        share: of the data that they carry.
        roots: ranks at which sums end, or copies begin.
        adds, copies: links over which they go to be added, and to be copied.
        height: most transfers one after the other of a contribution and of a result.
    """

    word: str
    lanes: tuple[int, ...]
    share: float
    roots: tuple[int, ...]
    adds: frozenset[int]
    copies: frozenset[int]
    height: tuple[int, int]

    @property
    def text(self) -> str:
        """In a line: what it is, of how much of the data, where its root is."""
        count = len(self.lanes)
        lanes = f"lane {self.lanes[0]}" if count == 1 else f"{count:,} lanes"
        root = f", root {' and '.join(map(str, self.roots))}" if self.roots else ""
        up, down = self.height
        steps = ", ".join(f"{n} {way}" for n, way in ((up, "up"), (down, "down")) if n)
        return f"{self.word}, {lanes}, {self.share:.0%} of the data{root}" + (
            f", {steps}" if self.word == "tree" else ""
        )


def patterns(fabric: Fabric, schedule: Schedule) -> list[Pattern]:
    """The patterns of a schedule, those of most data first."""
    transfers, payloads, routes = schedule.transfers, schedule.payloads, schedule.routes
    links_of: dict[int, list[int]] = defaultdict(list)
    for transfer, link in zip(routes["transfer"].tolist(), routes["link"].tolist(), strict=True):
        links_of[transfer].append(link)
    moves: dict[int, list[int]] = defaultdict(list)
    for transfer, lane in zip(payloads["transfer"].tolist(), payloads["lane"].tolist(), strict=True):
        moves[lane].append(transfer)
    groups: dict[frozenset[int], list[int]] = defaultdict(list)
    for lane, own in moves.items():
        groups[frozenset(link for transfer in own for link in links_of[transfer])].append(lane)
    sizes, reduces = schedule.lanes["bytes"].astype(float), transfers["reduces"]
    ends = list(zip(transfers["from"].tolist(), transfers["to"].tolist(), strict=True))
    heights = schedule.stats(fabric).lanes
    found = []
    for lanes in groups.values():
        own = [transfer for lane in lanes for transfer in moves[lane]]
        adds = frozenset(link for transfer in own if reduces[transfer] for link in links_of[transfer])
        copies = frozenset(link for transfer in own if not reduces[transfer] for link in links_of[transfer])
        shapes = Counter(
            _word(*([ends[t] for t in moves[lane] if bool(reduces[t]) is kind] for kind in (True, False)))
            for lane in lanes
        )
        roots = sorted({root for lane in lanes for root in _roots(ends, reduces.tolist(), moves[lane])})
        height = int(heights["reduce_height"][lanes].max()), int(heights["copy_height"][lanes].max())
        share = float(sizes[lanes].sum() / max(sizes.sum(), 1.0))
        word, _ = shapes.most_common(1)[0]
        if word == "chain" and len(lanes) > 1 and _closed({ends[t] for t in own}):
            word = "ring"
        shown = tuple(roots) if len(roots) <= MOST_ROOTS and word != "ring" else ()
        found.append(Pattern(word, tuple(lanes), share, shown, adds, copies, height))
    return sorted(found, key=lambda each: (-each.share, each.lanes))


def _word(adding: list[tuple[int, int]], copying: list[tuple[int, int]]) -> str:
    """What the transfers of a lane are."""
    out, into = Counter(a for a, _ in adding), Counter(b for _, b in copying)
    if any(count > 1 for count in (*out.values(), *into.values())):
        return "exchange"
    fans = [*Counter(b for _, b in adding).values(), *Counter(a for a, _ in copying).values()]
    return "chain" if max(fans, default=0) <= 1 and len(adding) + len(copying) > 1 else "tree"


def _closed(edges: set[tuple[int, int]]) -> bool:
    """Whether edges are one ring, or rings."""
    out, into = Counter(a for a, _ in edges), Counter(b for _, b in edges)
    return set(out) == set(into) and set(out.values()) == set(into.values()) == {1}


def _roots(ends: list[tuple[int, int]], reduces: list[bool], own: Iterable[int]) -> set[int]:
    """Where sums of a lane end; if it only copies, where copies begin."""
    adding, copying = ([ends[t] for t in own if reduces[t] is kind] for kind in (True, False))
    if adding:
        return {b for _, b in adding} - {a for a, _ in adding}
    return {a for a, _ in copying} - {b for _, b in copying}


def classes_of(pattern: Pattern, links: int, colour: int) -> list[str]:
    """The classes of each link in the picture of a pattern."""
    classes = np.full(links, "dim", dtype=object)
    classes[list(pattern.copies - pattern.adds)] = f"t{colour} copies"
    classes[list(pattern.adds)] = f"t{colour}"
    return [str(each) for each in classes]
