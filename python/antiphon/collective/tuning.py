"""Which algorithm, with which chunks, is best for which size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from antiphon import plot
from antiphon._core import Fabric, System, build, format_bytes, lower_bound, parse_bytes
from antiphon._core import algorithms as core_algorithms
from antiphon.arguments import expect, shown
from antiphon.collective.comparison import REFUSALS
from antiphon.collective.result import ALL_RANKS, Refusal
from antiphon.collective.specs import known_names, specs_of
from antiphon.collective.timing import Progress, Timer, simulator
from antiphon.errors import AntiphonError
from antiphon.given import as_fabric, as_system
from antiphon.names import Collective, Fidelity
from antiphon.parallel import in_parallel
from antiphon.results import Bound, Result, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TUNED = ("chunk", "piece")
"""Options that are sizes to be tuned."""
HOPELESS = 4
"""An algorithm this many times slower than the best, both with their default chunks, is not tuned."""
CROSSOVER_STEPS = 4
"""Halvings, on a logarithmic scale, of the interval in which a crossover lies."""


@dataclass(frozen=True)
class Candidate:
    """An algorithm, its options tuned, and its time."""

    algorithm: str
    time_ns: float
    excluded_ranks: list[int]
    bound_of: str = ALL_RANKS


@dataclass(frozen=True)
class Choice:
    """The best algorithm for one size.

    Attributes:
        bytes: full buffer size.
        ranking: every algorithm with its best options, fastest first.
        bound: no schedule does faster what the best does; ``best.bound_of`` says among which ranks.
    """

    bytes: int
    ranking: list[Candidate]
    bound: Bound

    @property
    def best(self) -> Candidate:
        """The fastest."""
        return self.ranking[0]

    @property
    def time_ns(self) -> float:
        """That of the fastest; at least a picosecond, the resolution."""
        return max(self.best.time_ns, 1e-3)

    @property
    def efficiency(self) -> float | None:
        """Lower bound over time; None if the bound is 0."""
        return self.bound.time_ns / self.time_ns or None

    def to_dict(self) -> dict[str, Any]:
        """The choice as documented in docs/json.md."""
        return {
            "bytes": self.bytes,
            "algorithm": self.best.algorithm,
            "excluded_ranks": self.best.excluded_ranks,
            "time_ns": self.time_ns,
            "lower_bound_ns": self.bound.time_ns,
            "lower_bound_of": self.best.bound_of,
            "efficiency": self.efficiency,
            "algorithm_bandwidth_gb_per_s": self.bytes / self.time_ns,
            "ranking": [{"algorithm": other.algorithm, "time_ns": other.time_ns} for other in self.ranking],
        }


@dataclass(frozen=True, eq=False, repr=False)
class Tuning(Result):
    """The best algorithm over a range of sizes.

    >>> tuning = tune("ring:4", sizes=["1MiB"], algorithms="ring,direct", fidelity="alpha-beta")
    >>> tuning["1MiB"].best.time_ns == min(each.time_ns for each in tuning["1MiB"].ranking)
    True

    Attributes:
        fabric: its specification or name.
        collective: what was tuned.
        system: the platform.
        fidelity: at which everything was timed.
        choices: by size.
        crossovers: (bytes, before, after): from about this size on another algorithm is best.
        refused: algorithms that were left out for every size, and why.
    """

    fabric: str
    collective: str
    system: System
    fidelity: str
    choices: list[Choice]
    crossovers: list[tuple[int, str, str]]
    refused: list[Refusal]

    shown = ("bytes", "algorithm", "time_ns", "efficiency", "algorithm_bandwidth_gb_per_s")

    def __iter__(self) -> Iterator[Choice]:
        return iter(self.choices)

    def __len__(self) -> int:
        return len(self.choices)

    def __getitem__(self, size: int | str) -> Choice:
        """What is best for a size that was tuned for.

        Raises:
            AntiphonError: ``unknown-name`` for other sizes, ``bad-size``.
        """
        wanted = parse_bytes(size)
        for choice in self:
            if choice.bytes == wanted:
                return choice
        known = ", ".join(format_bytes(choice.bytes) for choice in self)
        raise AntiphonError(f"{format_bytes(wanted)} was not tuned for; there are: {known}", "unknown-name")

    def __repr__(self) -> str:
        sizes = f"{format_bytes(self.choices[0].bytes)} to {format_bytes(self.choices[-1].bytes)}"
        return f"<Tuning of {self.collective} on {self.fabric}: {len(self)} sizes, {sizes}>"

    @property
    def tables(self) -> dict[str, Table]:
        """``choices``, a row for each size; ``ranking``, a row for each size and algorithm; ``refused``."""
        ranking = [
            {"bytes": choice.bytes, "place": place} | asdict(each)
            for choice in self
            for place, each in enumerate(choice.ranking)
        ]
        choices = [{key: value for key, value in choice.to_dict().items() if key != "ranking"} for choice in self]
        return {
            "choices": Table.of_rows(choices),
            "ranking": Table.of_rows(ranking),
            "refused": Table.of_rows([asdict(refusal) for refusal in self.refused]),
        }

    def plot(self) -> Figure:
        """The time of every algorithm over the sizes (extra ``plots``)."""
        of: dict[str, tuple[list[float], list[float]]] = {}
        for choice in self:
            for each in choice.ranking:
                xs, ys = of.setdefault(each.algorithm.partition(":")[0], ([], []))
                xs.append(choice.bytes)
                ys.append(each.time_ns * 1e-9)
        return plot.lines(f"{self.collective} on {self.fabric}", of, "full buffer", "time", sizes=True)

    def to_dict(self) -> dict[str, Any]:
        """The tuning as documented in docs/json.md."""
        return {
            "fabric": self.fabric,
            "collective": self.collective,
            "system": self.system.name,
            "fidelity": self.fidelity,
            "choices": [choice.to_dict() for choice in self.choices],
            "crossovers": [dict(zip(("bytes", "from", "to"), each, strict=True)) for each in self.crossovers],
            "selection": self.selection(),
            "refused": [asdict(refusal) for refusal in self.refused],
        }

    def selection(self) -> list[dict[str, Any]]:
        """What to use from which size on: ``from_bytes`` (0 first) and ``algorithm`` with options."""
        rows: list[dict[str, Any]] = [{"from_bytes": 0, "algorithm": self.choices[0].best.algorithm}]
        crossovers = iter(self.crossovers)
        for low, high in itertools.pairwise(self.choices):
            spec = high.best.algorithm
            # There is one crossover for each change of the algorithm, in order.
            start = next(crossovers)[0] if _differ(low, high) else high.bytes
            if rows[-1]["algorithm"] != spec:
                rows.append({"from_bytes": start, "algorithm": spec})
        return rows


def tune(
    fabric: str | Fabric,
    collective: Collective | str = "all-reduce",
    sizes: str | Iterable[int | str] | None = None,
    algorithms: str | Iterable[str] | None = None,
    system: str | System = "generic",
    fidelity: Fidelity | str = "packet",
    *,
    all_ranks: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
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
        jobs: algorithms that are tuned at a time; default: as many as there are cores.
        progress: called before everything that is timed, with the size and the share of the work that is done.

    Raises:
        AntiphonError: for mistakes in the arguments; ``not-applicable`` if no algorithm can.
    """
    fabric, system = as_fabric(fabric), as_system(system)
    expect("collective", collective, str)
    buffers = _sizes(sizes)
    specs = _specs(algorithms)
    search = _Search(fabric, collective, system, simulator(system, fidelity), specs, all_ranks, jobs)
    choices = []
    for place, size in enumerate(buffers):
        search.report = _reporter(progress, f"{collective} of {format_bytes(size)}", place, len(buffers), len(specs))
        choices.append(search.choice(size))
    search.report = _reporter(progress, "crossovers", 0, 1, CROSSOVER_STEPS)
    crossovers = [search.crossover(*pair) for pair in itertools.pairwise(choices) if _differ(*pair)]
    return Tuning(fabric.name, collective, system, fidelity, choices, crossovers, search.always_refused())


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

    def report() -> None:
        if progress is not None:
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
    ) -> None:
        self.fabric, self.collective, self.system, self.timer = fabric, collective, system, timer
        self.all_ranks, self.jobs = all_ranks, jobs
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
        near = HOPELESS * min(candidate.time_ns for candidate in ranking)

        def tuned(candidate: Candidate) -> Candidate:
            worthwhile = self.tuned[candidate.algorithm] and candidate.time_ns < near
            return self._tuned(candidate, bytes) if worthwhile else candidate

        ranking = in_parallel(tuned, ranking, self.jobs)
        ranking.sort(key=lambda candidate: candidate.time_ns)
        return Choice(bytes, ranking, self._bound(ranking[0], bytes))

    def _bound(self, best: Candidate, bytes: int) -> Bound:
        if best.bound_of == ALL_RANKS:
            return lower_bound(self.fabric, self.collective, bytes, self.system)
        schedule = build(self.fabric, best.algorithm, self.collective, bytes, self.system)
        return schedule.lower_bound(self.fabric, self.system)

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
            if times[0] is not None and (times[1] is None or times[0].time_ns <= times[1].time_ns):
                small = middle
            else:
                large = middle
        return large, _name(before), _name(after)

    def _tuned(self, default: Candidate, bytes: int) -> Candidate:
        """An algorithm with its best chunk size; its default unless another is faster."""
        spec = default.algorithm
        key = self.tuned[spec]
        times: dict[int, Candidate] = {}

        def time_ns(size: int) -> float:
            if size not in times:
                candidate = self._time(f"{spec}:{key}={format_bytes(size)}", bytes)
                times[size] = candidate or Candidate(spec, math.inf, [])
            return times[size].time_ns

        smallest = 1 << (self.system.packet_payload_bytes - 1).bit_length()
        # The best size grows slowly with the buffer: climb from that of the buffer before.
        best = self.start.get(spec, smallest)
        while best < bytes and time_ns(2 * best) < time_ns(best):
            best *= 2
        while best > smallest and time_ns(best // 2) <= time_ns(best):
            best //= 2
        self.start[spec] = best
        for size in (best * 3 // 4, best * 3 // 2):
            time_ns(size)
        return min([default, *times.values()], key=lambda candidate: candidate.time_ns)

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
        return Candidate(spec, timed.time_ns, timed.excluded_ranks, timed.bound_of)

    def _refuse(self, spec: str, reason: str, code: str) -> None:
        if spec in self.specs:
            self.refused[spec] = Refusal(spec, reason, code)


def _differ(low: Choice, high: Choice) -> bool:
    return _name(low.best.algorithm) != _name(high.best.algorithm)


def _name(spec: str) -> str:
    return spec.partition(":")[0]
