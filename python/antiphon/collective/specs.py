"""Lists of specifications and of fidelities, as people give them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from antiphon._core import algorithms, check_fidelity, fidelities
from antiphon.arguments import expect, shown
from antiphon.errors import AntiphonError

NO_LIST: tuple[type, ...] = (bytes, bytearray)
"""What can be gone through but is no list of names."""


class Algorithm(str):
    """An algorithm with options, which is its specification, so that it goes wherever that goes.

    >>> Algorithm("tto", chunk="96KiB", barrier=False)
    'tto:chunk=96KiB,barrier=no'
    >>> Algorithm("tto", chunk="96KiB").options
    {'chunk': '96KiB'}

    Args:
        name: as in ``algorithms()``.
        options: as in ``algorithms()``; flags may be True or False, sizes numbers of bytes.

    Raises:
        AntiphonError: ``unknown-name`` with the nearest algorithm, or the options that there are.
    """

    def __new__(cls, name: str, **options: str | int | float | bool) -> Algorithm:
        expect("name", name, str)
        known = {each.name: [option.key for option in each.options] for each in algorithms()}
        if name not in known:
            near = difflib.get_close_matches(name, known, 1) or [", ".join(known)]
            raise AntiphonError(f"no algorithm '{name:.40}'; known: {near[0]}", "unknown-name")
        for key, value in options.items():
            if key not in known[name]:
                message = f"{name} has no option '{key:.40}'; known: {', '.join(known[name]) or 'none'}"
                raise AntiphonError(message, "unknown-name")
            expect(key, value, str, int, float)
        texts = [
            f"{key}={('no', 'yes')[value] if isinstance(value, bool) else value}" for key, value in options.items()
        ]
        return super().__new__(cls, name + (":" if texts else "") + ",".join(texts))

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, str]]:
        return (self.name,), self.options

    @property
    def name(self) -> str:
        """The name, without options."""
        return str(self).partition(":")[0]

    @property
    def options(self) -> dict[str, str]:
        """The options, as text."""
        _name, _colon, options = str(self).partition(":")
        return dict(each.split("=", 1) for each in re.split(r",(?=[\w-]+=)", options) if each)


def known_names() -> list[str]:
    """Names of all algorithms."""
    return [algorithm.name for algorithm in algorithms()]


def specs_of(given: str | Iterable[str]) -> list[str]:
    """The specifications of a text with commas, or a sequence.

    Raises:
        AntiphonError: ``bad-spec`` for other things, naming them.
    """
    if isinstance(given, NO_LIST) or not isinstance(given, Iterable):
        raise AntiphonError(f"algorithms is {shown(given)}; give a list of names such as ring", "bad-spec")
    specs = split_specs([given]) if isinstance(given, str) else list(given)
    for spec in specs:
        if not isinstance(spec, str):
            raise AntiphonError(f"algorithm {shown(spec)} is no text; give names such as ring", "bad-spec")
    return specs


def split_specs(texts: Sequence[str]) -> list[str]:
    """Splits lists of specifications at commas: an element with ``=`` and no ``:`` before it is an
    option of the specification before, a number one of its sizes.

    >>> split_specs(["ring,tto:chunk=96KiB,barrier=no", "direct"])
    ['ring', 'tto:chunk=96KiB,barrier=no', 'direct']
    >>> split_specs(["mesh:8x8,slow=2-3:0.5,dead=5,ring:4,mesh:2x4[0,1,4,5]"])
    ['mesh:8x8,slow=2-3:0.5,dead=5', 'ring:4', 'mesh:2x4[0,1,4,5]']
    >>> split_specs(["dragonfly:2,4,2@50+50+25,dead=3,ring:4"])
    ['dragonfly:2,4,2@50+50+25,dead=3', 'ring:4']
    """
    specs: list[str] = []
    for text in texts:
        # Not at those within brackets, which are ranks of a group.
        for index, part in enumerate(re.split(r",(?![^\[\]]*\])", text)):
            head = re.split("[:@]", part)[0]
            if index > 0 and ("=" in head or head.isdigit()):
                specs[-1] += f",{part}"
            else:
                specs.append(part)
    return specs


def split_fidelities(given: str | Iterable[str]) -> list[str]:
    """The fidelities of a list with commas, or a sequence, each once, cheapest first.

    Raises:
        AntiphonError: ``unknown-name``, naming the nearest.
    """
    names = given.split(",") if isinstance(given, str) else list(given)
    known = fidelities()
    if not names:
        raise AntiphonError(f"no fidelity given; known: {', '.join(known)}", "bad-spec")
    for name in names:
        check_fidelity(name)
    return sorted(set(names), key=known.index)
