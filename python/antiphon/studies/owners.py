"""Who is at work on a store: each owner locks a file of its own, which the system unlocks when its process ends."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

PREFIX, SUFFIX = ".runs-", ".lock"


class Owner:
    """This process's part in a store, from now until ``leave`` or its end."""

    def __init__(self, folder: Path) -> None:
        """Joins.

        Raises:
            OSError: if the folder cannot be written.
        """
        while True:
            self.name = secrets.token_hex(8)
            self.path = folder / f"{PREFIX}{self.name}{SUFFIX}"
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            # Another may have taken the file for one that was left over, before it was locked.
            with suppress(OSError):
                if os.stat(self.path).st_ino == os.fstat(self._file).st_ino:
                    break
            os.close(self._file)

    def leave(self) -> None:
        """Ends this part."""
        with suppress(OSError):
            self.path.unlink()
        os.close(self._file)


def is_at_work(folder: Path, name: str) -> bool:
    """Whether an owner's process is there; removes what is left of one that is not."""
    return re.fullmatch("[0-9a-f]{16}", str(name)) is not None and not _removed(folder / f"{PREFIX}{name}{SUFFIX}")


def remove_left_over(folder: Path) -> None:
    """Removes what is left of owners whose processes were killed."""
    for path in folder.glob(f"{PREFIX}*{SUFFIX}"):
        _removed(path)


def _removed(path: Path) -> bool:
    """Whether the file of an owner is gone, by this call at the latest."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False  # of another user, for example
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
        return True
    except OSError:
        return False
    finally:
        os.close(file)
