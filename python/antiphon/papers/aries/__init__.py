"""ARIES: Accelerating Distributed Training in Chiplet-based Systems via Flexible Interconnects (DATE 2024)."""

from antiphon.papers.aries import beyond, tables, throughput, training
from antiphon.papers.aries.designs import DATA
from antiphon.repro.figure import Paper

PAPER = Paper(
    DATA,
    (
        tables.TABLE_1,
        tables.EQ_1,
        tables.TABLE_2,
        throughput.FIG_9,
        training.FIG_10,
        training.FIG_11,
        tables.AREA,
        beyond.BEYOND,
        beyond.FLITS,
    ),
    throughput.CHECKS | training.CHECKS,
)
