"""A packet simulator with the rules as docs/reference/simulation.md states them, one event a packet and link.

It shares no code with the core; the reference of ``test_oracle_packet.py``. A message is a pair of transfer and chunk.
Times are integers, in ticks. Neither parallel links that act together nor ranks that share a node are in it.
"""

from __future__ import annotations

import heapq
from collections import deque
from math import inf
from typing import Any

LINK, ARRIVAL, RECEIVED, APPLIED, SENT, WAKE = range(6)

Message = tuple[int, int]


class Interface:
    """Messages ``[message, packets left, first link]`` of one interface, and its virtual channels."""

    def __init__(self, channels: int) -> None:
        self.count = channels
        self.messages: deque[list[Any]] = deque()
        self.backlog = 0
        self.channels: list[deque[list[Any]]] = []  # of messages, an entry a packet; none unless shared by links
        self.next_channel = 0
        self.asked: list[int] = []

    def deal(self, message: list[Any], packets: int) -> None:
        for _ in range(packets):
            self.channels[self.next_channel].append(message)
            self.next_channel = (self.next_channel + 1) % self.count


class Simulator:
    """``links`` are (ticks a flit, latency) pairs, ``sources`` the nodes they leave; ``system`` is that of
    ``System.to_json``; a tick is 2^-bits ps."""

    def __init__(
        self,
        schedule: dict[str, Any],
        links: list[tuple[int, int]],
        sources: list[int],
        system: dict[str, Any],
        bits: int = 0,
    ) -> None:
        self.schedule, self.links, self.system, self.bits = schedule, links, system, bits
        self.transfers, packet = schedule["transfers"], system["packet"]
        for transfer in self.transfers:
            # Lanes are written as numbers and as [first, count].
            ranges = [(item, 1) if isinstance(item, int) else item for item in transfer["payload"]]
            lanes = [schedule["lanes"][first + i] for first, count in ranges for i in range(count)]
            transfer["start_after"] = waits(transfer.get("start_after", []))
            transfer["apply_after"] = waits(transfer.get("apply_after", []))
            bytes_ = sum(lane["chunk_bytes"] for lane in lanes)
            transfer["packets"] = count = max(1, -(-bytes_ // packet["payload_bytes"]))
            payload = packet["payload_bytes"] if packet["fixed_size"] else -(-bytes_ // count)
            transfer["flits"] = max(1, -(-payload // packet["flit_bytes"])) + packet["header_flits"]
            transfer.setdefault("phase", 0)
            transfer["reduce"] = self.reduce_time(bytes_) if transfer["op"] == "reduce" else 0
            transfer["chunks"], transfer["stride"] = lanes[0]["chunks"], lanes[0]["stride"]
        self.happened: set[tuple[str, Message]] = set()
        self.held: list[Message] = []
        self.reducer = [0] * schedule["ranks"]
        self.left = [0] * len(schedule["phases"])
        for transfer in self.transfers:
            self.left[transfer["phase"]] += transfer["chunks"]
        self.waiting: list[deque[tuple[Any, ...]]] = [deque() for _ in links]
        self.last_input = [0 for _ in links]
        self.ports = [sources[:link].count(source) for link, source in enumerate(sources)]
        self.assignment = system["interface"]["assignment"]
        self.by_port = self.assignment == "port"
        router = system["router"]
        stages = router["routing_cycles"] + router["vc_allocation_cycles"] + router["switch_allocation_cycles"]
        self.stages = int(stages + router["traversal_cycles"]) * int(router["clock_ps"])
        spared = self.stages if router["ejection"] == "circuit" else 0
        self.hand_off = max(0, system["hand_off_ps"] - spared)
        self.service: list[tuple[Any, ...] | None] = [None for _ in links]
        self.by_link = schedule["endpoint"]["issue"] == "links"
        self.stop_and_wait = self.by_link and schedule["endpoint"]["pacing"] == "stop-and-wait"
        self.queues: list[dict[str, Any]] = []
        self.interfaces: list[Interface] = []
        self.queue_of: list[int] = []
        own = min(system["interface"]["count"], schedule["endpoint"]["interfaces"] or inf)
        if not self.by_link:
            for rank in range(schedule["ranks"]):
                self.add_queue(max(1, sources.count(rank)) if self.by_port else own)
        of_link: dict[int, int] = {}
        for transfer in self.transfers:
            first = transfer["route"][0]
            if self.by_link and first not in of_link:
                of_link[first] = self.add_queue(1)
            self.queue_of.append(of_link[first] if self.by_link else transfer["from"])
        for id_, transfer in enumerate(self.transfers):
            todo = self.queues[self.queue_of[id_]]["todo"]
            slots = (transfer["step"] + chunk * transfer["stride"] for chunk in range(transfer["chunks"]))
            todo += [(transfer["phase"], slot, id_, chunk) for chunk, slot in enumerate(slots)]
        for queue in self.queues:
            queue["todo"].sort(reverse=True)
        self.gate, self.finish, self.created = 0, 0, 0
        self.agenda: list[tuple[int, int, int, int, Any]] = []

    def reduce_time(self, bytes_: int) -> int:
        rate, clock = self.system["reduce_rate"], self.system["clock_ps"] or 1
        picoseconds = 0 if rate is None else -(-bytes_ * 10**12 // rate)
        return -(-picoseconds // clock) * clock << self.bits

    def add_queue(self, interfaces: int) -> int:
        mine = range(len(self.interfaces), len(self.interfaces) + interfaces)
        self.interfaces += [Interface(self.system["interface"]["virtual_channels"]) for _ in mine]
        self.queues.append(
            {"todo": [], "slot": [], "out": 0, "mine": mine, "busy": dict.fromkeys(mine, 0), "last": mine[-1]}
        )
        return len(self.queues) - 1

    def push(self, at: int, kind: int, number: int, what: Any = None) -> None:
        self.created += 1
        # Packets come in the order in which they left, messages by their chunks.
        tie = what if kind in (RECEIVED, APPLIED, SENT) else self.created
        heapq.heappush(self.agenda, (at, kind, number, tie, what))

    def run(self) -> int:
        self.now = 0
        self.open_gate()
        while self.agenda:
            self.now, kind, number, _, what = heapq.heappop(self.agenda)
            if kind == LINK:
                self.link_done(number)
            elif kind == ARRIVAL:
                self.request(self.transfers[number]["route"][what[1]], ("packet", *what))
            elif kind == RECEIVED:
                self.received((number, what))
            elif kind == APPLIED:
                self.apply((number, what))
            elif kind == SENT:
                self.come("sent", (number, what))
            else:
                self.advance(number)
        assert not any(self.left), "stalled"
        return self.finish

    # --- Links and interfaces

    def request(self, link: int, what: tuple[Any, ...]) -> None:
        self.waiting[link].append(what)
        if self.service[link] is None:
            self.serve(link)

    def serve(self, link: int) -> None:
        if not self.waiting[link]:
            return
        what = self.waiting[link][0]
        if self.system["arbitration"] == "round-robin":
            after = [(self.input(other) <= self.last_input[link], self.input(other)) for other in self.waiting[link]]
            what = self.waiting[link][after.index(min(after))]
        self.waiting[link].remove(what)
        self.last_input[link] = self.input(what)
        message = channel = None
        if what[0] == "interface":
            interface = self.interfaces[what[1]]
            message = interface.messages[0]
            if interface.channels:
                order = [id(m) for m in interface.messages]
                heads = [c for c in interface.channels if c and c[0][2] == link]
                channel = min(heads, key=lambda c: order.index(id(c[0])))
                message = channel[0]
            what = ("packet", message[0], 0, message[1] == 1, what[1])
        self.service[link] = (what, message, channel)
        (id_, _), hop = what[1], what[2]
        end = self.now + self.transfers[id_]["flits"] * self.links[link][0]
        self.push(end, LINK, link)
        if ahead := self.ahead(id_, hop):
            self.push(end + self.links[link][1] - ahead, ARRIVAL, id_, (what[1], hop + 1, what[3]))

    def ahead(self, transfer: int, hop: int) -> int:
        """By how much a packet asks for the link after a hop before all of it has come there."""
        pair: list[int] = [self.links[link][0] for link in self.transfers[transfer]["route"][hop : hop + 2]]
        if self.system["forwarding"] == "store-and-forward" or len(pair) < 2:
            return 0
        flits = int(self.transfers[transfer]["flits"])
        return max(0, (flits - 1) * min(pair) - (self.stages << self.bits))

    def input(self, what: tuple[Any, ...]) -> int:
        """The link over which a packet came, or after those the interface."""
        if what[0] == "interface":
            return len(self.links) + int(what[1])
        return int(self.transfers[what[1][0]]["route"][what[2] - 1])

    def link_done(self, link: int) -> None:
        (_, (id_, chunk), hop, last, *source), message, channel = self.service[link]  # type: ignore[misc]
        if message is not None:
            if last:
                self.push(self.now, SENT, id_, chunk)
            interface = self.interfaces[source[0]]
            interface.backlog -= 1
            message[1] -= 1
            if channel is not None:
                channel.popleft()
            self.ask_again(source[0], link)
        at, route = self.now + self.links[link][1], self.transfers[id_]["route"]
        if hop + 1 == len(route):
            if last:
                self.push(at + (self.hand_off << self.bits), RECEIVED, id_, chunk)
        elif self.ahead(id_, hop):
            pass  # it has asked
        elif at == self.now:
            self.request(route[hop + 1], ("packet", (id_, chunk), hop + 1, last))
        else:
            self.push(at, ARRIVAL, id_, ((id_, chunk), hop + 1, last))
        self.service[link] = None
        self.serve(link)
        if message is not None and (
            last or self.interfaces[source[0]].backlog == self.system["interface"]["depth_packets"]
        ):
            self.advance(next(q for q, queue in enumerate(self.queues) if source[0] in queue["mine"]))

    def ask(self, number: int) -> None:
        interface = self.interfaces[number]
        for channel in interface.channels:
            if channel and channel[0][2] not in interface.asked:
                interface.asked.append(channel[0][2])
                self.request(channel[0][2], ("interface", number))

    def ask_again(self, number: int, done: int) -> None:
        interface = self.interfaces[number]
        interface.asked = [link for link in interface.asked if link != done]
        while interface.messages and interface.messages[0][1] == 0:
            interface.messages.popleft()
        left = [message for message in interface.messages if message[1] > 0]
        if interface.channels and not interface.asked and len({message[2] for message in left}) <= 1:
            interface.channels, interface.next_channel, interface.messages = [], 0, deque(left)
        if interface.channels:
            self.ask(number)
        elif interface.messages:
            self.request(interface.messages[0][2], ("interface", number))

    def send(self, which: Message, number: int) -> None:
        interface, packets = self.interfaces[number], self.transfers[which[0]]["packets"]
        first = self.transfers[which[0]]["route"][0]
        idle = interface.backlog == 0
        message = [which, packets, first]
        interface.messages.append(message)
        interface.backlog += packets
        if idle:
            self.request(first, ("interface", number))
        elif interface.channels:
            interface.deal(message, packets)
            self.ask(number)
        elif any(other[2] != first for other in interface.messages):
            head = interface.messages[0]
            service = self.service[head[2]]
            sending = service is not None and service[1] is head
            interface.channels, interface.asked = [deque() for _ in range(interface.count)], [head[2]]
            for other in interface.messages:
                interface.deal(other, other[1] - (1 if other is head and sending else 0))
            self.ask(number)

    # --- Ranks

    def open_gate(self) -> None:
        before, phases = self.gate, self.schedule["phases"]
        while self.gate < len(phases) and not (phases[self.gate]["barrier"] and any(self.left[: self.gate])):
            self.gate += 1
        if self.gate != before:
            for queue in range(len(self.queues)):
                self.advance(queue)

    def ready(self, message: Message, when: str = "start_after") -> bool:
        id_, chunk = message
        after = self.transfers[id_][when]
        return all(chunk < lag or (event, (other, chunk - lag)) in self.happened for other, event, lag in after)

    def advance(self, number: int) -> None:
        queue = self.queues[number]
        mine, todo = queue["mine"], queue["todo"]
        if self.by_link:
            while todo and todo[-1][0] < self.gate and self.ready(todo[-1][2:]):
                if (self.stop_and_wait and queue["out"]) or len(self.interfaces[mine[0]].messages) >= 2:
                    return
                queue["out"] += 1
                self.send(todo.pop()[2:], mine[0])
            return
        depth, issue = self.system["interface"]["depth_packets"], self.system["interface"]["issue_ps"] << self.bits

        def free() -> list[int]:
            return [i for i in mine if queue["busy"][i] <= self.now and self.interfaces[i].backlog <= depth]

        while True:
            if not queue["slot"]:
                strict = self.schedule["endpoint"]["issue"] == "strict-steps"
                if (strict and len(free()) < len(mine)) or not todo or todo[-1][0] >= self.gate:
                    return
                slot = todo[-1][:2]
                while todo and todo[-1][:2] == slot:
                    queue["slot"].append(todo.pop()[2:])
            for message in list(queue["slot"]):
                if not self.ready(message):
                    continue
                id_, can = message[0], free()
                if self.assignment == "round-robin":
                    can.sort(key=lambda i: (i - queue["last"] - 1) % len(mine))
                elif self.assignment in ("port", "receiver"):
                    transfer = self.transfers[id_]
                    own = self.ports[transfer["route"][0]] if self.by_port else transfer["to"] % len(mine)
                    if mine[own] not in can:
                        continue
                    can = [mine[own]]
                if not can:
                    return
                interface = queue["last"] = can[0]
                queue["slot"].remove(message)
                self.send(message, interface)
                if issue:
                    queue["busy"][interface] = self.now + (self.transfers[id_]["packets"] + 1) * issue
                    self.push(queue["busy"][interface], WAKE, number)
            if queue["slot"]:
                return

    def received(self, message: Message) -> None:
        self.held.append(message)
        self.release()
        if self.stop_and_wait:
            self.queues[self.queue_of[message[0]]]["out"] -= 1
            self.advance(self.queue_of[message[0]])

    def release(self) -> None:
        for id_, chunk in sorted(message for message in self.held if self.ready(message, "apply_after")):
            self.held.remove((id_, chunk))
            transfer, at = self.transfers[id_], self.now
            if transfer["reduce"]:
                at = self.reducer[transfer["to"]] = max(at, self.reducer[transfer["to"]]) + transfer["reduce"]
            self.push(at, APPLIED, id_, chunk)

    def apply(self, message: Message) -> None:
        self.finish = self.now
        phase = self.transfers[message[0]]["phase"]
        self.left[phase] -= 1
        self.happened.add(("applied", message))
        if self.left[phase] == 0:
            self.open_gate()
        self.come("applied", message)

    def come(self, event: str, message: Message) -> None:
        self.happened.discard((event, message))
        waited = [[each for each in self.to_start(queue) if not self.ready(each)] for queue in self.queues]
        self.happened.add((event, message))
        self.release()
        for number, messages in enumerate(waited):
            if any(map(self.ready, messages)):
                self.advance(number)

    def to_start(self, queue: dict[str, Any]) -> list[Message]:
        return [todo[2:] for todo in queue["todo"][-1:]] if self.by_link else queue["slot"]


def waits(after: list[Any]) -> list[tuple[int, str, int]]:
    """Transfer, event and lag of what is written as numbers and as objects."""
    items: list[dict[str, Any]] = [{"transfer": item} if isinstance(item, int) else item for item in after]
    return [(item["transfer"], item.get("event", "applied"), item.get("lag", 0)) for item in items]
