"""Algorithms, kinds of fabrics and schedulers of one's own, used by name like all others (docs/how-to/plugins.md)."""

from __future__ import annotations

import hashlib
import inspect
import marshal
import operator
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar

from antiphon._core import (
    Fabric,
    Schedule,
    System,
    add_algorithm,
    add_fabric,
    add_scheduler,
    algorithms,
    collective_name,
    collectives,
    fabrics,
    format_bytes,
    parse_bytes,
    rails_schedulers,
    remove_added,
)
from antiphon.arguments import expect, shown
from antiphon.errors import AntiphonError, NotApplicable
from antiphon.files import parse_toml, read_text
from antiphon.parallel import interruptible

F = TypeVar("F", bound=Callable[..., Any])
NAME = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
LARGEST = 1 << 24
"""Plugins and project files are read whole; larger ones are refused."""
GIVEN = ("fabric", "collective", "bytes", "system")
"""What every algorithm is called with."""
KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "bool": ("yes or no", bool),
    "int": ("a whole number or a size", lambda text: int(text) if text.lstrip("+-").isdigit() else parse_bytes(text)),
    "float": ("a number", float),
    "str": ("text", str),
}
"""Types of options: what is given, and what makes a value of it."""


class Decorator(Protocol):
    """Takes a function and returns it."""

    def __call__(self, function: F, /) -> F: ...


@dataclass(frozen=True)
class Source:
    """A file that registers something, or a program.

    Attributes:
        path: as it is shown.
        digest: of its content when it was run.
        module: tells it from others.
    """

    path: str
    digest: str
    module: str


@dataclass(frozen=True)
class Plugin:
    """A function that was registered as an ``algorithm``, ``fabric`` or ``scheduler``."""

    kind: str
    name: str
    function: Callable[..., Any]
    source: Source

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (inspect.getdoc(self.function) or f"{self.kind} of {self.source.path}").partition("\n")[0]

    def __call__(self, *given: Any, **options: Any) -> Any:
        """What the function returns; what it raises becomes one line that names the plugin's own."""
        try:
            with interruptible():
                return self.function(*given, **options)
        except (Exception, SystemExit) as error:
            raise _located(self.source, error, self.function) from error

    def fault(self, what: str) -> AntiphonError:
        """The error about what the function returned."""
        return _located(self.source, AntiphonError(what, "bad-file"), self.function)


registered: dict[tuple[str, str], Plugin] = {}
"""By kind and name."""
_loading: Source | None = None
_lock = threading.RLock()


def register(
    name: str, build: Callable[..., Any] | None = None, *, collectives: Iterable[str] = tuple(collectives())
) -> Decorator:
    """Adds an algorithm: its name is known wherever names are, and its schedules are proven like all others.

    >>> import antiphon
    >>> @antiphon.register("two-step", collectives=["all-gather"])
    ... def two_step(fabric, collective, bytes, system, repeats: int = 1):
    ...     "Every rank sends its shard to all others."
    ...     if fabric.ranks > 8:
    ...         raise antiphon.NotApplicable("more than 8 ranks")
    ...     return antiphon.build(fabric, "direct", collective, bytes, system)
    >>> antiphon.compare("ring:4", "all-gather", "1MiB", "two-step:repeats=2,ring").best.algorithm
    'ring'
    >>> antiphon.plugins.forget("two-step")

    Args:
        name: letters, digits, ``-`` and ``_``.
        build: ``build(fabric, collective, bytes, system)`` returns the ``Schedule``; a further argument with a default
            is an option of that type, ``name:key=value``, and ``root`` the root of a Broadcast or Reduce. The first
            line of the docstring is the summary, its lines ``key: text`` are what options mean. It raises
            ``NotApplicable`` with the reason where it does not fit. None: the result is a decorator.
        collectives: what it does; default: all.

    Raises:
        AntiphonError: ``bad-spec`` for a name that is taken, and for a function that cannot be called so.
    """

    def add(function: F, /) -> F:
        try:
            parameters = inspect.signature(function).parameters
            inspect.signature(function).bind(*GIVEN)
        except (TypeError, ValueError) as error:
            message = f"algorithm {name}: {error}; write build({', '.join(GIVEN)}, option=default)"
            raise AntiphonError(message, "bad-spec") from None
        does = [collective_name(each) for each in collectives]
        plugin = _plugin("algorithm", name, function, [each.name for each in algorithms()])
        further = [each for each in list(parameters.values())[len(GIVEN) :] if each.default is not each.empty]
        kinds = {each.name: _kind(each) for each in further if each.name != "root"}
        options: list[tuple[str, str, str | None, str]] = []
        for key, kind in kinds.items():
            meaning = re.search(rf"^\s*{key}: (.*)$", inspect.getdoc(function) or "", re.MULTILINE)
            form, default = KINDS[kind][0], _default(parameters[key].default)
            options.append((key, form, default, meaning[1] if meaning else ""))
        make = partial(_build, plugin, kinds, "root" in parameters)
        add_algorithm(name, plugin.summary, plugin.source.path, does, options, make)
        return function

    return _decorator(add, build)


