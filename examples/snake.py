"""A plugin: antiphon compare mesh:4x4 --plugin examples/snake.py"""

import antiphon


@antiphon.register("snake", collectives=["all-reduce"])
def snake(
    fabric: antiphon.Fabric, collective: str, size: int, system: antiphon.System, ways: int = 2
) -> antiphon.Schedule:
    """Rings along a snake through the rows of a grid, one each way.

    ways: rings, 1 or 2, that share the data.
    """
    if len(fabric.dimensions["size"]) != 2:
        raise antiphon.NotApplicable("it has no rows and columns")
    if ways not in (1, 2):
        raise antiphon.NotApplicable("its ways are 1 or 2")
    rows, columns = fabric.dimensions["size"]
    path = [fabric.rank(row, at if row % 2 == 0 else columns - 1 - at) for row in range(rows) for at in range(columns)]
    builder = antiphon.ScheduleBuilder(fabric, collective, size)
    for way, ring in enumerate([path, path[::-1]][:ways]):
        start, half = antiphon.shard(size, ways, way)
        shards = [antiphon.shard(half, len(ring), part) for part in range(len(ring))]
        lanes = [builder.lane(start + offset, length) for offset, length in shards]
        for step in range(2 * len(ring) - 2):  # sums are made, then handed out
            send = builder.reduce if step < len(ring) - 1 else builder.copy
            for at, rank in enumerate(ring):
                send(rank, ring[(at + 1) % len(ring)], lanes[(at - step) % len(ring)], step)
    return builder.finish()


if __name__ == "__main__":
    print(antiphon.compare("mesh:4x4", bytes="1MiB", algorithms="snake,snake:ways=1,ring"))
