"""The command line. Its arguments and the keys of ``--json`` (docs/reference/json.md) are stable.

One file holds one group of commands, and registers them with ``main``; ``commands.py`` lists them.
"""

from antiphon.cli.group import main

__all__ = ["main"]