def register_fabric(name: str, make: Callable[..., Any] | None = None, *, example: str | None = None) -> Decorator:
    """Adds a kind of fabric: ``name:SIZE`` is a specification, with rates, degradations and groups behind it.

    >>> import antiphon
    >>> _ = antiphon.register_fabric("pair-of-rings", lambda size: antiphon.Fabric(f"torus:2x{size}"))
    >>> antiphon.Fabric("pair-of-rings:4@100,drop=0-1").ranks
    8
    >>> antiphon.plugins.forget("pair-of-rings")

    Args:
        name: letters, digits, ``-`` and ``_``.
        make: ``make(size)`` returns the ``Fabric`` of what stands behind the colon, without ``,``, ``@``, ``[`` and
            ``]``. The first line of its docstring is the summary. None: the result is a decorator.
        example: a specification; default: the name.

    Raises:
        AntiphonError: ``bad-spec`` for a name that is taken.
    """

    def add(function: F, /) -> F:
        plugin = _plugin("fabric", name, function, ["rails", *(kind for kind, _, _ in fabrics())])
        add_fabric(name, example or name, plugin.summary, partial(_make, plugin))
        return function

    return _decorator(add, make)


def register_scheduler(name: str, choose: Callable[..., Any] | None = None) -> Decorator:
    """Adds a scheduler of ``rails``, with the queue policy of Themis unless another is given.

    >>> import antiphon
    >>> def least_first(chunk, bytes, busy_ns, dimensions):
    ...     return sorted(range(len(busy_ns)), key=busy_ns.__getitem__)
    >>> _ = antiphon.register_scheduler("least-first", least_first)
    >>> antiphon.rails("2D-SW_SW", "100MB", scheduler="least-first").utilization > 0.9
    True
    >>> antiphon.plugins.forget("least-first")

    Args:
        name: letters, digits, ``-`` and ``_``.
        choose: ``choose(chunk, bytes, busy_ns, dimensions)`` returns the dimensions, numbered from 0, in the order in
            which a chunk uses them; an AllReduce goes back the other way, unless it returns a pair, the order before
            the AllGather and that of the AllGather. ``chunk`` is its number and ``bytes`` its size, ``busy_ns`` for
            how long each dimension is busy with the chunks before, ``dimensions`` what they are, such as
            ``sw8@800/700ns``. None: the result is a decorator.

    Raises:
        AntiphonError: ``bad-spec`` for a name that is taken.
    """

    def add(function: F, /) -> F:
        add_scheduler(name, partial(_orders, _plugin("scheduler", name, function, rails_schedulers())))
        return function

    return _decorator(add, choose)


def forget(name: str) -> None:
    """Removes what was registered under a name."""
    remove_added(name)
    for key in [key for key in registered if key[1] == name]:
        del registered[key]


