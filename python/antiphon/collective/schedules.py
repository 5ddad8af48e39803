"""Schedules in files."""

from __future__ import annotations

from antiphon._core import Fabric, Schedule
from antiphon.errors import AntiphonError
from antiphon.files import LARGEST_SCHEDULE, read_text


def read_schedule(path: str, fabric: Fabric) -> Schedule:
    """The schedule of a JSON file (docs/schedule.md) for a fabric.

    Raises:
        AntiphonError: naming the file: ``bad-file``, ``too-large``; as ``Schedule.from_json``.
    """
    try:
        return Schedule.from_json(read_text(path, LARGEST_SCHEDULE), fabric)
    except AntiphonError as error:
        message = error.message if error.message.startswith(f"{path}: ") else f"{path}: {error.message}"
        raise AntiphonError(message, error.code) from None
