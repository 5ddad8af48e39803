"""Papers whose tables and figures Antiphon reproduces: data and experiments, never a branch in the core.

A folder is a paper. ``figures.toml`` says what its figures are and how they are shown, ``series.csv`` what they
compare, ``claims.csv`` what the paper claims; other tables are what it published. Modules have what must be computed.
What papers share is ``antiphon.repro``.
"""

from antiphon.papers import ace, aries, ccube, themis, tto
from antiphon.repro.figure import Paper
from antiphon.repro.reproduction import reproduce
from antiphon.repro.result import Reproduction

PAPERS = {paper.name: paper for paper in map(Paper.of, (tto, themis, ccube, ace, aries))}
"""All papers, by the name the command line knows."""

__all__ = ["PAPERS", "Paper", "Reproduction", "reproduce"]
