"""What a user asks of discovery, by environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from antiphon.errors import AntiphonError

MOST_STREAMS = 64
MOST_SPIN_US = 1_000_000


@dataclass(frozen=True)
class Settings:
    """What is found, joined and measured, and how.

    Attributes:
        fabric: a file with the fabric to use; None: it is measured (``ANTIPHON_FABRIC``, ``auto`` or a path).
        exclude: names of interfaces that are left alone (``ANTIPHON_EXCLUDE``, with commas).
        streams: connections of a cable; None: as many as carry most (``ANTIPHON_STREAMS``, 1 to 64).
        spin_us: how long a waiting carrier looks for bytes before it sleeps; None: its default (``ANTIPHON_SPIN_US``).
        management: whether the management network carries data, too (``ANTIPHON_MANAGEMENT``, 0 or 1).
        shared_memory: whether ranks of a host share memory, or else are joined over 127.0.0.1
            (``ANTIPHON_SHARED_MEMORY``, 0 or 1).
        resilient: whether ranks go on after a link has failed (``ANTIPHON_RESILIENT``, 0 or 1).
        save: where the measured fabric is saved; None: in the user's cache (``ANTIPHON_SAVE``).
        master: the address of the rendezvous, "" if it is unknown (``MASTER_ADDR``).
    """

    fabric: Path | None = None
    exclude: frozenset[str] = frozenset()
    streams: int | None = None
    spin_us: int | None = None
    management: bool = False
    shared_memory: bool = True
    save: Path | None = None
    master: str = ""
    resilient: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """The settings of this process; a variable that is not set, or empty, leaves the default.

        Raises:
            AntiphonError: ``bad-spec`` for a value that means nothing, with the variable's name.
        """
        given = os.environ if environment is None else environment
        fabric = _text(given, "ANTIPHON_FABRIC")
        save = _text(given, "ANTIPHON_SAVE")
        return cls(
            fabric=None if fabric in ("", "auto") else Path(fabric).expanduser(),
            exclude=_names(given, "ANTIPHON_EXCLUDE"),
            streams=_number(given, "ANTIPHON_STREAMS", 1, MOST_STREAMS),
            spin_us=_number(given, "ANTIPHON_SPIN_US", 0, MOST_SPIN_US),
            management=_flag(given, "ANTIPHON_MANAGEMENT", False),
            shared_memory=_flag(given, "ANTIPHON_SHARED_MEMORY", True),
            resilient=_flag(given, "ANTIPHON_RESILIENT", False),
            save=Path(save).expanduser() if save else None,
            master=_text(given, "MASTER_ADDR"),
        )

    def common(self) -> dict[str, str]:
        """What all ranks must have alike, as variables and their values."""
        return {
            "ANTIPHON_FABRIC": "auto" if self.fabric is None else "a file",
            "ANTIPHON_STREAMS": "unset" if self.streams is None else str(self.streams),
            "ANTIPHON_MANAGEMENT": str(int(self.management)),
            "ANTIPHON_SHARED_MEMORY": str(int(self.shared_memory)),
            "ANTIPHON_RESILIENT": str(int(self.resilient)),
        }


def _text(given: Mapping[str, str], variable: str) -> str:
    return given.get(variable, "").strip()


def _number(given: Mapping[str, str], variable: str, least: int, most: int) -> int | None:
    text = _text(given, variable)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise AntiphonError(f"{variable}={text}: give a whole number from {least} to {most}", "bad-spec")
    return int(text)


def _flag(given: Mapping[str, str], variable: str, default: bool) -> bool:
    text = _text(given, variable)
    if text not in ("", "0", "1"):
        raise AntiphonError(f"{variable}={text}: give 0 or 1", "bad-spec")
    return default if not text else text == "1"


def _names(given: Mapping[str, str], variable: str) -> frozenset[str]:
    text = _text(given, variable)
    names = [name.strip() for name in text.split(",")] if text else []
    if not all(name and "/" not in name and len(name.split()) == 1 for name in names):
        raise AntiphonError(f"{variable}={text}: give names of interfaces with commas, such as eth0,wlan0", "bad-spec")
    return frozenset(names)
