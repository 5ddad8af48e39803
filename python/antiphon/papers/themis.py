"""Themis: A Network Bandwidth-Aware Collective Scheduling Policy for Distributed Training (ISCA 2022)."""

from antiphon.papers.model import Paper
from antiphon.papers.themis_allreduce import CHUNK_STYLES, FIG_5, FIG_8, FIG_9, FIG_10, FIG_11
from antiphon.papers.themis_networks import NETWORK_STYLES, SCENARIO, TABLE_1, TABLE_2
from antiphon.papers.themis_schedulers import STYLES
from antiphon.papers.themis_training import FIG_4, FIG_12, TRAINING_STYLES

PAPER = Paper(
    name="themis",
    title="Themis: A Network Bandwidth-Aware Collective Scheduling Policy for Distributed Training of DL Models",
    source="ISCA 2022; DOI 10.1145/3470496.3527382",
    experiments=(TABLE_1, TABLE_2, FIG_4, FIG_5, FIG_8, FIG_9, FIG_10, FIG_11, FIG_12, SCENARIO),
    styles=STYLES | CHUNK_STYLES | dict(NETWORK_STYLES) | dict(TRAINING_STYLES),
    claims=lambda _outcomes: [],
    reading="",
    judging="",
)
