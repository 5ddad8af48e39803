"""Which algorithm, with which chunks, is best for which size."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import get_args

from antiphon._core import Fabric, System, build, format_bytes, lower_bound, parse_bytes
from antiphon._core import algorithms as core_algorithms
from antiphon.arguments import shown
from antiphon.collective.choices import Candidate, Choice, Tuning, differ
from antiphon.collective.result import ALL_RANKS, REFUSALS, Refusal
from antiphon.collective.specs import known_names, specs_of
from antiphon.collective.timing import Progress, Timer, simulator
from antiphon.deadline import Deadline, OverTime
from antiphon.errors import AntiphonError
from antiphon.given import as_collective, as_fabric, as_system
from antiphon.names import Collective, Fidelity, Objective
from antiphon.parallel import in_parallel
from antiphon.results import Bound

TUNED = ("chunk", "piece")
"""Options that are sizes to be tuned."""
HOPELESS = 4
"""An algorithm this many times slower than the best, both with their default chunks, is not tuned."""
OBJECTIVES = get_args(Objective)
"""What can be least."""
CROSSOVER_STEPS = 4
"""Halvings, on a logarithmic scale, of the interval in which a crossover lies."""


def tune(
    fabric: str | Fabric,
    collective: Collective | str = "all-reduce",
    sizes: str | Iterable[int | str] | None = None,
    algorithms: str | Iterable[str] | None = None,
    system: str | System = "generic",
    fidelity: Fidelity | str = "packet",
    *,
    all_ranks: bool = False,
    objective: Objective | str = "time",
    energy: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
    time_limit_s: float | None = None,
) -> Tuning:
    """Finds the best algorithm for every size, and the best chunks of algorithms that have them.

    >>> tuning = tune("mesh:4x4", sizes="64KiB..1MiB", algorithms="ring-bi,multitree", fidelity="alpha-beta")
    >>> [format_bytes(choice.bytes) for choice in tuning]
    ['64KiB', '128KiB', '256KiB', '512KiB', '1MiB']

    Chunk sizes are tried in powers of two from a packet to the whole buffer, uphill from the best of
    the size before, then between the best and its neighbours. Where the best algorithm changes from
    one size to the next, the crossover is looked for in between, to a sixteenth of the interval.

    Args:
        fabric: specification or Fabric.
        collective: what to compute.
        sizes: full buffer sizes, a sequence or text such as ``64KiB,1MiB..4MiB``; default 64KiB to 1GiB in powers of
            two.
        algorithms: names or specifications, a sequence or text with commas; default: all.
            A specification that gives the chunk size is not tuned.
        system: preset name or System.
        fidelity: ``alpha-beta``, ``packet`` or ``flit``.
        all_ranks: leave out algorithms that exclude ranks.
        objective: what is to be least: ``time``, ``energy``, or ``edp``, their product (docs/explanation/energy.md).
        energy: also what each takes; with the objectives that need it, it is known in any case.
        jobs: algorithms that are tuned at a time; default: as many as there are cores.
        progress: called before everything that is timed, with the size and the share of the work that is done.
        time_limit_s: seconds after which nothing more is timed: sizes that are not done by then are in ``left_out``.

    Raises:
        AntiphonError: for mistakes in the arguments; ``not-applicable`` if no algorithm can; ``time-limit`` if there
            was no time for any size.
    """
    deadline = Deadline(time_limit_s)
    fabric, system, collective = as_fabric(fabric), as_system(system), as_collective(collective)
    buffers = _sizes(sizes)
    specs = _specs(algorithms)
    if objective not in OBJECTIVES:
        known = ", ".join(OBJECTIVES)
        raise AntiphonError(f"no objective {shown(objective)}; known: {known}", "unknown-name")
    timer = simulator(system, fidelity, deadline.watching(None), energy=energy or objective != "time")
    progress = deadline.watching(progress)
    search = _Search(fabric, collective, system, timer, specs, all_ranks, jobs, objective, fidelity)
    choices = []
    for place, size in enumerate(buffers):
        search.report = _reporter(progress, f"{collective} of {format_bytes(size)}", place, len(buffers), len(specs))
        try:
            choices.append(search.choice(size))
        except OverTime:
            if not choices:
                raise
            break
    search.report = _reporter(progress, "crossovers", 0, 1, CROSSOVER_STEPS)
    left_out = buffers[len(choices) :]
    pairs = [] if left_out else [pair for pair in itertools.pairwise(choices) if differ(*pair)]
    crossovers = [search.crossover(*pair) for pair in pairs]
    refused = search.always_refused()
    return Tuning(fabric.name, collective, system, fidelity, objective, choices, left_out, crossovers, refused)


def _sizes(sizes: str | Iterable[int | str] | None) -> list[int]:
    """The sizes that ``tune`` is asked for, ascending."""
    if isinstance(sizes, str):
        sizes = size_range(sizes)
    if isinstance(sizes, bytes) or not isinstance(sizes, Iterable | None):
        raise AntiphonError(f"sizes is {shown(sizes)}; give a list or text such as 64KiB..1GiB", "bad-size")
    buffers = sorted({parse_bytes(size) for size in (default_sizes() if sizes is None else sizes)})
    if not buffers:
        raise AntiphonError("no size given; write for example 64KiB or 64KiB..1GiB", "bad-size")
    return buffers


def _specs(algorithms: str | Iterable[str] | None) -> list[str]:
    """The algorithms that ``tune`` is asked for."""
    if algorithms is None:
        return known_names()
    specs = list(dict.fromkeys(specs_of(algorithms)))
    if not specs:
        raise AntiphonError("no algorithm given; name at least one, or leave it out for all", "bad-spec")
    return specs


def _reporter(progress: Progress | None, what: str, place: int, parts: int, expected: int) -> Callable[[], object]:
    """What is called before each timing of part ``place`` of ``parts``; how many there are is only about known."""
    done = itertools.count()
    # Else, of several threads, the one that counted last may tell first.
    turn = threading.Lock()

    def report() -> None:
        if progress is not None:
            with turn:
                count = next(done)
                progress(what, (place + count / (count + expected)) / parts)

    return report


def default_sizes() -> list[int]:
    """64KiB to 1GiB in powers of two."""
    return [1 << exponent for exponent in range(16, 31)]


def size_range(text: str) -> list[int]:
    """Sizes of a list with commas whose elements may be ranges, in powers of two from the first.

    >>> size_range("4KiB,64KiB..256KiB")
    [4096, 65536, 131072, 262144]

    Raises:
        AntiphonError: ``bad-size``.
    """
    sizes: list[int] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        low, high = parse_bytes(first), parse_bytes(last if dots else first)
        if low > high:
            raise AntiphonError(f"sizes '{part}': the first is larger than the last", "bad-size")
        while low <= high:
            sizes.append(low)
            low *= 2
    return sizes


class _Search:
    """Times candidates, and remembers which algorithms cannot do the collective."""

    def __init__(
        self,
        fabric: Fabric,
        collective: str,
        system: System,
        timer: Timer,
        specs: Sequence[str],
        all_ranks: bool,
        jobs: int | None = 1,
        objective: str = "time",
        fidelity: str = "packet",
    ) -> None:
        self.fabric, self.collective, self.system, self.timer = fabric, collective, system, timer
        self.fidelity = fidelity
        self.all_ranks, self.jobs, self.objective = all_ranks, jobs, objective
        self.refused: dict[str, Refusal] = {}
        self.timed: set[str] = set()
        self.report: Callable[[], object] = lambda: None
        self.specs = list(specs)
        options = {known.name: [option.key for option in known.options] for known in core_algorithms()}
        self.tuned = {spec: next((key for key in options.get(spec, []) if key in TUNED), None) for spec in self.specs}
        self.start: dict[str, int] = {}

    def choice(self, bytes: int) -> Choice:
        """Every algorithm at one size."""
        times = in_parallel(partial(self._time, bytes=bytes), self.specs, self.jobs)
        ranking = [candidate for candidate in times if candidate is not None]
        if not ranking:
            reasons = "; ".join(self.refused[spec].reason for spec in self.specs if spec in self.refused)
            message = f"no algorithm could do {self.collective} of {format_bytes(bytes)} on {self.fabric.name}"
            raise AntiphonError(f"{message}: {reasons[:300]}", "not-applicable")
        near = HOPELESS * min(candidate.cost(self.objective) for candidate in ranking)

        def tuned(candidate: Candidate) -> Candidate:
            worthwhile = self.tuned[candidate.algorithm] and candidate.cost(self.objective) < near
            return self._tuned(candidate, bytes) if worthwhile else candidate

        ranking = in_parallel(tuned, ranking, self.jobs)
        ranking.sort(key=lambda candidate: candidate.place(self.objective))
        return Choice(bytes, ranking, self._bound(ranking[0], bytes))

    def _bound(self, best: Candidate, bytes: int) -> Bound:
        if best.bound_of == ALL_RANKS:
            return lower_bound(self.fabric, self.collective, bytes, self.system, fidelity=self.fidelity)
        schedule = build(self.fabric, best.algorithm, self.collective, bytes, self.system)
        return schedule.lower_bound(self.fabric, self.system, self.fidelity)

    def always_refused(self) -> list[Refusal]:
        """The algorithms that were left out at every size."""
        return [self.refused[spec] for spec in self.specs if spec in self.refused and spec not in self.timed]

    def crossover(self, low: Choice, high: Choice) -> tuple[int, str, str]:
        """Where the best algorithm of ``low`` stops to beat that of ``high``."""
        before, after = low.best.algorithm, high.best.algorithm
        small, large = low.bytes, high.bytes
        for _ in range(CROSSOVER_STEPS):
            middle = round((small * large) ** 0.5)
            if middle in (small, large):
                break
            times = in_parallel(partial(self._time, bytes=middle), (before, after), self.jobs)
            costs = [(math.inf, math.inf) if each is None else each.place(self.objective) for each in times]
            if times[0] is not None and costs[0] <= costs[1]:
                small = middle
            else:
                large = middle
        return large, _name(before), _name(after)

    def _tuned(self, default: Candidate, bytes: int) -> Candidate:
        """An algorithm with its best chunk size; its default unless another is faster."""
        spec = default.algorithm
        key = self.tuned[spec]
        times: dict[int, Candidate] = {}

        def cost(size: int) -> tuple[float, float]:
            if size not in times:
                candidate = self._time(f"{spec}:{key}={format_bytes(size)}", bytes)
                times[size] = candidate or Candidate(spec, math.inf, [])
            return times[size].place(self.objective)

        smallest = 1 << (self.system.packet_payload_bytes - 1).bit_length()
        # The best size grows slowly with the buffer: climb from that of the buffer before.
        best = self.start.get(spec, smallest)
        while best < bytes and cost(2 * best) < cost(best):
            best *= 2
        while best > smallest and cost(best // 2) <= cost(best):
            best //= 2
        self.start[spec] = best
        for size in (best * 3 // 4, best * 3 // 2):
            cost(size)
        return min([default, *times.values()], key=lambda candidate: candidate.place(self.objective))

    def _time(self, spec: str, bytes: int) -> Candidate | None:
        self.report()
        try:
            timed = self.timer(self.fabric, spec, self.collective, bytes)
        except AntiphonError as error:
            if error.code not in REFUSALS:
                raise
            self._refuse(spec, error.message.removeprefix(f"{spec} does not apply to {self.fabric.name}: "), error.code)
            return None
        if self.all_ranks and timed.excluded_ranks:
            self._refuse(spec, f"leaves out rank {', '.join(map(str, timed.excluded_ranks))}", "not-applicable")
            return None
        self.timed.add(spec)
        return Candidate(spec, timed.time_ns, timed.excluded_ranks, timed.bound_of, timed.energy)

    def _refuse(self, spec: str, reason: str, code: str) -> None:
        if spec in self.specs:
            self.refused[spec] = Refusal(spec, reason, code)


def _name(spec: str) -> str:
    return spec.partition(":")[0]
