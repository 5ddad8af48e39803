"""Many runs, stored as they are made, so that a second call goes on where the first ended."""

from antiphon.collective.schedules import Heartbeat
from antiphon.studies.grid import Grid
from antiphon.studies.identity import build_id
from antiphon.studies.jobs import Job, Point, RailsPoint, Record, TrainingPoint
from antiphon.studies.running import Progress
from antiphon.studies.store import Store
from antiphon.studies.study import Study, study
from antiphon.studies.workers import Workers

__all__ = [
    "Grid",
    "Heartbeat",
    "Job",
    "Point",
    "Progress",
    "RailsPoint",
    "Record",
    "Store",
    "Study",
    "TrainingPoint",
    "Workers",
    "build_id",
    "study",
]
