"""Themis: A Network Bandwidth-Aware Collective Scheduling Policy for Distributed Training (ISCA 2022)."""

from antiphon.papers.themis.allreduce import (
    DATA,
    consistency,
    fig5,
    fig8,
    fig9,
    fig10,
    fig11,
    headers,
    intra,
    offload,
    scenarios,
    table1,
    table2,
    threshold,
)
from antiphon.papers.themis.training import fig4, fig12, train
from antiphon.repro.figure import Paper

PAPER = Paper(
    DATA,
    (
        table1,
        table2,
        fig4,
        fig5,
        fig8,
        fig9,
        fig10,
        fig11,
        fig12,
        threshold,
        intra,
        offload,
        consistency,
        headers,
        scenarios,
    ),
    dict.fromkeys(("train-resnet", "train-gnmt", "train-dlrm", "train-transformer"), train),
)
