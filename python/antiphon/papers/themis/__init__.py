"""Themis: A Network Bandwidth-Aware Collective Scheduling Policy for Distributed Training (ISCA 2022)."""

from antiphon.papers.themis import allreduce, chunks, networks, training
from antiphon.papers.themis.networks import DATA
from antiphon.repro.figure import Paper

PAPER = Paper(
    DATA,
    (
        networks.TABLE_1,
        networks.TABLE_2,
        training.FIG_4,
        allreduce.FIG_5,
        allreduce.FIG_8,
        allreduce.FIG_9,
        chunks.FIG_10,
        allreduce.FIG_11,
        training.FIG_12,
        networks.SCENARIOS,
    ),
    networks.CHECKS | allreduce.CHECKS | chunks.CHECKS | training.CHECKS,
)
