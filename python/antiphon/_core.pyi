"""The native core. Sizes are bytes, as an int or text with a unit (``"64MiB"``, ``"375kB"``)."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Final, SupportsIndex, TypeAlias, final

import numpy as np
from typing_extensions import Unpack

from antiphon._options import NocOptions, RailsOptions, TrainOptions
from antiphon.results import (
    Algorithm,
    Area,
    Bound,
    Column,
    Configured,
    Energy,
    FileProof,
    Iteration,
    NocResult,
    Parameter,
    Proof,
    RailsAdvice,
    RailsRun,
    Replanned,
    SimulationResult,
    Stats,
    TreesAdvice,
)

_Size: TypeAlias = str | SupportsIndex
_System: TypeAlias = str | System
_Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
_Columns: TypeAlias = dict[str, Column]
"""Column name to array; ``antiphon.Table`` makes a table of it."""
_Buffer: TypeAlias = np.ndarray[Any, np.dtype[Any]]

__all__ = [
    "Execution",
    "ExecutionTrace",
    "Executor",
    "Fabric",
    "Node",
    "Schedule",
    "ScheduleBuilder",
    "System",
    "TrainingPlan",
    "Workload",
    "__version__",
    "advise_rails",
    "advise_trees",
    "algorithm_scales",
    "algorithms",
    "area",
    "build",
    "bus_factor",
    "busiest_link_ns",
    "chakra_files",
    "check_fidelity",
    "collective_name",
    "collectives",
    "compute_models",
    "configure",
    "default_batch",
    "endpoints",
    "engine_parts",
    "export",
    "fabrics",
    "fidelities",
    "format_bytes",
    "format_of",
    "formats",
    "inputs",
    "iterations",
    "load",
    "lower_bound",
    "noc",
    "parse_bytes",
    "prove_file",
    "rails",
    "rails_messages",
    "rails_queues",
    "rails_schedulers",
    "rails_topologies",
    "replan",
    "router_parameters",
    "settled",
    "shard",
    "simulate",
    "simulate_flights",
    "systems",
    "traffic_patterns",
    "verify",
    "workloads",
]

__version__: Final[str]

@final
class Fabric:
    """A directed multigraph of ranks and switches.

    Made from a specification such as ``mesh:8x8``, ``torus:4x4x4``, ``dgx1v`` or ``file:PATH``
    (``fabrics()`` lists the forms). Immutable, picklable, compared by value.

    Raises:
        AntiphonError: ``unknown-name``, ``bad-spec``, ``bad-size``, ``bad-file`` or ``too-large``.
    """

    def __new__(cls, spec: str) -> Fabric: ...
    @classmethod
    def from_json(cls, text: str, name: str = "json") -> Fabric:
        """A fabric from JSON (documented in docs/fabric.md); ``name`` is shown in results."""
    @classmethod
    def from_text(cls, text: str, name: str = "text") -> Fabric:
        """A fabric from JSON or a topology of another tool, known by its content (docs/fabric.md); ``name`` is shown in
        results."""
    @classmethod
    def from_networkx(cls, graph: Any, name: str | None = None) -> Fabric:
        """A fabric from a networkx graph.

        Every edge is a link; in an undirected graph, one link each way. Edge attributes
        ``rate_gb_per_s``, ``latency_ns``, ``speed``, ``dimension``, ``energy_pj_per_bit`` and
        ``length_mm`` and node attributes ``rank``
        (false or -1: a switch; default: a rank, in node order) and ``coords`` are used.
        """
    @classmethod
    def from_graphml(cls, path: str | PathLike[str], name: str | None = None) -> Fabric:
        """A fabric from a GraphML file (needs networkx), read as in ``from_networkx``."""
    @classmethod
    def from_rails(cls, topology: str) -> Fabric:
        """The fabric of a rails topology, every NPU, switch and link by itself (docs/rails.md)."""
    def to_json(self) -> str:
        """The fabric as JSON that ``from_json`` reads back as a graph: nodes and links, without dimensions or group."""
    def group(self, ranks: str | Sequence[int]) -> Fabric:
        """The part in which only these ranks take part, renumbered from 0 in this order; all other nodes forward.

        ``ranks`` may be text, ``0,1,8,9`` or ``0-3,8-11``. The same as the specification with the ranks in brackets,
        ``mesh:8x8[0-3,8-11]``. A box of a product of dimensions (part of a mesh, a row of a torus) is a product.

        Raises:
            AntiphonError: ``bad-spec`` for ranks that do not exist or are there twice, and for fewer than two.
        """
    def groups(self, which: str) -> list[Fabric]:
        """Groups that share no rank: ``rows`` or ``columns`` of two dimensions, ``dimension=K`` (from 0, in the
        order of the sizes), or the path of a JSON file with lists of ranks.

        Raises:
            AntiphonError: ``not-applicable``, ``bad-spec``, ``bad-file`` or ``too-large``.
        """
    def neighbors(self, node: int | str) -> list[int]:
        """The nodes that the links of a node, given by number or name, lead to, each once, in the order of the links.

        Raises:
            AntiphonError: ``bad-spec`` for a node that does not exist.
        """
    def link(self, a: int | str, b: int | str) -> int:
        """The number of the link from a node to another, given by number or name; the first where several join them.

        Raises:
            AntiphonError: ``bad-spec`` for nodes that do not exist or that no link joins.
        """
    def rank(self, *position: int) -> int:
        """The rank at a position of a product of dimensions, in the order of its sizes: ``rank(row, column)``.

        Raises:
            AntiphonError: ``not-applicable`` for other fabrics, ``bad-spec`` for a position that does not exist.
        """
    @property
    def members(self) -> list[int] | None:
        """Of a group, the ranks of the whole fabric that its ranks are; None for a whole fabric."""
    @property
    def notes(self) -> list[str]:
        """What was taken where the file that it was read from says nothing, a line each."""
    @property
    def name(self) -> str:
        """The specification it was made from."""
    @property
    def ranks(self) -> int:
        """Number of ranks."""
    @property
    def nodes(self) -> _Columns:
        """Per node: ``name``, ``rank`` (-1 for switches), ``coord_0``, ``coord_1``, ..."""
    @property
    def links(self) -> _Columns:
        """Per directed link: ``from``, ``to`` (nodes), ``dimension``, ``rate_gb_per_s`` and
        ``latency_ns`` (NaN: the system's), ``speed`` (1 = full), ``energy_pj_per_bit`` (NaN: the
        system's), ``length_mm`` (NaN: not known)."""
    @property
    def dimensions(self) -> _Columns:
        """Per dimension of a product, in the order of the sizes: ``shape`` (``line``, ``ring``, ``clique``,
        ``switch``), ``size``, ``rate_gb_per_s`` from a node to a neighbour and ``latency_ns`` between
        neighbours, through the switch if there is one (NaN: the system's). Empty for other fabrics."""
    @property
    def configuration(self) -> str | None:
        """The configurations of a fabric that can be configured, as JSON with schema
        ``antiphon-configuration/1``; None for others."""
    @property
    def ports(self) -> _Columns:
        """Per port of every router of a fabric that can be configured: ``configuration``, ``router``,
        ``port`` (``+x``, ``-x``, ``+y``, ``-y``), and what its ``output`` and ``input`` attach: ``mesh``, a
        segment such as ``x0 0>3``, or nothing. Empty for other fabrics."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class System:
    """The parameters of a platform: links, packets, network interfaces, routers, reductions, processor.

    Made from a preset (``systems()`` lists them) and changed with ``with_``. Immutable,
    picklable, compared by value.
    """

    def __new__(cls, name: str = "generic") -> System: ...
    @classmethod
    def from_json(cls, text: str) -> System:
        """A system from the JSON of ``to_json``; what is left out has the value of ``generic``.

        Raises:
            AntiphonError: ``bad-file``, or as ``with_`` for values out of range.
        """
    def to_json(self) -> str:
        """The system as JSON."""
    def static_power_w(self, fabric: Fabric) -> float:
        """Watts that everything on a fabric takes together when nothing is done; 0 for what is unknown."""
    def with_(
        self,
        *,
        name: str | None = None,
        # arguments: make tables
        link_rate_gb_per_s: float | None = None,
        link_latency_ns: float | None = None,
        clock_ns: float | None = None,
        link_arbitration: str | None = None,
        link_switching: str | None = None,
        routing: str | None = None,
        hand_off_ns: float | None = None,
        reduce_rate_gb_per_s: float | None = None,
        processor: str | None = None,
        endpoint: str | None = None,
        packet_payload_bytes: _Size | None = None,
        flit_bytes: _Size | None = None,
        header_flits: SupportsIndex | None = None,
        fixed_size_packets: bool | None = None,
        interfaces: SupportsIndex | None = None,
        interface_assignment: str | None = None,
        interface_depth_packets: SupportsIndex | None = None,
        interface_virtual_channels: SupportsIndex | None = None,
        interface_issue_ns: float | None = None,
        router_clock_ns: float | None = None,
        router_virtual_channels: SupportsIndex | None = None,
        router_depth_flits: SupportsIndex | None = None,
        router_switching: str | None = None,
        router_allocator: str | None = None,
        router_iterations: SupportsIndex | None = None,
        router_routing_cycles: SupportsIndex | None = None,
        router_vc_allocation_cycles: SupportsIndex | None = None,
        router_switch_allocation_cycles: SupportsIndex | None = None,
        router_traversal_cycles: SupportsIndex | None = None,
        router_credit_cycles: SupportsIndex | None = None,
        router_input_speedup: SupportsIndex | None = None,
        router_output_speedup: SupportsIndex | None = None,
        router_internal_speedup: SupportsIndex | None = None,
        router_output_queue_flits: SupportsIndex | float | None = None,
        router_ejection: str | None = None,
        router_hand_off_ns: float | None = None,
        energy_link_pj_per_bit: float | None = None,
        energy_wire_pj_per_bit_mm: float | None = None,
        energy_buffer_pj_per_bit: float | None = None,
        energy_crossbar_pj_per_bit: float | None = None,
        energy_allocation_pj: float | None = None,
        energy_interface_pj_per_bit: float | None = None,
        energy_reduction_pj_per_bit: float | None = None,
        energy_memory_pj_per_bit: float | None = None,
        energy_sram_pj_per_bit: float | None = None,
        static_link_mw: float | None = None,
        static_router_mw: float | None = None,
        static_interface_mw: float | None = None,
        static_endpoint_mw: float | None = None,
        # end of arguments
    ) -> System:
        """A copy with the given parameters replaced (docs/parameters.md); text is read as on the command line.

        Raises:
            AntiphonError: ``unknown-name`` with the nearest known key or name; ``bad-size`` or ``bad-spec`` with key,
                value and range.
        """
    def parameters(self) -> list[Parameter]:
        """Every parameter; its default is the value of this system."""
    @property
    def name(self) -> str:
        """Preset name."""
    @property
    def description(self) -> str:
        """What it models and where its numbers are from."""
    # properties: make tables
    @property
    def link_rate_gb_per_s(self) -> float:
        """Rate of links that give none."""
    @property
    def link_latency_ns(self) -> float:
        """Propagation latency of links that give none."""
    @property
    def clock_ns(self) -> float:
        """Times of flits and reductions are rounded up to whole periods of this clock; 0: there is none."""
    @property
    def link_arbitration(self) -> str:
        """Which packet gets a link next, at fidelity packet: the one that came first, or one of each input in turn."""
    @property
    def link_switching(self) -> str:
        """When a packet goes on to its next link, at fidelity packet: as a whole, or from its first flit on."""
    @property
    def routing(self) -> str:
        """Which of equally short ways through switches messages take: shared, the first, or by a hash."""
    @property
    def hand_off_ns(self) -> float:
        """From the arrival of a message's last packet to the start of what waited for it."""
    @property
    def reduce_rate_gb_per_s(self) -> float:
        """Rate at which a rank adds received data to its own, one message at a time; inf: that is free."""
    @property
    def processor(self) -> str:
        """What computes on a rank, for training."""
    @property
    def endpoint(self) -> str:
        """What stands between a rank's memory and its links."""
    @property
    def packet_payload_bytes(self) -> int:
        """Most payload bytes in a packet."""
    @property
    def flit_bytes(self) -> int:
        """Bytes in a flit; a packet is a whole number of flits."""
    @property
    def header_flits(self) -> int:
        """Flits of header in front of the payload."""
    @property
    def fixed_size_packets(self) -> bool:
        """Whether short packets are padded to full payload."""
    @property
    def interfaces(self) -> int:
        """Network interfaces of a rank."""
    @property
    def interface_assignment(self) -> str:
        """Which interface takes a message: lowest free, next free in turn, by the receiver's number or by port."""
    @property
    def interface_depth_packets(self) -> int:
        """Packets that queue in one interface before it pushes back."""
    @property
    def interface_virtual_channels(self) -> int:
        """Virtual channels the packets of an interface are dealt to when they leave over several links."""
    @property
    def interface_issue_ns(self) -> float:
        """Time to hand one packet to an interface."""
    @property
    def router_clock_ns(self) -> float:
        """Period of the routers' clock."""
    @property
    def router_virtual_channels(self) -> int:
        """Virtual channels of every link, interface and ejection port."""
    @property
    def router_depth_flits(self) -> int:
        """Flits in the buffer of one virtual channel."""
    @property
    def router_switching(self) -> str:
        """When a packet may claim the next buffer: as flits of it fit, or as a whole."""
    @property
    def router_allocator(self) -> str:
        """Allocator of virtual channels and of the crossbar."""
    @property
    def router_iterations(self) -> int:
        """Iterations of each allocation."""
    @property
    def router_routing_cycles(self) -> int:
        """Route computation; 0 where it is done ahead."""
    @property
    def router_vc_allocation_cycles(self) -> int:
        """Allocation of a virtual channel."""
    @property
    def router_switch_allocation_cycles(self) -> int:
        """Allocation of the crossbar."""
    @property
    def router_traversal_cycles(self) -> int:
        """Crossing the router."""
    @property
    def router_credit_cycles(self) -> int:
        """From the arrival of a credit to its use."""
    @property
    def router_input_speedup(self) -> int:
        """Crossbar inputs of one input port: its virtual channels are dealt to them."""
    @property
    def router_output_speedup(self) -> int:
        """Crossbar outputs of one output port: input ports are dealt to them."""
    @property
    def router_internal_speedup(self) -> int:
        """Allocations in one cycle."""
    @property
    def router_output_queue_flits(self) -> float:
        """Flits that may wait between crossbar and link; inf: any number."""
    @property
    def router_ejection(self) -> str:
        """How flits leave their last router: switched by buffers and stages, or by a circuit to the local port."""
    @property
    def router_hand_off_ns(self) -> float:
        """From the arrival of a message's last flit at its interface to the start of what waited for it."""
    @property
    def energy_link_pj_per_bit(self) -> float:
        """A bit crosses a link that says no energy of its own."""
    @property
    def energy_wire_pj_per_bit_mm(self) -> float:
        """A bit crosses a millimetre of a link that says its length, beside what it costs in any case."""
    @property
    def energy_buffer_pj_per_bit(self) -> float:
        """A bit is written to a router's buffer and read from it."""
    @property
    def energy_crossbar_pj_per_bit(self) -> float:
        """A bit crosses the rest of a router."""
    @property
    def energy_allocation_pj(self) -> float:
        """A router allocates its crossbar for one flit."""
    @property
    def energy_interface_pj_per_bit(self) -> float:
        """A bit enters the network, or leaves it."""
    @property
    def energy_reduction_pj_per_bit(self) -> float:
        """A received bit is added to what is there."""
    @property
    def energy_memory_pj_per_bit(self) -> float:
        """A bit is read from memory, or written."""
    @property
    def energy_sram_pj_per_bit(self) -> float:
        """A bit is read from an engine's SRAM, or written."""
    @property
    def static_link_mw(self) -> float:
        """Static power of a link, one way."""
    @property
    def static_router_mw(self) -> float:
        """Static power of a router: of a rank or a switch."""
    @property
    def static_interface_mw(self) -> float:
        """Static power of a rank's network interfaces."""
    @property
    def static_endpoint_mw(self) -> float:
        """Static power of what a rank communicates with besides: memory, engine."""
    # end of properties
    def rounded_rates(self, fabric: Fabric) -> list[tuple[float, float]]:
        """Rates of a fabric's links that this system's clock rounds down, slowest first: as written, and at which they
        carry flits, in GB/s. Empty for systems without a clock."""
    def slowest_rate(self, fabric: Fabric) -> float | None:
        """Rate at which a fabric's slowest link carries flits, in GB/s; None without links."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Schedule:
    """A complete plan for one collective on one fabric. Immutable, picklable, compared by value.

    Made by ``build``, by a ``ScheduleBuilder`` or from JSON. Its size does not grow with the data.
    """

    @classmethod
    def from_json(cls, text: str, fabric: Fabric | None = None) -> Schedule:
        """A schedule from JSON (documented in docs/schedule.md), checked for ranges on ``fabric``, and that this
        has its routes if it has another name.

        Not verified: ``verify`` and ``simulate`` do that.

        Raises:
            AntiphonError: ``bad-file`` with the place, also for another fabric, or ``too-large``.
        """
    def to_json(self) -> str:
        """The schedule as JSON."""
    @property
    def group(self) -> list[int] | None:
        """For a group of a fabric's ranks, their numbers there; None if it is for all."""
    @property
    def lanes(self) -> _Columns:
        """A row for every lane: ``offset``, ``bytes``, ``chunks``, ``chunk_bytes``, ``stride``, ``source``, ``owner``.

        Like all tables here a dictionary of numpy arrays, from which ``pandas.DataFrame`` makes a frame.
        """
    @property
    def transfers(self) -> _Columns:
        """A row for every transfer: ``from``, ``to``, ``reduces``, ``lanes`` (how many), ``chunks``,
        ``message_bytes`` (of a chunk, on the wire), ``phase``, ``step``, ``hops``."""
    @property
    def payloads(self) -> _Columns:
        """A row for every lane that a transfer carries: ``transfer``, ``lane``."""
    @property
    def routes(self) -> _Columns:
        """A row for every link on a transfer's route: ``transfer``, ``hop``, ``link``."""
    @property
    def dependencies(self) -> _Columns:
        """A row for everything that a transfer waits for: ``transfer``, ``after`` (another transfer), ``sent``
        (its sending, else its applying), ``lag`` (chunks before), ``at_receiver`` (who waits)."""
    def busiest_link_ns(self, fabric: Fabric, system: _System = "generic") -> float:
        """Time for which its busiest link is at work: no run is shorter."""
    def assumed(self, fabric: Fabric) -> Schedule:
        """The same schedule, to be timed on this fabric though it is not proven.

        Its proof is not ``complete``, and says in ``gaps`` why. For reproductions of what others ran.

        Raises:
            AntiphonError: ``not-proven`` for wrong routes and for what could deadlock; as ``stats``.
        """
    @property
    def memory_bytes(self) -> int:
        """Memory that it takes, about."""
    def sends_the_same(self, other: Schedule) -> bool:
        """Whether another one sends the same messages in the same order, whatever made the two, how its
        phases are named and how near it claims to be to the optimum: then their runs are the same."""
    def stats(self, fabric: Fabric) -> Stats:
        """Steps, tree heights and bytes per link."""
    def verify(self, fabric: Fabric, system: _System = "generic") -> Proof:
        """See ``verify``."""
    def lower_bound(self, fabric: Fabric, system: _System = "generic", fidelity: str | None = None) -> Bound:
        """How fast its collective could be among the ranks that it does not exclude, on the nodes where it
        places them, at a fidelity, or at any for None; excluded ranks may forward and add. All zero if these ranks
        share one node."""
    def dynamic_energy(self, fabric: Fabric, system: _System = "generic") -> Energy:
        """What its messages take on a fabric, whenever they are sent, without static power."""
    def program(self) -> _Columns:
        """What every rank sends to each peer and receives from it, in order: a row for every transfer at either end.

        Columns: ``rank``; ``stream``, its number among those of the rank; ``peer``; ``action`` (``send``; ``reduce`` or
        ``copy`` what was received); ``transfer``, ``phase``, ``step``; ``after_barrier``, whether all earlier phases
        must be complete everywhere; ``waits``, how many rows of ``dependencies`` it has.
        """
    def execute(self, buffers: Sequence[_Buffer], seed: int | None = None, *, threads: bool = False) -> list[_Buffer]:
        """Runs the schedule on real data, in this process: the buffers that the ranks end with.

        Args:
            buffers: one array per rank of shape ``(bytes / itemsize,)``, all int32, int64, float32
                or float64; for an all-to-all, ``ranks`` times as long, one part per source.
            seed: without one, messages go in schedule order; with one, in a random order that
                respects only dependencies and barriers.
            threads: run the program of every rank, a thread for each peer and direction, at most 1024; their order is
                up to the machine, and ``seed`` only chooses when some pause.

        Raises:
            AntiphonError: ``bad-spec`` or ``bad-size`` for wrong buffers, ``too-large``.
        """
    @property
    def algorithm(self) -> str:
        """Algorithm that made it, with its options."""
    @property
    def fabric(self) -> str:
        """Name of the fabric it is for."""
    @property
    def collective(self) -> str:
        """What it computes, e.g. ``all-reduce``."""
    @property
    def root(self) -> int | None:
        """Root rank of a Broadcast or Reduce."""
    @property
    def bytes(self) -> int:
        """Full buffer size: with a matrix, the most that a rank sends."""
    @property
    def matrix(self) -> np.ndarray[Any, np.dtype[np.uint64]] | None:
        """Bytes from every rank, by row, to every other one, in an all-to-all by a matrix; None for others."""
    @property
    def matrix_bytes(self) -> int | None:
        """Sum of the matrix in bytes; None without."""
    @property
    def ranks(self) -> int:
        """Number of ranks of the fabric."""
    @property
    def excluded(self) -> list[int]:
        """Ranks that contribute nothing and need no result; they may still forward and add."""
    @property
    def bound_of(self) -> str:
        """What ``lower_bound`` is about: ``all-ranks`` on the fabric's own nodes, ``placement`` (all ranks, on
        other nodes) or ``participants`` (the ranks that are not excluded)."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Execution:
    """A proven schedule that is ready to be run in this process by threads, any number of times."""

    def __new__(cls, schedule: Schedule) -> Execution: ...
    def run(self, arrays: Sequence[np.ndarray[Any, np.dtype[Any]]], threads: int) -> None:
        """Runs it in place on one array a rank; ``antiphon.execute`` says more."""

@final
class Executor:
    """One rank of a running schedule, for a program that carries its messages. Memory is the rank's buffer as bytes;
    messages are known by tokens."""

    def __new__(cls, schedule: Schedule, rank: int, element: str) -> Executor: ...
    def restart(self) -> None:
        """Forgets all that has happened."""

    def sends(self, memory: _Bytes) -> list[tuple[int, int, int, int, _Bytes | None]]:
        """Starts the sends that may start: token, peer, first byte, end, None; or 0, 0, bytes where they are several
        pieces."""

    def receives(self) -> list[tuple[int, int, int, int, bool]]:
        """The messages to expect next, in order from every peer: token, peer, first byte, end, whether they must be
        received into that piece of the memory, or else apart."""

    def happened(self, tokens: Sequence[tuple[int, _Bytes | None]]) -> None:
        """Messages have left or have come, with what came where it is not yet in its place."""

    def apply(self, memory: _Bytes) -> bool:
        """Adds and stores what has come and may be; whether there was any."""

    def open(self, barriers: int) -> None:
        """All ranks have reached the first ``barriers``."""

    def waits_for(self) -> str | None:
        """The message that has not come yet, or not left, in words; None when done."""

    @property
    def memory_bytes(self) -> int: ...
    @property
    def input(self) -> tuple[int, int]:
        """First byte and end of the rank's own data before."""

    def own(self) -> _Bytes:
        """The rank's own data before: such that whatever goes wrong shows."""

    def wrong(self, memory: _Bytes) -> int:
        """Elements of the rank's memory that are not what the collective defines. Once all were right, a digest says
        so."""

    @property
    def reached(self) -> int:
        """Barriers, from the first, before which this rank has nothing left to do."""

    @property
    def is_done(self) -> bool:
        """Whether all messages have left and all that came is in its place."""

@final
class Node:
    """One node of a fabric whose links are TCP connections. ``ins`` and ``outs`` are (number of the link,
    ``address:port``): the node listens at the former and joins the latter, all within ``patience_s``. Packets carry
    ``packet_bytes`` of data."""

    def __new__(
        cls,
        ins: Sequence[tuple[int, str]],
        outs: Sequence[tuple[int, str]],
        packet_bytes: int,
        patience_s: float,
    ) -> Node: ...
    def probe(self, bytes: int) -> list[tuple[int, float]]:
        """Sends so many bytes on all links at once; all nodes must. Returns (link, bytes a second) of those that come
        in."""

    def run(
        self,
        schedule: Schedule,
        rank: int | None,
        memory: _Bytes | None,
        element: str,
        patience_s: float,
        tell: Callable[..., object],
    ) -> None:
        """Runs a schedule on all nodes, from the call of ``begin`` until that of ``end``. ``tell`` is called with
        ``("ready",)`` when it waits for ``begin``, with ``("reached", barriers)`` when the rank has reached so many,
        and with ``("done",)``."""

    def begin(self) -> None:
        """All nodes are ready."""

    def open(self, barriers: int) -> None:
        """The first ``barriers`` are open."""

    def end(self) -> None:
        """All ranks are done: the run ends."""

@final
class ScheduleBuilder:
    """Builds a schedule step by step.

    Cut the buffer into lanes, then add transfers. A transfer sees everything its sender received
    in earlier steps (and earlier phases) and nothing from its own step; dependencies follow from
    that. examples/custom_algorithm.py is a whole algorithm.

    Args:
        fabric: specification or Fabric, where it runs.
        collective: e.g. ``all-reduce``.
        bytes: full buffer size.
        name: shown as the algorithm.
        root: root rank of a broadcast or reduce.
        excluded: ranks that contribute nothing and need no result.
        conflict_free: claim, to be proven, that in every step each link carries one message.
    """

    def __new__(
        cls,
        fabric: str | Fabric,
        collective: str,
        bytes: _Size,
        name: str = "custom",
        *,
        root: int = 0,
        excluded: Sequence[int] = ...,
        conflict_free: bool = False,
    ) -> ScheduleBuilder: ...
    def phase(self, name: str, barrier: bool = False) -> None:
        """Starts a phase; with ``barrier``, it starts when all earlier ones are complete."""
    def lane(
        self,
        offset: int,
        bytes: int,
        chunks: int = 1,
        *,
        chunk_bytes: int | None = None,
        stride: int = 1,
        source: int = 0,
        owner: int = 0,
    ) -> int:
        """Adds a region of the buffer that streams in equal chunks and returns its number.

        Args:
            offset: first byte.
            bytes: length.
            chunks: number of chunks; every transfer of the lane is repeated for each.
            chunk_bytes: bytes on the wire of a chunk, if padded.
            stride: steps between successive chunks.
            source: rank that starts with the lane (all-gather, all-to-all).
            owner: rank that ends with the lane (reduce-scatter, all-to-all).
        """
    def reduce(
        self,
        from_: int,
        to: int,
        lane: int | Sequence[int],
        step: int,
        *,
        lanes: int = 1,
        route: Sequence[int] | None = None,
    ) -> int:
        """Rank ``from_`` sends a lane to rank ``to``, which adds it to its own; returns the number that it keeps.

        ``lane`` may be a list of lanes, which travel as one message, or the first of ``lanes`` adjacent ones;
        ``route`` is a list of links (default: a shortest path, on which parallel links act as one channel unless some
        ``route`` names one of them).
        """
    def copy(
        self,
        from_: int,
        to: int,
        lane: int | Sequence[int],
        step: int,
        *,
        lanes: int = 1,
        route: Sequence[int] | None = None,
    ) -> int:
        """As ``reduce``, but the receiver replaces its own."""
    def start_after(self, transfer: int, other: int, event: str = "applied", lag: int = 0) -> None:
        """Makes a transfer wait at its sender, beyond the data it carries.

        Args:
            transfer: what ``reduce`` or ``copy`` returned.
            other: the transfer that it waits for.
            event: ``applied`` (added or stored at its receiver) or ``sent`` (has left its sender).
            lag: chunk ``k`` waits for chunk ``k - lag`` of the other, at most 255.

        Raises:
            AntiphonError: ``bad-spec`` for transfers that were not added, and other events and lags.
        """
    def apply_after(self, transfer: int, other: int, event: str = "applied", lag: int = 0) -> None:
        """As ``start_after``, at the receiver, before what has arrived is added or stored."""
    def finish(self) -> Schedule:
        """The schedule, checked for ranges but not verified.

        Raises:
            AntiphonError: ``bad-file``, ``bad-spec`` or ``too-large``, naming the transfer or lane.
        """

def build(
    fabric: Fabric,
    algorithm: str,
    collective: str = "all-reduce",
    bytes: _Size = "64MiB",
    system: _System = "generic",
    root: int = 0,
    progress: Callable[[float], object] | None = None,
    matrix: np.ndarray[Any, np.dtype[np.uint64]] | None = None,
) -> Schedule:
    """The schedule of an algorithm ``name[:key=value,...]`` on a fabric.

    Chunks are cut to suit the packets of ``system``: simulate with the same, or short packets may be
    padded on another.

    Raises:
        AntiphonError: ``not-applicable`` with the reason if the algorithm does not fit,
            ``unknown-name`` with the nearest known one, ``bad-spec`` or ``bad-size``.
    """

def verify(
    fabric: Fabric,
    schedule: Schedule,
    progress: Callable[[float], object] | None = None,
    system: _System = "generic",
) -> Proof:
    """Proves that every rank ends with the right bytes and that nothing can deadlock.

    A certificate is checked for the links of ``system``. ``progress`` is called as by ``simulate``; the share starts
    again with every property.

    Raises:
        AntiphonError: ``not-proven`` with the first counter-example: rank, chunk, step, and what
            is missing or counted twice; or for a certificate that claims too much.
    """

def busiest_link_ns(
    fabric: Fabric,
    algorithm: str,
    collective: str = "all-reduce",
    bytes: _Size = "64MiB",
    system: _System = "generic",
    root: int = 0,
    matrix: np.ndarray[Any, np.dtype[np.uint64]] | None = None,
) -> float | None:
    """``Schedule.busiest_link_ns`` of the schedule of an algorithm, where that is known sooner than the schedule."""

def lower_bound(
    fabric: Fabric,
    collective: str = "all-reduce",
    bytes: _Size = "64MiB",
    system: _System = "generic",
    root: int = 0,
    matrix: np.ndarray[Any, np.dtype[np.uint64]] | None = None,
    fidelity: str | None = None,
) -> Bound:
    """How fast any schedule for all ranks could be, at a fidelity, or at any for None."""

def configure(
    fabric: str,
    algorithms: Sequence[str],
    collective: str = "all-reduce",
    bytes: _Size = "64MiB",
    system: _System = "generic",
    root: int = 0,
    schedule: Schedule | None = None,
    fidelity: str = "packet",
    method: str = "search",
    switch: str | None = None,
    steps: SupportsIndex = 400,
    progress: Callable[[float], object] | None = None,
) -> Configured:
    """The configuration in which one of some algorithms is fastest; ``antiphon.configure`` says more."""

def replan(
    schedule: Schedule,
    fabric: Fabric,
    fail: Sequence[str],
    system: _System = "generic",
    progress: Callable[[float], object] | None = None,
) -> Replanned:
    """A schedule for what is left of a fabric after a failure; ``antiphon.replan`` says more."""

def formats() -> list[tuple[str, str, str, list[str]]]:
    """Formats of other tools: name, what it is, how files of it end, and who reads it, the default first."""

def format_of(text: str) -> str | None:
    """The name of the format of a text; None for JSON."""

def prove_file(text: str) -> FileProof:
    """That a program of another tool's format computes its collective; ``antiphon.prove_file`` says more."""

def load(
    text: str, fabric: Fabric | None = None, bytes: _Size = "64MiB", placement: Sequence[int] | None = None
) -> Schedule:
    """The schedule of JSON, or of another tool's format; ``antiphon.load`` says more."""

def export(schedule: Schedule, format: str = "msccl", consumer: str | None = None) -> str:
    """A schedule in another tool's format; ``antiphon.export`` says more."""

def area(fabric: Fabric, system: _System = "generic") -> Area:
    """Area of a fabric's routers and its ranks' engines; ``antiphon.area`` takes specifications."""

def simulate(
    fabric: Fabric,
    schedule: Schedule,
    system: _System = "generic",
    fidelity: str = "packet",
    progress: Callable[[float], object] | None = None,
    energy: bool = False,
    trace: Callable[[str], object] | None = None,
    jobs: SupportsIndex = 1,
) -> SimulationResult:
    """Proves a schedule, then times it.

    Args:
        fabric: the fabric the schedule is for.
        schedule: what to time.
        system: preset name or System.
        fidelity: ``alpha-beta``, ``packet`` or ``flit``.
        progress: called about ten times a second with the share done, 0 to 1; an exception it
            raises ends the run.
        energy: also what it takes.
        trace: called with what happened when, in Chrome's trace event format.
        jobs: cores that a long run in packets uses.

    Raises:
        AntiphonError: ``not-proven``; ``stalled`` with the chain of waits; ``too-large``.
        KeyboardInterrupt: on Ctrl-C, within about a tenth of a second.
    """

def simulate_flights(
    fabric: Fabric,
    flights: Sequence[tuple[Schedule, float, Sequence[int], int]],
    system: _System = "generic",
    fidelity: str = "packet",
    order: str = "fifo",
    progress: Callable[[float], object] | None = None,
    energy: bool = False,
    trace: Callable[[str], object] | None = None,
) -> SimulationResult:
    """Proves schedules, then times them in flight together; ``antiphon.simulate_flights`` takes objects.

    Args:
        flights: schedule, start in ns, numbers of the flights before it, priority.
        trace: as in ``simulate``.
    """

def noc(
    fabric: Fabric,
    traffic: str,
    rate: float,
    progress: Callable[[float], object] | None = None,
    energy: bool = False,
    platform: _System = "generic",
    jobs: int = 1,
    **options: Unpack[NocOptions],
) -> NocResult:
    """See ``antiphon.noc``."""

def router_parameters() -> list[Parameter]:
    """The parameters of the routers of ``noc``, with their defaults there."""

def traffic_patterns() -> list[str]:
    """Names of the patterns of synthetic traffic."""

@final
class Workload:
    """The layers of a model, in the order of the forward pass; a preset by name.

    Immutable, picklable, compared by value.

    Raises:
        AntiphonError: ``unknown-name`` with the nearest known one.
    """

    def __new__(cls, name: str) -> Workload: ...
    @classmethod
    def from_csv(cls, name: str, text: str) -> Workload:
        """A workload from the text of a table (docs/workloads.md); ``name`` is shown in results.

        Raises:
            AntiphonError: ``bad-file`` with row and column, ``too-large``.
        """
    @property
    def name(self) -> str:
        """Name of the preset or file."""
    @property
    def params(self) -> int:
        """Weights of all layers."""
    @property
    def measured(self) -> bool:
        """Whether the table has times of its own."""
    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class ExecutionTrace:
    """What every rank computes and exchanges, read from Chakra's traces or made from a training plan."""

    @staticmethod
    def read(
        paths: Sequence[str],
        compute: str | None = None,
        groups: str | None = None,
        progress: Callable[[float], object] | None = None,
    ) -> ExecutionTrace:
        """The traces of ranks 0, 1, ... in files.

        Args:
            paths: a file for each rank.
            compute: ``roofline[:key=value,...]``: times nodes that say their operations only.
            groups: JSON of the ranks of each group by name.
            progress: called with the share done.

        Raises:
            AntiphonError: ``bad-file`` with file and node; ``not-applicable``, ``too-large``.
        """
    @property
    def ranks(self) -> int:
        """Ranks that have a trace."""
    @property
    def nodes(self) -> int:
        """Nodes of all ranks."""
    @property
    def untimed(self) -> int:
        """Nodes that compute for a time that no one says."""
    @property
    def groups(self) -> list[tuple[str, list[int]]]:
        """Groups as (name, ranks); the first is of all ranks and has no name."""
    @property
    def exchanges(self) -> _Columns:
        """Per exchange ``name``, ``kind``, ``bytes``, ``group`` (its number), ``from`` and ``to`` of a message (else
        -1), and ``moves``, whether it needs the network."""
    def write(self, rank: SupportsIndex) -> bytes:
        """The Chakra trace of a rank.

        Raises:
            AntiphonError: ``bad-size``; ``not-applicable`` for what the format cannot say, such as layers that wait for
                parts of exchanges, and computation that takes longer beside them.
        """
    def groups_json(self) -> str | None:
        """The groups that the traces name, as JSON; None if there are none."""
    def run(
        self,
        fabric: Fabric,
        schedules: Sequence[Schedule | None],
        system: System,
        fidelity: str = "packet",
        order: str = "priority",
        progress: Callable[[float], object] | None = None,
    ) -> dict[str, Any]:
        """``time_ns``, and columns of ``ranks`` and ``exchanges``; exchange ``i`` is done by ``schedules[i]``.

        Raises:
            AntiphonError: as ``simulate_flights``; ``stalled`` if ranks wait for each other.
        """

@final
class TrainingPlan:
    """One iteration of data-parallel training, before the times of its exchanges are known.

    Args:
        workload: the model.
        compute: ``systolic``, ``roofline`` or ``measured``, ``[:key=value,...]``.
        batch: samples on each rank, or on those that share a model.
        endpoint: what stands between memory and links; computation lacks what it takes.
        options: as in ``antiphon.train``.

    Raises:
        AntiphonError: ``not-applicable`` naming the layer that the compute model cannot time, or for options that
            change nothing, ``unknown-name``, ``bad-spec``, ``bad-size``, ``bad-file``, ``too-large``.
    """

    def __new__(
        cls,
        workload: Workload,
        compute: str,
        batch: SupportsIndex,
        endpoint: str = "system",
        **options: Unpack[TrainOptions],
    ) -> TrainingPlan: ...
    @property
    def gradients(self) -> list[bool]:
        """For each exchange, whether it is of weights' gradients."""
    @property
    def exchanges(self) -> list[tuple[str, int]]:
        """(collective, bytes) of every exchange."""
    @property
    def parts(self) -> list[list[int]]:
        """For every exchange, the first bytes that layers of the forward pass wait for, ascending."""
    @property
    def layers(self) -> _Columns:
        """Per layer, its name (``layer``), ``forward_ns``, ``input_gradient_ns``, ``weight_gradient_ns``
        and ``gradient_bytes``."""
    def run(self, times_ns: Sequence[float], chunks: Sequence[_Columns | None] = ()) -> Iteration:
        """The iteration in which exchange ``i`` takes ``times_ns[i]``, one after another in the order
        in which they become ready.

        ``chunks[i]`` is the table ``chunks`` of its simulation; it is needed where there are ``parts``.

        Raises:
            AntiphonError: ``bad-size``, ``not-applicable`` if a needed table is missing, ``too-large`` if
                it does not have every chunk.
        """
    def run_shared(
        self,
        fabric: Fabric,
        schedules: Sequence[Sequence[Schedule]],
        system: System,
        fidelity: str = "packet",
        progress: Callable[[float], object] | None = None,
        order: str = "priority",
    ) -> Iteration:
        """The iteration in which exchange ``i`` is done by ``schedules[i]``, one for each group of ranks.

        It is in flight with all others that are ready.

        Schedules are proven first. ``order``: with ``priority`` gradients that have one go first on links.

        Raises:
            AntiphonError: as ``simulate``; ``too-large`` where parts are waited for and chunks are too many.
        """
    def trace(self, ranks: SupportsIndex) -> ExecutionTrace:
        """What each of so many ranks does, as an execution trace.

        Args:
            ranks: a multiple of ``model_parallel``.

        Raises:
            AntiphonError: ``too-large``, ``bad-size``.
        """
    def run_on_rails(
        self,
        topology: str,
        scheduler: str = "search",
        intra: str | None = None,
        chunks: SupportsIndex | None = None,
        offload: bool = False,
        order: str = "priority",
        platform: _System | None = None,
    ) -> tuple[Iteration, list[Energy], float]:
        """The iteration on a multi-dimensional network, where exchanges in flight share dimensions.

        With it what each exchange takes, and watts of static power, by the energies of ``platform``.

        Exchanges of gradients run among ranks with the same part of the model, others among those
        that a layer is divided over: the first dimensions.

        Raises:
            AntiphonError: as ``rails``; ``not-applicable`` if the dimensions cannot be divided so.
        """

def workloads() -> list[tuple[str, str, str]]:
    """(name, meaning, source) of every model that is known by name."""

def compute_models() -> list[tuple[str, str, list[Parameter]]]:
    """(name, meaning, options) of every compute model."""

def engine_parts(endpoint: str) -> list[tuple[str, float, float]]:
    """(name, area in square micrometres, power in mW) of each part of an engine (ACE, ISCA 2021, Table IV, scaled).

    Raises:
        AntiphonError: ``not-applicable`` for an endpoint that has none; as ``System.with_`` for the endpoint.
    """

def endpoints() -> list[tuple[str, str, list[Parameter], str]]:
    """(name, meaning, options, what a preset stands for) of every endpoint."""

def default_batch(compute: str) -> int:
    """Samples on a rank unless said otherwise: one for each PE of a systolic array, else 32."""

def inputs(command: str) -> list[tuple[Parameter, bool, str]]:
    """What the core takes of a command, ``train``, ``noc``, ``routers`` (of ``noc``) or ``rails``: a parameter, whether
    it need not be given, so that its default is in words, and what it changes nothing without, or nothing."""

def settled(**options: Unpack[TrainOptions]) -> dict[str, Any]:
    """The values of all that ``inputs("train")`` has, given or not."""

def iterations(dataset: SupportsIndex, batch: SupportsIndex, ranks: SupportsIndex) -> int:
    """Iterations of an epoch, ``ceil(dataset / (batch * ranks))`` (TTO paper, Eq. 1)."""

def rails(
    topology: str,
    bytes: _Size,
    collective: str,
    scheduler: str,
    enforced: bool = True,
    endpoint: str = "system",
    energy: bool = False,
    platform: _System = "ideal",
    **options: Unpack[RailsOptions],
) -> RailsRun:
    """See ``antiphon.rails``."""

def rails_messages(
    topology: str,
    bytes: _Size,
    collective: str,
    scheduler: str,
    slices: SupportsIndex = 1,
    **options: Unpack[RailsOptions],
) -> tuple[Fabric, Schedule]:
    """See ``antiphon.rails_messages``."""

def rails_topologies() -> list[tuple[str, str]]:
    """(name, dimensions) of the known multi-dimensional networks."""

def rails_schedulers() -> list[str]:
    """Names of the schedulers of ``rails``."""

def rails_queues() -> list[str]:
    """Names of the queue policies of ``rails``."""

def advise_rails(topology: str) -> RailsAdvice:
    """What the rates of a multi-dimensional network are good for.

    Raises:
        AntiphonError: as ``rails``.
    """

def advise_trees(ranks: SupportsIndex, bytes: _Size, latency: str = "12.4us", gb_per_s: float = 25.0) -> TreesAdvice:
    """Ring, tree and overlapped tree by the cost model of C-Cube (HPCA 2023, Eqs 2, 5 and 7; docs/trees.md).

    Args:
        ranks: 2 to 2^20.
        bytes: full buffer size.
        latency: of one step, with a unit.
        gb_per_s: rate of one link in one direction, in units of 1e9 bytes per second.

    Raises:
        AntiphonError: ``bad-size``; ``too-large`` where a time is.
    """

def algorithms() -> list[Algorithm]:
    """All algorithms, in documentation order."""

def algorithm_scales() -> dict[str, str]:
    """How runs of each algorithm are among those of others, by its name: "short" if its schedules have far fewer
    messages than there are pairs of ranks, or soon repeat themselves; "large", in memory, if they have a transfer or
    two for every pair; "usual" else."""

def fabrics() -> list[tuple[str, str, str]]:
    """(kind, example of a specification, meaning) of every kind of fabric."""

def add_algorithm(
    name: str,
    summary: str,
    source: str,
    collectives: list[str],
    options: list[tuple[str, str, str | None, str]],
    function: Callable[[Fabric, str, int, System, int, dict[str, Any]], Schedule | str],
) -> None:
    """Adds an algorithm; one of the same name is replaced. ``function`` takes fabric, collective, bytes, system, root
    and the options that are given, and returns a schedule, or why there is none. ``options`` has tuples (key, its
    values in words, default, meaning): a flag has the values ``yes or no``, all others come as text."""

def add_fabric(name: str, example: str, description: str, function: Callable[[str], Fabric]) -> None:
    """Adds a kind of fabric; one of the same name is replaced. ``function`` takes what stands behind the colon."""

def add_scheduler(
    name: str, function: Callable[[str, int, int, list[str], list[float]], tuple[list[int], list[int]]]
) -> None:
    """Adds a scheduler of ``rails``; one of the same name is replaced. ``function`` takes collective, number of a
    chunk, its bytes, dimensions, and for how many ns each is busy with the chunks before; it returns the dimensions,
    from 0, in the order before the AllGather and in that of the AllGather."""

def remove_added(name: str) -> None:
    """Removes an algorithm, kind of fabric and scheduler of a name, if they were added."""

def systems() -> list[str]:
    """Names of the system presets."""

def collective_name(name: str) -> str:
    """The name of a collective whose words may be joined by ``_`` or by nothing."""

def collectives() -> list[str]:
    """Names of the collectives."""

def chakra_files(schedule: Schedule) -> list[bytes]:
    """The Chakra traces of a schedule, by rank, read back as what was to be written.

    Raises:
        AntiphonError: ``not-applicable`` for what a trace cannot say; ``too-large``, ``not-proven``.
    """

def check_fidelity(name: str) -> None:
    """Refuses a name that is no fidelity.

    Raises:
        AntiphonError: ``unknown-name``, listing the known ones.
    """

def fidelities() -> list[str]:
    """Names of the simulation fidelities, cheapest first."""

def bus_factor(collective: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth on ``ranks`` ranks, as in the NCCL tests."""

def parse_bytes(bytes: _Size) -> int:
    """A size as a number of bytes.

    Raises:
        AntiphonError: ``bad-size`` unless it is a whole, positive number up to 1 PiB.
    """

def format_bytes(bytes: _Size) -> str:
    """A size with the largest unit that is exact, e.g. ``64MiB``."""

def shard(bytes: _Size, parts: int, index: int) -> tuple[int, int]:
    """Start and length of shard ``index`` of a buffer cut into ``parts`` shards."""
