"""Papers whose tables and figures Antiphon reproduces: experiments only, never a branch in the core.

``PAPER.py`` names a paper's experiments and claims; ``PAPER_*.py`` are its experiments, and
``data/PAPER`` the numbers it published. What papers share is in ``model`` (rows, verdicts, charts),
``reproduction`` (the work), ``plots`` and ``page``.
"""

from antiphon.papers import ccube, themis, tto
from antiphon.papers.model import Paper
from antiphon.papers.reproduction import Reproduction, reproduce

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (tto.PAPER, themis.PAPER, ccube.PAPER)}
"""All papers, by the name the command line knows."""

__all__ = ["PAPERS", "Paper", "Reproduction", "reproduce"]
