"""Many runs, stored as they are made, so that a second call goes on where the first ended."""

from antiphon.study.identity import build_id
from antiphon.study.jobs import Heartbeat, Job, Point, RailsPoint, Record, TrainingPoint
from antiphon.study.store import Progress, Store

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
