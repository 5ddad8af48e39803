"""Antiphon: collective communication on accelerator fabrics, proven, bounded and timed.

>>> import antiphon
>>> fabric = antiphon.Fabric("mesh:4x4")
>>> schedule = antiphon.build(fabric, "ring", bytes="1MiB")
>>> antiphon.verify(fabric, schedule).complete
True
>>> result = antiphon.simulate(fabric, schedule, system="tto")
>>> bound = antiphon.lower_bound(fabric, bytes="1MiB", system="tto")
>>> bound.time_ns <= result.time_ns
True
"""

import os

import lazy_loader

# The core's allocator would give freed memory back after 10 ms, and runs that are timed wait while they get it again.
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "1000")
# It would reserve a gigabyte of addresses at once, which limits of memory count.
os.environ.setdefault("MIMALLOC_ARENA_RESERVE", "64MiB")

# Names, in __init__.pyi, are imported when they are first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
