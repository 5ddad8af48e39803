"""An algorithm of one's own: a ring AllReduce, proven, timed and set beside the built-in ones."""

import antiphon


def ring(fabric: antiphon.Fabric, size: int | str) -> antiphon.Schedule:
    """Every rank passes shards to the next rank: first adding them up, then handing out the sums."""
    ranks = fabric.ranks
    builder = antiphon.ScheduleBuilder(fabric, "all-reduce", size, name="my-ring")
    shards = [builder.lane(*antiphon.shard(size, ranks, index)) for index in range(ranks)]
    builder.phase("reduce-scatter")
    for step in range(ranks - 1):
        for rank in range(ranks):
            builder.reduce(rank, (rank + 1) % ranks, shards[(rank - step) % ranks], step)
    builder.phase("all-gather")
    for step in range(ranks - 1):
        for rank in range(ranks):
            builder.copy(rank, (rank + 1) % ranks, shards[(rank + 1 - step) % ranks], step)
    return builder.finish()


def main() -> None:
    fabric = antiphon.Fabric("ring:8")
    schedule = ring(fabric, "16MiB")
    print(antiphon.verify(fabric, schedule))  # raises with a counter-example if it were wrong
    mine = antiphon.run(fabric, schedule)
    print(f"my-ring: {mine.time_ns:,.0f} ns, {mine.efficiency:.1%} of the lower bound")
    for run in antiphon.compare(fabric, bytes="16MiB").runs:
        print(f"{run.algorithm}: {run.time_ns:,.0f} ns, {run.efficiency:.1%}")


if __name__ == "__main__":
    main()
