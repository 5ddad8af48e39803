"""ACE: Enabling Compute-Communication Overlap in Distributed Deep Learning Training Platforms (ISCA 2021)."""

from antiphon.papers.ace import allreduce, tables, training
from antiphon.papers.ace.runs import DATA
from antiphon.repro.figure import Paper

PAPER = Paper(
    DATA,
    (
        allreduce.FIG_4,
        allreduce.FIG_5,
        allreduce.FIG_6,
        tables.TABLES,
        tables.TABLE_4,
        allreduce.FIG_9A,
        training.FIG_9B,
        allreduce.VI_A,
        training.FIG_10,
        training.FIG_11,
        training.FIG_12,
    ),
    allreduce.CHECKS | tables.CHECKS | training.CHECKS,
)
