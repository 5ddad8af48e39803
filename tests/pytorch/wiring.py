"""Which hosts are joined by which cables, and routes over several of them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

PASSES = 4
"""How often ways are chosen, each time knowing all others."""
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
    it, so that links carry about as much of an all-to-all."""
    hosts = hosts_of(edges)
    at: dict[int, list[tuple[int, int]]] = {host: [] for host in range(hosts)}
    for cable, (first, second) in enumerate(edges):
        at[first].append((cable, second))
        at[second].append((cable, first))
    far = [_distances(at, destination) for destination in range(hosts)]
    load: Counter[tuple[int, int]] = Counter()
    trees: list[dict[int, int]] = [{} for _ in range(hosts)]
    for destination in list(range(hosts)) * PASSES:
        for way, taken in _ways(edges, trees[destination], far[destination]).items():
            load[way] -= taken
        tree: dict[int, int] = {}
        ways = dict.fromkeys(range(hosts), 1)
        for host in sorted(far[destination], key=lambda each: -far[destination][each]):
            nearer = [each for each in at[host] if far[destination][each[1]] < far[destination][host]]
            if nearer:
                tree[host], other = min(nearer, key=lambda each: load[each[0], host])
                load[tree[host], host] += ways[host]
                ways[other] += ways[host]
        trees[destination] = tree
    return {(host, destination): cable for destination, tree in enumerate(trees) for host, cable in tree.items()}


def _distances(at: dict[int, list[tuple[int, int]]], destination: int) -> dict[int, int]:
    """Cables from each host to one."""
    far, queue = {destination: 0}, deque([destination])
    while queue:
        host = queue.popleft()
        for _, other in at[host]:
            if other not in far:
                far[other] = far[host] + 1
                queue.append(other)
    return far


def _ways(edges: Edges, tree: dict[int, int], far: dict[int, int]) -> Counter[tuple[int, int]]:
    """How many hosts send to one destination over each cable, by who sends."""
    ways = Counter(range(len(far)))
    load: Counter[tuple[int, int]] = Counter()
    for host in sorted(tree, key=lambda each: -far[each]):
        load[tree[host], host] = ways[host]
        ways[sum(edges[tree[host]]) - host] += ways[host]
    return load
