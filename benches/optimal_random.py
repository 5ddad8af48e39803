"""How near `optimal` is to the limit on random fabrics with switches and unequal rates; fails where it is too far.

Every third fabric has slow links, every third ranks that only forward. Times are of 1 GiB, system `ideal`, packets;
a share is that of the lower bound. `--seeds N` takes the first N fabrics only, `--seeds A-B` those
from A on and before B.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from statistics import mean
from typing import Any

import antiphon
from antiphon.parallel import in_parallel

SEEDS = 300
LEAST = 0.95
"""Share of the bound that every collective must reach on every fabric."""
WORST = 5
"""Fabrics named for every collective."""
COLLECTIVES = ("all-gather", "reduce-scatter", "all-reduce", "broadcast", "reduce", "all-to-all")


def fabric(seed: int) -> antiphon.Fabric:
    """4 to 24 ranks and up to a third as many switches: a tree of links both ways, and more links, some parallel and
    some one way, of 25 to 200 GB/s."""
    draw = random.Random(seed)
    ranks = draw.randint(4, 24)
    nodes: list[dict[str, Any]] = [{"name": f"gpu{rank}"} for rank in range(ranks)]
    nodes += [{"name": f"switch{switch}", "rank": False} for switch in range(draw.randint(0, ranks // 3))]
    draw.shuffle(nodes)
    links: list[dict[str, Any]] = []

    def join(a: int, b: int, both: bool) -> None:
        rate = 25 * draw.randint(1, 8)
        links.append({"from": nodes[a]["name"], "to": nodes[b]["name"], "rate_gb_per_s": rate, "both": both})

    for node in range(1, len(nodes)):
        join(draw.randrange(node), node, True)
    for _ in range(draw.randint(len(nodes) // 2, 2 * len(nodes))):
        a, b = draw.sample(range(len(nodes)), 2)
        join(a, b, draw.random() < 0.75)
    # Drawn last, so that what is above does not depend on them.
    for link in draw.sample(links, len(links) // 4 if seed % 3 == 1 else 0):
        link["rate_gb_per_s"] /= 5
    forwarders = [node for node in nodes if "rank" not in node]
    for node in draw.sample(forwarders, ranks // 4 if seed % 3 == 2 else 0):
        node["rank"] = False
    text = json.dumps({"schema": "antiphon-fabric/1", "nodes": nodes, "links": links})
    return antiphon.Fabric.from_json(text, f"random {seed}")


def shares(seed: int) -> dict[str, float]:
    """Share of the bound, by collective."""
    where = fabric(seed)
    found = {}
    for name in COLLECTIVES:
        root = seed % where.ranks if name in ("broadcast", "reduce") else 0
        schedule = antiphon.build(where, "optimal", name, "1GiB", "ideal", root)
        time_ns = antiphon.simulate(where, schedule, "ideal").time_ns
        found[name] = antiphon.lower_bound(where, name, "1GiB", "ideal", root).time_ns / time_ns
    return found


def main() -> int:
    """Prints the least and the mean share of every collective, and the fabrics that are worst."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default=str(SEEDS), help="how many, or from-to")
    first, _, end = parser.parse_args().seeds.rpartition("-")
    seeds = range(int(first or 0), int(end))
    done = []

    def work(seed: int) -> dict[str, float]:
        found = shares(seed)
        done.append(seed)
        print(f"\r{len(done)} of {len(seeds)} fabrics", end="", file=sys.stderr, flush=True)
        return found

    found = in_parallel(work, seeds)
    print(file=sys.stderr)
    low = 0
    for name in COLLECTIVES:
        ranked = sorted((each[name], seed) for seed, each in zip(seeds, found, strict=True))
        low += sum(share < LEAST for share, _ in ranked)
        worst = ", ".join(f"{share:.1%} (seed {seed})" for share, seed in ranked[:WORST])
        print(f"{name}: mean {mean(share for share, _ in ranked):.1%}, least {worst}")
    if low:
        print(f"{low} below {LEAST:.0%}")
    return int(low > 0)


if __name__ == "__main__":
    sys.exit(main())
