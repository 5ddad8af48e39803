"""Which hosts are joined by which cables, and routes over several of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

Edges = Sequence[tuple[int, int]]
"""Pairs of hosts, a pair for each cable; parallel cables are pairs that are there twice."""


def ring(hosts: int, interfaces: int = 1) -> Edges:
    """Hosts in a circle, of three a triangle; a cable may show as several interfaces."""
    return [(host, (host + 1) % hosts) for host in range(hosts) for _ in range(interfaces)]


def line(hosts: int) -> Edges:
    """A ring that is open."""
    return [(host, host + 1) for host in range(hosts - 1)]


def mesh(rows: int, columns: int) -> Edges:
    """A grid, numbered row by row."""
    places = [(row, column) for row in range(rows) for column in range(columns)]
    right = [(row * columns + column, row * columns + column + 1) for row, column in places if column + 1 < columns]
    down = [(row * columns + column, (row + 1) * columns + column) for row, column in places if row + 1 < rows]
    return right + down


def star_with_leaf() -> Edges:
    """Host 0 joined to three others, of which the last relays for a leaf."""
    return [(0, 1), (0, 2), (0, 3), (3, 4)]


def hosts_of(edges: Edges) -> int:
    """How many hosts there are."""
    return 1 + max(max(edge) for edge in edges)


def next_hops(edges: Edges) -> dict[tuple[int, int], int]:
    """Of each host and destination, the number of the cable on a shortest way; of equal ones that with fewer ways over
    it so far, so that links carry about as much of an all-to-all."""
    hosts = hosts_of(edges)
    at: dict[int, list[tuple[int, int]]] = {host: [] for host in range(hosts)}
    for cable, (first, second) in enumerate(edges):
        at[first].append((cable, second))
        at[second].append((cable, first))
    load: dict[tuple[int, int], int] = {}
    found = {}
    for destination in range(hosts):
        far = {destination: 0}
        queue = deque([destination])
        while queue:
            host = queue.popleft()
            for _, other in at[host]:
                if other not in far:
                    far[other] = far[host] + 1
                    queue.append(other)
        ways = dict.fromkeys(far, 1)
        for host in sorted(far, key=lambda each: -far[each]):
            nearer = [(load.get((cable, host), 0), cable, other) for cable, other in at[host] if far[other] < far[host]]
            if nearer:
                _, cable, other = min(nearer)
                found[host, destination] = cable
                load[cable, host] = load.get((cable, host), 0) + ways[host]
                ways[other] += ways[host]
    return found
