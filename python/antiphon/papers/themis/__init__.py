"""Themis: A Network Bandwidth-Aware Collective Scheduling Policy for Distributed Training (ISCA 2022)."""

from antiphon.papers.themis import allreduce, networks, training
from antiphon.papers.themis.networks import DATA
from antiphon.repro.figure import Paper

PAPER = Paper(
    DATA,
    (*networks.TABLES, training.FIG_4, *allreduce.FIGURES, training.FIG_12, networks.SCENARIOS),
    networks.CHECKS | allreduce.CHECKS | training.CHECKS,
)
