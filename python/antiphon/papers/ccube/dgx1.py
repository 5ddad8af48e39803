"""What all figures of C-Cube are about: its DGX-1, and the systems that it compares."""

from __future__ import annotations

from functools import partial

from antiphon.repro.data import Data
from antiphon.repro.figure import stated_row

DATA = Data("ccube", tolerance=0.05)
row = partial(stated_row, DATA)
"""A number beside what the paper states, by ``key``, and a closed form for the same."""
KIB, MIB = 1 << 10, 1 << 20
"""The paper's kB and MB: 256 chunks of 256 kB make 64 MB."""
NVLINK_GB = 25.0
"""GB/s of one NVLink in each direction; a GPU has six."""
SYSTEM = "dgx1"
LATENCY_NS = 12_400
"""Of every step on this system, the only fit: with it C1 is 1.75 times as fast as B at 64 MB, by Eqs. 5 and 7."""
CHANNELS = 4
"""NVLinks of a GPU that the ring has, with as much bandwidth in all as two trees use."""
HEIGHT = 3
"""Edges from the root of an 8-node tree to the farthest leaf."""
TREES = 2
RANKS = 8
SYSTEMS = B, C1, C2, RING, CC = DATA.named("B", "C1", "C2", "R", "CC")
"""In the order of the paper's legends."""
EXACT = 0.0
"""Tolerance of what is counted."""
