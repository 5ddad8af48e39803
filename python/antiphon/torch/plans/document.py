"""A plan as bytes, for the store and the cache."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

from antiphon._core import Fabric, Schedule
from antiphon.torch.plans.building import Built, Key

FORMAT = "antiphon-plan/1"
LIMIT_BYTES = 64 << 20
"""Most bytes of a plan as text: longer ones are refused before memory is taken."""


class BadDocumentError(Exception):
    """Bytes that are no plan for this key."""


@dataclass(frozen=True)
class Document:
    """A schedule that a rank found.

    Attributes:
        spec: that builds it.
        schedule: not proven yet.
        build_s: seconds that building took where it was found.
        final: no better one follows.
    """

    spec: str
    schedule: Schedule
    build_s: float
    final: bool


def write(built: Built, *, final: bool) -> bytes:
    """A plan as compressed JSON."""
    fields = {"format": FORMAT, "spec": built.spec, "build_s": built.build_s, "final": final}
    return zlib.compress(json.dumps({**fields, "schedule": built.schedule.to_json()}).encode(), 6)


def read(data: bytes, fabric: Fabric, key: Key) -> Document:
    """What ``write`` wrote, checked to be of this collective, size and root.

    Raises:
        BadDocumentError: with the reason.
    """
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(data, LIMIT_BYTES)
        if not unpacker.eof:
            raise BadDocumentError("it is cut off, or too long")
        fields: dict[str, Any] = json.loads(text)
        if fields["format"] != FORMAT:
            raise BadDocumentError(f"its format is not {FORMAT}")
        schedule = Schedule.from_json(str(fields["schedule"]), fabric)
        found = (schedule.collective, schedule.bytes, schedule.root or 0, schedule.ranks)
        if found != (*key, fabric.ranks):
            raise BadDocumentError(f"it is for {found}, not for {(*key, fabric.ranks)}")
        return Document(str(fields["spec"]), schedule, float(fields["build_s"]), bool(fields["final"]))
    except BadDocumentError:
        raise
    except Exception as error:
        # Damaged bytes fail anywhere from the compression to the numbers.
        raise BadDocumentError(str(error)) from error
