"""The measured fabric is kept, so that the user can look at it and give it again."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

LOG = logging.getLogger("antiphon.torch")
FOLDER = Path("~/.cache/antiphon/fabrics")
LONGEST_NAME = 100


def place(hosts: Sequence[str]) -> Path:
    """The file of the fabric of hosts in the user's cache.

    >>> place(["a", "b/c"]).name
    'a+b-c.json'
    """
    name = "+".join("".join(each if each.isalnum() or each in "-_." else "-" for each in host) for host in hosts)
    if len(name.encode()) > LONGEST_NAME:
        # One host more at the end must not take the place of another fabric.
        name = (
            f"{name.encode()[:LONGEST_NAME].decode('utf-8', 'ignore')}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
        )
    return FOLDER / f"{name}.json"


def save(text: str, path: Path) -> None:
    """Writes a fabric; if that fails, the job goes on and a line of the log says why."""
    try:
        path = path.expanduser()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except (OSError, RuntimeError) as error:
        LOG.warning("the measured fabric is not saved: %s: %s; ANTIPHON_SAVE=FILE names another place", path, error)
    else:
        LOG.info("the measured fabric is in %s", path)
