"""Jobs for tests, where worker processes find them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from antiphon.studies import Heartbeat, Job, Record


@dataclass(frozen=True)
class Cheap(Job):
    number: int

    def measure(self, progress: Heartbeat | None = None) -> Record:
        return {"number": self.number}


@dataclass(frozen=True)
class Endless(Job):
    """Tells its progress, or does not."""

    tells: bool

    def measure(self, progress: Heartbeat | None = None) -> Record:
        while True:
            time.sleep(0.01)
            if self.tells and progress is not None:
                progress(0.5)


@dataclass(frozen=True)
class Broken(Job):
    """Raises, or takes its process with it: always, or until the file is there."""

    how: str
    file: str = ""

    def measure(self, progress: Heartbeat | None = None) -> Record:
        if self.how == "raises":
            raise RuntimeError("a fault")
        if not self.file or not os.path.exists(self.file):
            if self.file:
                open(self.file, "w").close()
            os._exit(9)
        return {"survived": True}
