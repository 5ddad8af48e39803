"""Cables come about: who listens tells where, who connects does so, and both ends agree on the outcome."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from antiphon.errors import AntiphonError
from antiphon.torch.discovery.cables import Cable, remote, zoned
from antiphon.torch.discovery.meeting import Meeting

LONGEST_PATH = 90
"""Bytes of the path of a Unix-domain socket; the system's limit is about 100."""


class JoinerLike(Protocol):
    """What is used of ``antiphon._core.Joiner``."""

    def listen(self, address: str) -> int:
        """Listens; the port."""
        ...

    def listen_local(self, path: str) -> None:
        """Listens within the host."""
        ...

    def join(self, cables: list[tuple[int, int, str, str, int]], timeout_s: float) -> list[tuple[int, str]]:
        """Joins; those that did not come about."""
        ...

    def round_trips(self, cables: list[tuple[int, int]]) -> list[tuple[int, float]]:
        """Seconds, where the neighbour is higher."""
        ...

    def rates(self, cables: list[int], seconds: float, streams: int) -> list[tuple[int, float]]:
        """Bytes a second that came over so many connections of each."""
        ...

    def keep(self, cable: int, streams: int) -> None:
        """Closes its other connections."""
        ...

    def drop_cable(self, cable: int) -> None:
        """Closes one."""
        ...

    def wires(self, ports: list[tuple[int, int, int | None, int | None, str]]) -> Any:
        """For a carrier."""
        ...


JoinerMaker = Callable[[int, bytes], JoinerLike]


def join(
    joiner: JoinerLike, meeting: Meeting, cables: Sequence[Cable], patience_s: float, what: str, streams: int | None
) -> dict[int, str]:
    """Joins those of the cables that this rank has; all ranks call it with the same cables.

    Args:
        joiner: of this rank.
        meeting: of all ranks.
        cables: numbered.
        patience_s: until a cable is given up.
        what: a name for this round, of its own.
        streams: connections of a cable, if the user said so.

    Returns:
        Of all cables those that did not come about, with the reason.

    Raises:
        AntiphonError: ``stalled`` if the system refuses to listen, or a rank does not come.
    """
    own = [cable for cable in cables if meeting.rank in cable.ranks]
    folder = Path(tempfile.mkdtemp(prefix="antiphon-", dir=_short())) if _listens_within(own, meeting.rank) else None
    try:
        places = _listen(joiner, own, meeting.rank, folder)
        heard = meeting.exchange(f"{what}: where it listens", places)
        wanted, failed = [], {}
        for cable in own:
            try:
                where = _where(cable, meeting.rank, heard[cable.high.rank])
            except OSError as error:
                failed[cable.number] = str(error)
                continue
            wanted.append((cable.number, cable.neighbour(meeting.rank), *where, cable.streams(streams)))
        failed.update(joiner.join(wanted, min(patience_s, max(meeting.left_s, 0.01))))
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    outcome: dict[int, str] = {}
    for told in meeting.exchange(f"{what}: outcome", sorted(failed.items())):
        for number, why in told:
            # Who connected knows more than who waited.
            if number not in outcome or "nobody" in outcome[number]:
                outcome[number] = why
    for cable in own:
        if cable.number in outcome and cable.number not in failed:
            joiner.drop_cable(cable.number)
    return dict(sorted(outcome.items()))


def _listens_within(own: Sequence[Cable], rank: int) -> bool:
    return any(cable.kind == "memory" and cable.high.rank == rank for cable in own)


def _short() -> str | None:
    """A folder for sockets: the temporary one, unless its path is too long for them."""
    return None if len(tempfile.gettempdir().encode()) < LONGEST_PATH - 30 else "/tmp"


def _listen(joiner: JoinerLike, own: Sequence[Cable], rank: int, folder: Path | None) -> dict[str, str | int]:
    """Listens at the ends of this rank that must; the port of each, and the path of the socket under ""."""
    places: dict[str, str | int] = {}
    if folder is not None:
        places[""] = str(folder / f"{rank}")
        joiner.listen_local(str(folder / f"{rank}"))
    for cable in own:
        end = cable.high
        if cable.kind == "memory" or end.rank != rank or end.key in places:
            continue
        with suppress(AntiphonError, OSError):  # an address that is gone by now; the other end says so
            places[end.key] = joiner.listen(zoned(end, end.address))
    return places


def _where(cable: Cable, rank: int, places: dict[str, Any]) -> tuple[str, str]:
    """The own address and that of the other end, as `Joiner.join` takes them; nothing for the end that listens.

    Raises:
        OSError: the interface is gone, or the other end cannot listen.
    """
    if cable.high.rank == rank:
        return "", ""
    if cable.kind == "memory":
        return "", str(places[""])
    port = places.get(cable.high.key)
    if port is None:
        raise OSError(f"{cable.high.label} could not listen")
    return zoned(cable.low, cable.low.address), remote(cable.low, cable.high.address, int(port))