def load(path: str | os.PathLike[str]) -> None:
    """Runs a plugin file, which registers something; again only if it has changed.

    Raises:
        AntiphonError: naming the line that is wrong; ``bad-file`` if it cannot be read or registers nothing.
    """
    global _loading
    full = os.path.realpath(path)
    near = os.path.relpath(full)
    text = read_text(os.fspath(path), LARGEST)
    source = Source(full if near.startswith("..") else near, _digest(text.encode()), f"plugin {full}")
    with _lock:
        known = [plugin for plugin in registered.values() if plugin.source.module == source.module]
        if any(plugin.source.digest == source.digest for plugin in known):
            return
        for plugin in known:
            forget(plugin.name)
        module = sys.modules[source.module] = ModuleType(source.module)
        module.__file__ = full
        _loading = source
        try:
            exec(compile(text, source.path, "exec", dont_inherit=True), vars(module))
        except (Exception, SystemExit) as error:
            raise _located(source, error) from error
        finally:
            _loading = None
        if not any(plugin.source is source for plugin in registered.values()):
            message = f"plugin {source.path} registers nothing; call antiphon.register(name, build) in it"
            raise AntiphonError(message, "bad-file")


def load_project(file: Path) -> None:
    """Loads the plugins of a project, ``plugins`` in ``[tool.antiphon]`` of its ``pyproject.toml``.

    Raises:
        AntiphonError: ``bad-file`` for what is no list of files; as ``load``.
    """
    try:
        tool = parse_toml(read_text(str(file), LARGEST)).get("tool", {}).get("antiphon", {})
    except ValueError as error:
        raise AntiphonError(f"{file}: is no TOML: {error}", "bad-file") from None
    paths = tool.get("plugins", []) if isinstance(tool, dict) and set(tool) <= {"plugins"} else None
    if not isinstance(paths, list) or not all(isinstance(each, str) for each in paths):
        message = f'{file}: [tool.antiphon] has {shown(tool)}; write plugins = ["FILE.py"]'
        raise AntiphonError(message, "bad-file")
    for each in paths:
        load(file.parent / each)


def sources() -> dict[str, str]:
    """Digests of the files that another process must load to know the same names. Python itself runs a program's main
    file there."""
    known = {plugin.source for plugin in registered.values() if not plugin.source.module.startswith("__m")}
    return {os.path.abspath(source.path): source.digest for source in known}


def ensure(files: Mapping[str, str]) -> None:
    """Loads the ``sources`` of another process that are not known here.

    Raises:
        AntiphonError: ``bad-file`` if one has changed since it was loaded there; as ``load``.
    """
    for path, digest in files.items():
        if not any(plugin.source.digest == digest for plugin in registered.values()):
            load(path)
            if digest not in sources().values():
                raise AntiphonError(f"plugin {path} has changed since it was loaded; start again", "bad-file")


def digests(words: Iterable[str]) -> dict[str, str]:
    """Digests of all plugins, by name, if work that is described by these words may use one; it may use any if the
    words are of no algorithm.
    """
    named = set(words)
    used = any(name in named for _, name in registered) or not named & {"algorithm", "algorithms"}
    return {f"{kind} {name}": plugin.source.digest for (kind, name), plugin in registered.items() if used}


def _decorator(add: Decorator, function: Callable[..., Any] | None) -> Decorator:
    """What adds functions; it adds one now if there is one."""
    if function is not None:
        add(function)
    return add


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _plugin(kind: str, name: str, function: Callable[..., Any], known: list[str]) -> Plugin:
    expect("name", name, str)
    if not callable(function):
        raise TypeError(f"{kind} {name}: expected a function, not {type(function).__name__}")
    if not NAME.fullmatch(name):
        raise AntiphonError(f"{kind} {shown(name)}: a name has letters, digits, - and _, a letter first", "bad-spec")
    source, before = _loading or _source(function), registered.get((kind, name))
    if before.source.module != source.module if before else name in known:
        where = f", of {before.source.path}" if before else ""
        raise AntiphonError(f"there is {kind} '{name}' already{where}; choose another name", "bad-spec")
    registered[kind, name] = plugin = Plugin(kind, name, function, source)
    return plugin


