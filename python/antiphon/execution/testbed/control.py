"""Lines between the host of an emulated fabric and its nodes, over sockets that files stand for: they lead out of every
network namespace."""

from __future__ import annotations

import json
import socket
from collections import deque
from pathlib import Path
from typing import Any

from antiphon.errors import AntiphonError

SOCKET = "control"
GONE = "a part of the emulated fabric has ended"


class Line:
    """One end of a connection; messages are lists, of which the first is a word."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._begun = b""
        self._messages: deque[list[Any]] = deque()

    @classmethod
    def to_host(cls, folder: Path) -> Line:
        """A node's end."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(folder / SOCKET))
        return cls(connection)

    def say(self, *message: Any) -> None:
        """Sends a message.

        Raises:
            AntiphonError: ``stalled`` if the other end is gone.
        """
        try:
            self.connection.sendall((json.dumps(message) + "\n").encode())
        except ConnectionError:
            raise AntiphonError(GONE, "stalled") from None

    def waiting(self) -> list[list[Any]]:
        """All messages that are there, waiting for one if there is none.

        Raises:
            AntiphonError: ``stalled`` if the other end is gone.
        """
        while not self._messages:
            try:
                data = self.connection.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                raise AntiphonError(GONE, "stalled")
            *texts, self._begun = (self._begun + data).split(b"\n")
            self._messages += map(json.loads, texts)
        found = list(self._messages)
        self._messages.clear()
        return found

    def hear(self, word: str) -> list[Any]:
        """What follows the word that the next message begins with.

        Raises:
            AntiphonError: ``stalled`` if the other end is gone or says something else; what it says has failed.
        """
        if not self._messages:
            self._messages += self.waiting()
        said, *rest = self._messages.popleft()
        if said == "failed":
            raise AntiphonError(rest[1], rest[0])
        if said != word:
            raise AntiphonError(f"a part of the emulated fabric said '{said}' instead of '{word}'", "stalled")
        return rest
