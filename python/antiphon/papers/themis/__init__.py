"""Themis: A Network Bandwidth-Aware Collective Scheduling Policy for Distributed Training (ISCA 2022)."""

from antiphon.papers.themis import allreduce, training
from antiphon.papers.themis.allreduce import DATA
from antiphon.repro.figure import Paper

PAPER = Paper(DATA, (allreduce, training))
