"""The process group: which collective a call of PyTorch is, and on which memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend

from antiphon.torch.collectives import Planned
from antiphon.torch.elements import divide, reduction
from antiphon.torch.exchange import Messages
from antiphon.torch.failures import failure
from antiphon.torch.memory import Call, array, plain
from antiphon.torch.work import UNLIMITED, Batch, Finished, Request, Steps, Work, in_turn
from antiphon.torch.world import World, enter, identifier

NAME = "antiphon"
# Numbers that the carrier tells messages apart by, of one group: collectives, messages of the user, those of
# collectives, those of the monitored barrier.
COLLECTIVES, USER, PARTS, MONITORED, KINDS = 0, 1, 2, 3, 4
TAGS = 0xFFFF_FFFF
# PyTorch's C++ half may hold a work and not its Python half: waiting for such a one would never end. Those that it is
# known to hold are small (DDP's join); larger ones are not kept, for their tensors' sake.
KEPT, KEPT_BYTES, RECENT = 1024, 1 << 16, 8


class Card(Backend):  # type: ignore[misc]  # torch is not there when types are checked
    """What PyTorch asks a group's backend for: name and time limit; it runs nothing."""

    def __init__(self, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self.kept = Backend.Options(NAME, timeout)

    def getBackendName(self) -> str:
        """The name of the backend."""
        return NAME

    @property
    def options(self) -> Any:
        """Name and time limit."""
        return self.kept

    @property
    def supports_coalescing(self) -> bool:
        """Messages of a batch are sent one by one."""
        return False


class AntiphonGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A process group of PyTorch on a world of joined processes.

    Attributes:
        planned: its collectives by plans.
        messages: its collectives by messages.
    """

    def __init__(self, store: Any, rank: int, ranks: Sequence[int], timeout: timedelta, name: str) -> None:
        super().__init__(rank, len(ranks))
        self.limit_s = timeout.total_seconds()
        self.world: World | None = enter(store, rank, ranks, self.limit_s)
        world = self.world
        number = identifier(world, store, rank, self.limit_s) * KINDS
        nodes = [world.ranks.index(each) for each in ranks]
        self.numbers, self.nodes, self.own, self.parties, self.called = number, nodes, rank, len(ranks), name
        self.worker, self.carrier = world.worker, world.carrier
        self.planned = Planned(world, nodes, rank, number + COLLECTIVES, self.limit_s)
        self.messages = Messages(self.planned, number + PARTS)
        self.batch: list[Any] | None = None
        self.kept: deque[Any] = deque(maxlen=KEPT)
        self.recent: deque[Any] = deque(maxlen=RECENT)
        self.all_reduce = self._named("all_reduce")
        self.card = Card(rank, len(ranks), timeout) if hasattr(Backend, "Options") else None  # PyTorch 2.4 asks none
        for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
            self._register_backend(torch.device(device), dist.ProcessGroup.BackendType.CUSTOM, self.card)
        if self.card is not None:
            self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)

    def getBackendName(self) -> str:
        """The name of the backend."""
        return NAME

    @property
    def group_name(self) -> str:
        """By which PyTorch finds it."""
        return self.called if self.card is None else super().group_name

    # What all calls do.

    def _issue(
        self, name: str, tensors: list[Any], opts: Any, steps: Callable[[Call], Steps], shown: Sequence[Any] = ()
    ) -> Any:
        """Begins a call, and ends it unless it is asynchronous."""
        if self.world is None:
            raise failure("its process group was destroyed", self._named(name))
        limit = getattr(opts, "timeout", UNLIMITED)
        limit_s = limit.total_seconds() if limit > UNLIMITED else self.limit_s
        with _recorded(name, shown or tensors):
            call = Call(self.world.scratch)
            work = Work(self.worker, self._named(name), tensors, limit_s)
            work.steps = _whole(work, call, steps)
            waits = not getattr(opts, "asyncOp", True)
            if not waits and sum(each.nbytes for each in tensors if not each.is_sparse) <= KEPT_BYTES:
                self.kept.append(work)
            elif self.card is None:  # PyTorch 2.4 never keeps it, but asks soon for what it wants
                self.recent.append(work)
            if work.prepare():
                self.worker.begin(work, alone=not waits)
            if waits:
                work.wait()
        if self.batch is not None:
            self.batch.append(work)
        return work

    def _named(self, name: str) -> str:
        return f"{name} of group {self.called or 'default'} at rank {self.own}"

    # Collectives by plans.

    def allreduce(self, tensors: list[Any], opts: Any = None) -> Any:
        """Adds up a tensor of all ranks, in place."""
        (tensor,) = _one("allreduce", tensors)
        if tensor.is_sparse:
            return self.allreduce_sparse(tensors, opts)
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        how = reduction(tensor.dtype, op)
        planned = self.planned
        if (
            opts is not None
            and not getattr(opts, "asyncOp", True)
            and planned.plans is not None
            and planned.world.recovery is None
            and self.batch is None
            and not torch.autograd._profiler_enabled()
            and plain(tensor)
            and tensor.numel()
        ):  # as short as it can be: small tensors are judged by it
            data = array(tensor)
            request = planned.request(planned.plans.plan("all-reduce", data.nbytes), [(0, data)], how)
            limit = opts.timeout
            limit_s = limit.total_seconds() if limit > UNLIMITED else self.limit_s
            if self.worker.direct(request, self.all_reduce, limit_s) is None:
                planned.run(_alone(request), self.all_reduce, limit_s)
            if how.mean:
                divide(tensor.detach(), self.parties)
            return Finished(tensors)
        return self._issue("all_reduce", tensors, opts, lambda call: planned.all_reduce(call, tensors, how))

    def allreduce_coalesced(self, tensors: list[Any], opts: Any = None) -> Any:
        """Adds up several tensors of all ranks, in place."""
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        kinds: dict[Any, list[Any]] = {}
        for tensor in tensors:
            kinds.setdefault(tensor.dtype, []).append(tensor)
        hows = {dtype: reduction(dtype, op) for dtype in kinds}

        def steps(call: Call) -> Steps:
            return in_turn(self.planned.all_reduce(call, alike, hows[dtype]) for dtype, alike in kinds.items())

        return self._issue("all_reduce_coalesced", tensors, opts, steps)

    def allreduce_sparse(self, tensors: list[Any], opts: Any = None) -> Any:
        """Adds up a sparse tensor of all ranks, in place."""
        (tensor,) = _one("allreduce_sparse", tensors)
        if opts is not None and opts.reduceOp != dist.ReduceOp.SUM:
            raise NotImplementedError("antiphon: allreduce of sparse tensors is a sum; use ReduceOp.SUM")
        return self._issue(
            "sparse_all_reduce", tensors, opts, lambda call: self.messages.all_reduce_sparse(call, tensor)
        )

    def broadcast(self, tensors: list[Any], opts: Any = None) -> Any:
        """The root's tensor to all."""
        (tensor,) = _one("broadcast", tensors)
        root = 0 if opts is None else opts.rootRank
        return self._issue("broadcast", tensors, opts, lambda call: self.planned.broadcast(call, tensor, root))

    def reduce(self, tensors: list[Any], opts: Any = None) -> Any:
        """The sum of a tensor of all ranks, at the root."""
        (tensor,) = _one("reduce", tensors)
        root = 0 if opts is None else opts.rootRank
        how = reduction(tensor.dtype, dist.ReduceOp.SUM if opts is None else opts.reduceOp)
        return self._issue("reduce", tensors, opts, lambda call: self.planned.reduce(call, tensor, root, how))

    def allgather(self, outputs: list[list[Any]], inputs: list[Any], opts: Any = None) -> Any:
        """A tensor of every rank to a list on every rank; of other sizes, too."""
        (taken,), (given,) = _one("allgather", outputs), _one("allgather", inputs)
        self._count("allgather", taken)
        size = given.numel() * given.element_size()
        if all(each.numel() * each.element_size() == size for each in taken):
            parts = [[each] for each in taken]
            steps = partial(self.planned.all_gather, outputs=parts, inputs=[given])
        else:
            steps = partial(self.messages.all_gather, outputs=taken, tensor=given)
        return self._issue("all_gather", list(taken), opts, steps, shown=inputs)

    def allgather_coalesced(self, outputs: list[list[Any]], inputs: list[Any], opts: Any = None) -> Any:
        """Several tensors of every rank to lists on every rank."""
        self._count("allgather_coalesced", outputs)
        tensors = [tensor for part in outputs for tensor in part]
        for part in outputs:
            _same_sizes("allgather_coalesced", part, inputs)
        steps = partial(self.planned.all_gather, outputs=outputs, inputs=inputs)
        return self._issue("all_gather_coalesced", tensors, opts, steps, shown=inputs)

    def all_gather_single(self, output: Any, source: Any, opts: Any = None) -> Any:
        """A tensor of every rank to one long tensor."""
        return self.all_gather_single_coalesced([output], [source], opts)

    def all_gather_single_coalesced(self, outputs: list[Any], inputs: list[Any], opts: Any = None) -> Any:
        """Several tensors of every rank, each to one long tensor."""
        _same_sizes("all_gather_single", outputs, inputs, self.parties)

        def steps(call: Call) -> Steps:
            given = [call.source(tensor) for tensor in inputs]
            wholes = [call.target(tensor, filled=False) for tensor in outputs]
            yield from self.planned.gathered(call, self._shards(wholes), given)

        return self._issue("_allgather_base", outputs, opts, steps, shown=inputs)

    def reduce_scatter(self, outputs: list[Any], inputs: list[list[Any]], opts: Any = None) -> Any:
        """The sums of tensors of all ranks, one to each rank."""
        (taken,), (given,) = _one("reduce_scatter", outputs), _one("reduce_scatter", inputs)
        self._count("reduce_scatter", given)
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        how = reduction(taken.dtype, op)
        if any(each.numel() != taken.numel() for each in given):
            # The sum of each part to its rank, as that rank's size says.
            def uneven(call: Call) -> Steps:
                taken.copy_(given[self.own])
                sums = [taken if rank == self.own else each.detach().clone() for rank, each in enumerate(given)]
                return in_turn(self.planned.reduce(call, each, rank, how) for rank, each in enumerate(sums))

            return self._issue("reduce_scatter", outputs, opts, uneven, shown=given)
        parts = [[each] for each in given]
        steps = partial(self.planned.reduce_scatter, outputs=[taken], inputs=parts, how=how)
        return self._issue("reduce_scatter", outputs, opts, steps, shown=given)

    def reduce_scatter_single(self, output: Any, source: Any, opts: Any = None) -> Any:
        """The sum of a long tensor of all ranks, a shard to each rank."""
        return self.reduce_scatter_single_coalesced([output], [source], opts)

    def reduce_scatter_single_coalesced(self, outputs: list[Any], inputs: list[Any], opts: Any = None) -> Any:
        """The sums of several long tensors of all ranks, a shard of each to each rank."""
        _same_sizes("reduce_scatter_single", inputs, outputs, self.parties)
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        kinds: dict[Any, tuple[list[Any], list[Any]]] = {}
        for output, source in zip(outputs, inputs, strict=True):
            alike = kinds.setdefault(output.dtype, ([], []))
            alike[0].append(output)
            alike[1].append(source)
        hows = {dtype: reduction(dtype, op) for dtype in kinds}

        def part(call: Call, dtype: Any) -> Steps:
            some, sources = kinds[dtype]
            taken = [call.target(tensor, filled=False) for tensor in some]
            given = self._shards([call.source(tensor) for tensor in sources])
            yield from self.planned.scattered(call, taken, given, hows[dtype])
            if hows[dtype].mean:
                for each in taken:
                    divide(torch.from_numpy(each).view(dtype), self.parties)

        def steps(call: Call) -> Steps:
            return in_turn(part(call, dtype) for dtype in kinds)

        return self._issue("_reduce_scatter_base", outputs, opts, steps, shown=inputs)

    def all_to_all_single(
        self, output: Any, source: Any, outs: Sequence[int], ins: Sequence[int], opts: Any = None
    ) -> Any:
        """Rows of a tensor to each rank, and rows of a tensor from each; without numbers of rows, equal shards."""
        if outs or ins:
            for rows, tensor in ((outs, output), (ins, source)):
                if rows and (len(rows) != self.parties or sum(rows) != tensor.shape[0]):
                    raise ValueError(
                        f"antiphon: all_to_all_single: rows {list(rows)} of a tensor of {tensor.shape[0]}: "
                        f"give {self.parties} numbers that add up to it"
                    )
            outs = outs or [output.shape[0] // self.parties] * self.parties
            ins = ins or [source.shape[0] // self.parties] * self.parties
            steps = partial(self.messages.all_to_all_split, output=output, source=source, outs=outs, ins=ins)
        else:
            if output.numel() != source.numel() or source.numel() % self.parties:
                raise ValueError(
                    f"antiphon: all_to_all_single: {source.numel()} numbers to {output.numel()} "
                    f"between {self.parties} ranks: give equal tensors that divide by the ranks, or numbers of rows"
                )
            steps = partial(self.planned.all_to_all, output=output, source=source)
        return self._issue("all_to_all", [output], opts, steps, shown=[source])

    def barrier(self, opts: Any = None) -> Any:
        """Waits until all ranks have come."""
        return self._issue("barrier", [], opts, lambda _: self.planned.barrier())

    # Collectives by messages.

    def alltoall(self, outputs: list[Any], inputs: list[Any], opts: Any = None) -> Any:
        """A tensor to each rank and one from each, of any sizes."""
        self._count("alltoall", outputs)
        self._count("alltoall", inputs)
        steps = partial(self.messages.all_to_all, outputs=outputs, inputs=inputs)
        return self._issue("all_to_all", outputs, opts, steps, shown=inputs)

    def gather(self, outputs: list[list[Any]], inputs: list[Any], opts: Any = None) -> Any:
        """Every rank's tensor to a list at the root."""
        (given,) = _one("gather", inputs)
        root = 0 if opts is None else opts.rootRank
        taken = outputs[0] if outputs else []
        if self.own == root:
            self._count("gather", taken)
        steps = partial(self.messages.gather, outputs=taken, tensor=given, root=root)
        return self._issue("gather", list(taken), opts, steps, shown=inputs)

    def gather_single(self, output: Any, source: Any, opts: Any = None) -> Any:
        """Every rank's tensor to one long tensor at the root."""
        root = 0 if opts is None else opts.rootRank
        if self.own == root:
            _same_sizes("gather_single", [output], [source], self.parties)

        def steps(call: Call) -> Steps:
            nothing: list[Any] = [None] * self.parties
            taken, given = list(nothing), list(nothing)
            given[root] = call.source(source)
            if self.own == root:
                taken = [each[0] for each in self._shards([call.target(output, filled=False)])]
            yield from self.messages.exchange(call, taken, given)

        return self._issue("gather", [output], opts, steps, shown=[source])

    def scatter(self, outputs: list[Any], inputs: list[list[Any]], opts: Any = None) -> Any:
        """The root's tensors, one to each rank."""
        (taken,) = _one("scatter", outputs)
        root = 0 if opts is None else opts.rootRank
        given = inputs[0] if inputs else []
        if self.own == root:
            self._count("scatter", given)
        steps = partial(self.messages.scatter, output=taken, tensors=given, root=root)
        return self._issue("scatter", outputs, opts, steps, shown=given)

    def monitored_barrier(self, timeout: timedelta = timedelta(milliseconds=-1), wait_all_ranks: bool = False) -> None:
        """Waits until all ranks have come; rank 0 says which did not.

        Raises:
            torch.distributed.DistBackendError: a rank did not come in time.
        """
        timeout = getattr(timeout, "timeout", timeout)  # some callers give options
        limit_s = timeout.total_seconds() if timeout >= UNLIMITED else self.limit_s
        self.messages.monitored_barrier(limit_s, wait_all_ranks, self.numbers + MONITORED)

    # Messages.

    def send(self, tensors: list[Any], to: int, tag: int) -> Any:
        """A tensor to a rank."""
        (tensor,) = _one("send", tensors)

        def steps(call: Call) -> Steps:
            data = call.source(tensor)
            yield call.arrived()
            yield [partial(self.carrier.send, self.numbers + USER, self.nodes[to], tag & TAGS, data)]

        return self._issue("send", tensors, None, steps)

    def recv(self, tensors: list[Any], source: int, tag: int) -> Any:
        """A tensor from a rank."""
        return self._receive("recv", tensors, self.nodes[source], tag & TAGS)

    def recv_anysource(self, tensors: list[Any], tag: int) -> Any:
        """A tensor from whichever rank sends first; the work's ``source_rank`` says which."""
        return self._receive("recvAnySource", tensors, None, tag & TAGS)

    def _receive(self, name: str, tensors: list[Any], node: int | None, tag: int) -> Any:
        (tensor,) = _one(name, tensors)

        def steps(call: Call) -> Steps:
            data = call.target(tensor, filled=False)
            yield call.arrived()
            (operation,) = yield [partial(self.carrier.receive, self.numbers + USER, node, tag, data)]
            call.source_rank = self.nodes.index(operation.source)

        return self._issue(name, tensors, None, steps)

    # What groups are asked besides.

    def start_coalescing(self, device: Any = None) -> None:
        """Begins a batch."""
        self.batch = []

    def end_coalescing(self, device: Any = None) -> Any:
        """Ends a batch: the work of all its calls."""
        works, self.batch = self.batch or [], None
        return Batch(works)

    def _set_sequence_number_for_group(self) -> None:
        """Calls are counted from the beginning."""

    def _get_sequence_number_for_group(self) -> int:
        """How many calls were made; debugging compares it between ranks."""
        return self.planned.calls

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the time limit of calls to come."""
        self.limit_s = self.planned.limit_s = timeout.total_seconds()
        if self.card is not None:
            self.card.kept._timeout = timeout

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        """Ends the group; with the last one the process leaves the job's network."""
        world, self.world = self.world, None
        if world is not None:
            world.leave()

    abort = shutdown

    def _count(self, name: str, tensors: Sequence[Any]) -> None:
        """Expects as many tensors as ranks."""
        if len(tensors) != self.parties:
            raise ValueError(f"antiphon: {name}: {len(tensors)} tensors for {self.parties} ranks; give one for each")

    def _shards(self, wholes: Sequence[Any]) -> list[list[Any]]:
        """For each rank, its part of each whole."""
        steps = [whole.nbytes // self.parties for whole in wholes]
        return [
            [whole[rank * step : (rank + 1) * step] for whole, step in zip(wholes, steps, strict=True)]
            for rank in range(self.parties)
        ]

    # Names of other versions of PyTorch, and of its C++ half.
    recvAnysource = recv_anysource
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single
    gather_into_tensor = gather_single
    _start_coalescing = start_coalescing
    _end_coalescing = end_coalescing


def open_group(store: Any, rank: int, size: int, timeout: timedelta, *, name: str, ranks: Sequence[int]) -> Any:
    """Makes a process group.

    Args:
        store: PyTorch's, for this group alone.
        rank: of this process in the group.
        size: of the group.
        timeout: of its calls.
        name: of the group, for people.
        ranks: the global ranks in the group's order; none for all.

    Raises:
        torch.distributed.DistBackendError: no wiring joins the ranks, or a rank did not come.
    """
    return AntiphonGroup(store, rank, ranks or range(size), timeout, name)


def _whole(work: Work, call: Call, steps: Callable[[Call], Steps]) -> Steps:
    """The steps of a call, and what is copied back after them."""
    yield from steps(call)
    work.arrived = call.finish()
    work.source = call.source_rank


def _alone(request: Request) -> Steps:
    """The steps of one operation."""
    yield [request]


def _recorded(name: str, tensors: Sequence[Any]) -> Any:
    """What a profiler sees of a call."""
    if not torch.autograd._profiler_enabled():
        return nullcontext()
    return torch._C._profiler._RecordFunctionFast(f"{NAME}:{name}", list(tensors))


def _one(name: str, items: Sequence[Any]) -> Sequence[Any]:
    """Expects one item: PyTorch's lists are of several GPUs of a process, which it no longer uses."""
    if len(items) != 1:
        raise ValueError(f"antiphon: {name}: {len(items)} tensors in one call; give one, or use a coalesced form")
    return items


def _same_sizes(name: str, larges: Sequence[Any], smalls: Sequence[Any], times: int = 1) -> None:
    """Expects pairs of tensors, one ``times`` as large as the other, of one type."""
    if len(larges) != len(smalls):
        raise ValueError(f"antiphon: {name}: {len(larges)} tensors for {len(smalls)}; give as many")
    for large, small in zip(larges, smalls, strict=True):
        if large.dtype != small.dtype or large.numel() != times * small.numel():
            raise ValueError(
                f"antiphon: {name}: {large.numel()} numbers of {large.dtype} for {small.numel()} of {small.dtype}; "
                f"give {times} times as many of the same type"
            )
