"""A fabric that the user gives instead of a measured one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from antiphon._core import Fabric
from antiphon.errors import AntiphonError
from antiphon.torch.discovery.cables import Cable
from antiphon.torch.discovery.wiring import Links

MOST_BYTES = 64 << 20


def text_of(path: Path) -> str:
    """What the file says.

    Raises:
        AntiphonError: ``bad-file`` if it cannot be read.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise AntiphonError(f"ANTIPHON_FABRIC={path}: larger than 64 MiB; give a fabric of this job", "bad-file")
        return path.read_text("utf-8")
    except OSError as error:
        what = f"ANTIPHON_FABRIC={path}: cannot be read: {error.strerror}; rank 0 reads it"
    except UnicodeDecodeError:
        what = f"ANTIPHON_FABRIC={path}: not UTF-8 text; give JSON of the schema antiphon-fabric/1"
    raise AntiphonError(what, "bad-file")


def fabric_of(text: str, path: str, size: int) -> Fabric:
    """The fabric of a text, with a node a rank and no others.

    Raises:
        AntiphonError: ``bad-file`` and as `Fabric.from_text`.
    """
    fabric = Fabric.from_text(text, name="ANTIPHON_FABRIC")
    nodes = len(fabric.nodes["name"])
    if fabric.ranks != size or nodes != size:
        switches = f" and {nodes - fabric.ranks} nodes besides" if nodes != fabric.ranks else ""
        what = f"ANTIPHON_FABRIC={path}: has {fabric.ranks} ranks{switches}, this job {size} ranks"
        raise AntiphonError(f"{what}; give one with a node for each rank, in their order, and no other", "bad-file")
    return fabric


def assigned(fabric: Fabric, path: str, cables: Sequence[Cable]) -> Links:
    """Gives each link of the fabric to a cable between its ranks; that of the same interface, if there is one.

    Args:
        fabric: as the user gave it.
        path: of its file, for errors.
        cables: that are joined.

    Returns:
        The cables that have a link.

    Raises:
        AntiphonError: ``bad-file`` for a link that no cable is left for, naming it.
    """
    table: dict[str, Any] = dict(fabric.links)
    links = list(zip(table["from"], table["to"], table["dimension"], strict=True))
    taken: dict[tuple[int, int], int] = {}

    def take(number: int, is_named: bool) -> bool:
        start, end, dimension = links[number]
        for cable in cables:
            key = (cable.number, int(start))
            if set(cable.ranks) != {int(start), int(end)} or key in taken:
                continue
            if not is_named or cable.dimension(int(start)) == dimension:
                taken[key] = number
                return True
        return False

    rest = [number for number in range(len(links)) if not take(number, True)]
    for number in rest:
        if not take(number, False):
            start, end, dimension = links[number]
            names = fabric.nodes["name"]
            what = f"ANTIPHON_FABRIC={path}: link {number} from {names[start]} to {names[end]} ({dimension})"
            joined = sum(set(cable.ranks) == {int(start), int(end)} for cable in cables)
            how = (
                f"{joined} cables join ranks {start} and {end}" if joined else f"no cable joins ranks {start} and {end}"
            )
            raise AntiphonError(f"{what} has no cable: {how}; check the cable, or take the link out", "bad-file")
    return {
        cable.number: (taken.get((cable.number, cable.low.rank)), taken.get((cable.number, cable.high.rank)))
        for cable in cables
        if (cable.number, cable.low.rank) in taken or (cable.number, cable.high.rank) in taken
    }
