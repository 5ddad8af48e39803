"""Themis: A Network Bandwidth-Aware Collective Scheduling Policy for Distributed Training (ISCA 2022)."""

from antiphon.papers.themis import allreduce, networks, training
from antiphon.papers.themis.networks import DATA
from antiphon.repro.figure import Paper

PAPER = Paper(DATA, (allreduce, networks, training))
