"""The command line. Its arguments and the keys of ``--json`` (docs/json.md) are stable.

One file holds one group of commands, and registers them with ``main``.
"""

from antiphon.cli import advise, collectives, flights, lists, noc, papers, rails, training, tuning
from antiphon.cli.group import main

__all__ = ["advise", "collectives", "flights", "lists", "main", "noc", "papers", "rails", "training", "tuning"]
