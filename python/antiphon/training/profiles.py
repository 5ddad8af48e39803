"""Traces of PyTorch's profiler as Chakra execution traces."""

from __future__ import annotations

import hashlib
import heapq
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from antiphon.arguments import shown
from antiphon.errors import AntiphonError
from antiphon.files import read_text

LARGEST_TRACE = 1 << 30
"""Traces are read whole; larger ones are refused."""
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of what a GPU does."""
KINDS = {"allreduce": 0, "reduce": 1, "allgather": 2, "broadcast": 5, "alltoall": 6, "reducescatter": 7, "barrier": 9}
"""Chakra's numbers of collectives."""
NOTHING = ("wait", "init", "end")
"""What the communication library notes that moves nothing."""
SIZES = {"double": 8, "long": 8, "complexfloat": 8, "float": 4, "int": 4, "half": 2, "bfloat16": 2, "short": 2}
SIZES |= {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "int16": 2, "char": 1, "byte": 1, "bool": 1}
SIZES |= {"int8": 1, "uint8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1}
"""Bytes of an element by the name of its type."""
LONGEST_US = 1e18
"""Times are below this."""
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7


def profiles_of(trace: str | os.PathLike[str]) -> list[str]:
    """The profiler's files of a trace, which is one of them, their prefix or their folder; none where it has none."""
    text = os.fspath(trace)
    try:
        if os.path.isdir(text):
            names = sorted(os.listdir(text))
            found = [] if any(name.endswith(".et") for name in names) else names
            return [os.path.join(text, name) for name in found if name.endswith(".json")]
        numbered = re.fullmatch(r"(.*)\.\d+\.json", text)
        prefix = numbered[1] if numbered else text
        files: list[str] = []
        while os.path.exists(f"{prefix}.{len(files)}.json") and not os.path.exists(f"{prefix}.0.et"):
            files.append(f"{prefix}.{len(files)}.json")
        return files or ([text] if text.endswith(".json") else [])
    except (OSError, ValueError) as error:
        raise AntiphonError(f"{shown(text)}: cannot be read: {error}", "bad-file") from None


def converted(files: list[str], ranks: int, folder: str) -> tuple[list[str], str]:
    """Writes Chakra traces of all ranks into a folder; returns their names and the groups that they name, in JSON.

    One file stands for all ranks if it only names groups of all of them.

    Raises:
        AntiphonError: ``bad-file`` with file and event, ``too-large``.
    """
    groups: dict[str, list[int]] = {}
    written: dict[int, str] = {}
    for place, file in enumerate(files):
        document = _read(file)
        known = document.get("distributedInfo")
        known = known if isinstance(known, dict) else {}
        rank = known.get("rank", place)
        if not isinstance(rank, int) or rank in written or not 0 <= rank < ranks:
            message = f"{file}: is of rank {rank!r:.20}; there must be one file for each of the {ranks:,} ranks"
            raise AntiphonError(message, "bad-file")
        content = b"".join(_Profile(file, document, known, rank, ranks, groups).nodes())
        written[rank] = os.path.join(folder, f"profile.{rank}.et")
        Path(written[rank]).write_bytes(_framed(_field(1, "0.0.4")) + content)
    if len(files) == 1 and ranks > 1:
        if any(len(members) != ranks for members in groups.values()):
            message = f"{files[0]}: has collectives of some ranks only; give a file for each rank, PREFIX.RANK.json"
            raise AntiphonError(message, "bad-file")
        return list(written.values()) * ranks, json.dumps(groups)
    if missing := set(range(ranks)) - set(written):
        raise AntiphonError(f"{files[0]}: there is no trace of rank {min(missing)} of {ranks:,} beside it", "bad-file")
    return [written[rank] for rank in range(ranks)], json.dumps(groups)


def _read(file: str) -> dict[str, Any]:
    try:
        document = json.loads(read_text(file, LARGEST_TRACE))
    except AntiphonError:
        raise
    except (ValueError, RecursionError) as error:
        raise AntiphonError(f"{file}: is no JSON: {error!s:.200}", "bad-file") from None
    if isinstance(document, list):
        document = {"traceEvents": document}
    if isinstance(document, dict) and isinstance(document.get("traceEvents"), list):
        return document
    if isinstance(document, dict) and "nodes" in document and "schema" in document:
        message = f"{file}: is a PyTorch execution trace, which says no times; give the trace of the profiler"
        raise AntiphonError(message, "not-applicable")
    raise AntiphonError(f"{file}: has no traceEvents; is it a trace of PyTorch's profiler?", "bad-file")


class _Profile:
    """The trace of a rank."""

    def __init__(
        self, file: str, document: dict[str, Any], known: dict[str, Any], rank: int, ranks: int, groups: dict[str, Any]
    ) -> None:
        self.file, self.rank, self.ranks, self.groups = file, rank, ranks, groups
        listed = known.get("pg_config")
        groups_listed = listed if isinstance(listed, list) else []
        self.listed = {str(each.get("pg_name")): each.get("ranks") for each in groups_listed if isinstance(each, dict)}
        self.events = [event for event in document["traceEvents"] if isinstance(event, dict) and event.get("ph") == "X"]
        for event in self.events:
            event["args"] = event["args"] if isinstance(event.get("args"), dict) else {}
            start, takes = event.get("ts"), event.get("dur", 0)
            if not all(isinstance(time, int | float) and -LONGEST_US < time < LONGEST_US for time in (start, takes)):
                raise self.wrong(event, "has no time")
            event["dur"] = max(takes, 0)
        calls = [event["args"] for event in self.events if event["args"].get("Collective name")]
        self.calls: dict[int, dict[str, Any]] = {
            args["External id"]: args for args in calls if isinstance(args.get("External id"), int)
        }

    def wrong(self, event: dict[str, Any], what: str) -> AntiphonError:
        return AntiphonError(f"{self.file}: event {shown(event.get('name'))} {what}", "bad-file")

    def nodes(self) -> Iterator[bytes]:
        """Its nodes, each after the last ones of all streams that had ended when it began."""
        work = [event for event in self.events if event.get("cat") in ON_GPU] or list(self.on_host())
        on_gpu = bool(work) and work[0].get("cat") in ON_GPU
        work.sort(key=lambda event: (event["ts"], event["dur"]))
        if not any(self.call(event) for event in work):
            raise AntiphonError(f"{self.file}: has no collectives with a 'Collective name'", "bad-file")
        streams: dict[Any, int] = {}
        running: list[tuple[float, int, int]] = []
        ended: dict[int, int] = {}
        seen: dict[int, dict[int, int]] = {}
        number = 0
        for event in work:
            call = self.call(event)
            if call is not None and self.name(call) in NOTHING:
                continue
            stream = streams.setdefault(str(event["args"].get("stream", event.get("tid"))), len(streams))
            while running and running[0][0] <= event["ts"] + 1e-3:  # what tools round
                _, node, of = heapq.heappop(running)
                ended[of] = max(node, ended.get(of, -1))
            before = seen.get(stream, {})
            after = [node for of, node in ended.items() if before.get(of) != node]
            seen[stream] = dict(ended)
            heapq.heappush(running, (event["ts"] + event["dur"], number, stream))
            yield self.node(event, call, number, after, stream if on_gpu else None)
            number += 1

    def on_host(self) -> Iterator[dict[str, Any]]:
        """What the host does, where there is no GPU: collectives of each thread, and the largest events without any."""
        threads: dict[str, list[dict[str, Any]]] = {}
        for event in self.events:
            if event.get("cat") == "cpu_op":
                threads.setdefault(str(event.get("tid")), []).append(event)
        for events in threads.values():
            events.sort(key=lambda event: (event["ts"], -event["dur"]))
            holds, open_ = [False] * len(events), list[int]()
            parents: list[int | None] = []
            for place, event in enumerate(events):
                while open_ and events[open_[-1]]["ts"] + events[open_[-1]].get("dur", 0) <= event["ts"]:
                    open_.pop()
                parents.append(open_[-1] if open_ else None)
                if self.call(event) is not None:
                    for outer in open_:
                        holds[outer] = True
                open_.append(place)
            inside = [False] * len(events)
            for place, event in enumerate(events):
                parent = parents[place]
                inside[place] = parent is not None and (inside[parent] or not holds[parent])
                if not inside[place] and not holds[place]:
                    yield event

    def call(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """What an event says of a collective or message; None if it is none."""
        args: dict[str, Any] = event["args"]
        if args.get("Collective name"):
            return args
        if not re.match(r"(nccl|rccl)", str(event.get("name")), re.IGNORECASE) or event.get("cat") != "kernel":
            return None
        linked = args.get("External id")
        if not isinstance(linked, int) or linked not in self.calls:
            raise self.wrong(event, "says no 'Collective name'; profile with PyTorch 2.2 or newer")
        return self.calls[linked]

    def name(self, call: dict[str, Any]) -> str:
        text = str(call["Collective name"]).lower().replace("coalesced", "").replace("into_tensor", "")
        return re.sub(r"_?(base|tensor|single|v)?_*$", "", text).replace("_", "").replace("alltoallv", "alltoall")

    def node(
        self, event: dict[str, Any], call: dict[str, Any] | None, number: int, after: list[int], stream: int | None
    ) -> bytes:
        content = _field(1, number) + _field(2, str(event.get("name"))[:120])
        content += b"".join(_field(5, other) for other in sorted(after))
        if call is None:
            picos = round(event["dur"] * 1e6)
            attributes: dict[str, int | str] = {"duration_picos": picos, "stream": stream or 0}
            lane = _field(10, _field(1, "is_cpu_op") + _field(27, int(stream is None)))
            return _framed(content + _field(3, COMPUTE) + lane + _attributes(attributes))
        name = self.name(call)
        kind, attributes = COLLECTIVE, {}
        if name in ("send", "recv"):
            peer = call.get("Dst Rank" if name == "send" else "Src Rank")
            if not isinstance(peer, int) or not 0 <= peer < self.ranks:
                raise self.wrong(event, f"says no rank that it is {'to' if name == 'send' else 'from'}")
            kind = SEND if name == "send" else RECEIVE
            attributes = {"comm_src": self.rank, "comm_dst": peer} if kind == SEND else {"comm_src": peer}
            attributes |= {} if kind == SEND else {"comm_dst": self.rank}
        elif name in KINDS:
            attributes = {"comm_type": KINDS[name], "pg_name": self.group(event, call)}
        else:
            known = ", ".join([*KINDS, "send", "recv"])
            raise self.wrong(event, f"has the Collective name {shown(call['Collective name'])}; known: {known}")
        size = SIZES.get(str(call.get("dtype")).lower())
        elements = [call.get(key) for key in ("In msg nelems", "Out msg nelems")]
        counts = [each for each in elements if isinstance(each, int) and each > 0]
        if name != "barrier":
            if size is None or not counts:
                raise self.wrong(event, "says no dtype and In msg nelems that give its bytes")
            attributes["comm_size"] = counts[0] * size
        return _framed(content + _field(3, kind) + _attributes(attributes))

    def group(self, event: dict[str, Any], call: dict[str, Any]) -> str:
        """The name of a group, whose ranks are noted."""
        name = str(call.get("Process Group Name", ""))
        given = call.get("Process Group Ranks")
        if isinstance(given, str):  # long lists are cut short with dots
            whole = re.fullmatch(r"\[[\d, ]*\]", given)
            given = [int(each) for each in re.findall(r"\d{1,9}", given)] if whole else None
        if not given:
            given = self.listed.get(name)
        if not given and call.get("Group size") in (self.ranks, None):
            given = list(range(self.ranks))
        if not isinstance(given, list) or not given or not all(type(each) is int for each in given):
            raise self.wrong(event, "does not say the ranks of its group")
        if not all(0 <= each < self.ranks for each in given):
            raise self.wrong(event, f"is of rank {max(given)}; there are {self.ranks:,} ranks, from 0")
        ranks = sorted(set(given))
        text = ",".join(map(str, ranks))
        text = text if len(ranks) <= 16 else f"{len(ranks)} ranks {hashlib.sha256(text.encode()).hexdigest()[:12]}"
        key = f"{name[:40]} [{text}]".strip()
        self.groups[key] = ranks
        return key


def _attributes(values: dict[str, int | str]) -> bytes:
    fields = ((name, _field(9 if isinstance(value, int) else 29, value)) for name, value in values.items())
    return b"".join(_field(10, _field(1, name) + value) for name, value in fields)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: int | str | bytes) -> bytes:
    """A field of Protocol Buffers."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    content = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _framed(content)


def _framed(content: bytes) -> bytes:
    return _varint(len(content)) + content