def _source(function: Callable[..., Any]) -> Source:
    """Where a function is from that no plugin file registers."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    path = code.co_filename if code else "?"
    content = Path(path).read_bytes() if os.path.isfile(path) else marshal.dumps(code)
    return Source(path, _digest(content), getattr(function, "__module__", None) or "?")


def _located(source: Source, error: BaseException, function: Callable[..., Any] | None = None) -> AntiphonError:
    """An error of a plugin, with the last of the plugin's lines on its way."""
    frames = traceback.extract_tb(error.__traceback__)
    code = getattr(function, "__code__", None)
    lines = [code.co_firstlineno] if code else []
    lines += [frame.lineno for frame in frames if frame.filename == source.path and frame.lineno]
    what = error.message if isinstance(error, AntiphonError) else f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename == source.path:
        lines, what = [error.lineno or 1], f"{type(error).__name__}: {error.msg}"
    where = f", line {lines[-1]}" if lines else ""
    return AntiphonError(f"plugin {source.path}{where}: {what}", getattr(error, "code", None) or "bad-file")


def _kind(parameter: inspect.Parameter) -> str:
    """The kind of an option, by its annotation or its default."""
    given = parameter.annotation
    word = given.__name__ if isinstance(given, type) else str(given).partition("|")[0].strip()
    return next((each for each in (word, type(parameter.default).__name__) if each in KINDS), "str")


def _default(value: Any) -> str | None:
    """The default of an option, as it would be given."""
    return None if value is None else ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _build(
    plugin: Plugin,
    kinds: Mapping[str, str],
    rooted: bool,
    fabric: Fabric,
    collective: str,
    bytes: int,
    system: System,
    root: int,
    given: Mapping[str, Any],
) -> Schedule | str:
    """The schedule of an algorithm, or why it does not apply."""
    options: dict[str, Any] = {}
    for key, text in given.items():
        form, read = KINDS[kinds[key]]
        try:
            options[key] = read(text)
        except ValueError:
            message = f"{plugin.name}: {key}={text[:40]}; expected {form}"
            raise AntiphonError(message, "bad-spec") from None
    if root and not rooted:
        return "it knows no root but rank 0"
    try:
        made = plugin(fabric, collective, bytes, system, **options, **({"root": root} if rooted else {}))
    except NotApplicable as refusal:
        return str(refusal.__cause__)
    if not isinstance(made, Schedule):
        raise plugin.fault(f"{plugin.name} returned {shown(made)}, which is no Schedule")
    if (made.collective, made.bytes, made.root or 0) != (collective, bytes, root):
        does = f"{made.collective} of {format_bytes(made.bytes)}" + (f" with root {made.root}" if made.root else "")
        asked = f"{collective} of {format_bytes(bytes)}" + (f" with root {root}" if root else "")
        raise plugin.fault(f"{plugin.name} returned a schedule for {does}, not for {asked}")
    return made


def _make(plugin: Plugin, size: str) -> Fabric:
    made = plugin(size)
    if not isinstance(made, Fabric) or made.members is not None:
        raise plugin.fault(f"{plugin.name} returned {shown(made)}, which is no whole Fabric")
    return made


def _orders(
    plugin: Plugin, collective: str, chunk: int, bytes: int, dimensions: list[str], busy_ns: list[float]
) -> tuple[list[int], list[int]]:
    """The orders of a chunk before the AllGather and in it."""
    given, every = plugin(chunk, bytes, busy_ns, dimensions), list(range(len(dimensions)))
    try:
        pair = isinstance(given, tuple) and isinstance(given[0], list | tuple)
        halves = given if pair else (given, given if collective == "all-gather" else given[::-1])
        first, gather = ([operator.index(number) for number in half] for half in halves)
    except (TypeError, ValueError, LookupError):
        first = gather = []
    if sorted(first) != every or sorted(gather) != every:
        message = f"{plugin.name} returned {shown(given)} for chunk {chunk}; expected each of 0 to {every[-1]} once"
        raise plugin.fault(message)
    return first, gather
