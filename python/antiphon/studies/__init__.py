"""Many runs, stored as they are made, so that a second call goes on where the first ended."""

from antiphon.studies.identity import build_id
from antiphon.studies.jobs import Heartbeat, Job, Point, RailsPoint, Record, TrainingPoint
from antiphon.studies.store import Progress, Store

__all__ = [
    "Heartbeat",
    "Job",
    "Point",
    "Progress",
    "RailsPoint",
    "Record",
    "Store",
    "TrainingPoint",
    "build_id",
]
