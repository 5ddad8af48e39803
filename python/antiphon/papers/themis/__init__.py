"""Themis: A Network Bandwidth-Aware Collective Scheduling Policy for Distributed Training (ISCA 2022)."""

from antiphon.papers.themis.allreduce import (
    DATA,
    chunks_baseline,
    fig5,
    fig8,
    fig9,
    fig10,
    fig11,
    initial_load,
    scenarios,
    table1,
    table2,
)
from antiphon.papers.themis.training import fig4, fig12, train
from antiphon.repro.figure import Paper

PAPER = Paper(
    DATA,
    (table1, table2, fig4, fig5, fig8, fig9, fig10, fig11, fig12, scenarios),
    dict.fromkeys(("train-resnet", "train-gnmt", "train-dlrm", "train-transformer"), train)
    | {"chunks-baseline": chunks_baseline, "initial-load": initial_load},
)
