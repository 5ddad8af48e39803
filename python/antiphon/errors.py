"""The exception of the package, and its kinds."""

from __future__ import annotations

import re

UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys, and those that turn the direction of writing; not tab and new line."""


def harmless(text: str) -> str:
    """Text as a terminal may print it, whoever wrote it.

    >>> harmless("\x1b[31mred")
    '\ufffd[31mred'
    """
    return UNSAFE.sub("\ufffd", text)


class AntiphonError(ValueError):
    """Something a user can act on; by its code one of the kinds below, where there is one.

    >>> type(AntiphonError("ring on mesh:2x2 loses a byte", "not-proven")).__name__
    'NotProven'

    Attributes:
        message: what is wrong, where, and what to do instead, on one line.
        code: stable identifier: ``bad-size``, ``unknown-name``, ``bad-spec``, ``bad-file``,
            ``not-applicable``, ``not-proven``, ``stalled``, ``too-large``, ``missing-extra``, ``interrupted``,
            ``time-limit``, or ``internal``, a fault of Antiphon itself.
    """

    def __new__(cls, message: str, code: str) -> AntiphonError:
        kind = KINDS.get(code, cls) if cls is AntiphonError else cls
        return super().__new__(kind, message, code)

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message, code)
        self.message = harmless(message)
        self.code = code

    def __reduce__(self) -> tuple[type[AntiphonError], tuple[str, str]]:
        return type(self), (self.message, self.code)  # Dask pickles others without arguments

    def __str__(self) -> str:
        return self.message


class InputError(AntiphonError):
    """An argument that means nothing: ``bad-size``, ``bad-spec`` or ``unknown-name``.

    >>> import antiphon
    >>> try:
    ...     antiphon.System("tt")
    ... except antiphon.InputError as error:
    ...     error.code
    'unknown-name'
    """


class FileError(AntiphonError):
    """A file that cannot be read or written, or is not what it should be: ``bad-file``.

    >>> import antiphon
    >>> try:
    ...     antiphon.Comparison.load("nothing.json")
    ... except antiphon.FileError as error:
    ...     print(error)
    nothing.json: cannot be read: No such file or directory
    """


class NotApplicable(AntiphonError):
    """An algorithm, model or option that does not fit: ``not-applicable``.

    >>> import antiphon
    >>> try:
    ...     antiphon.build("ring:4", "tto")
    ... except antiphon.NotApplicable as error:
    ...     error.code
    'not-applicable'
    """

    def __new__(cls, message: str, code: str = "not-applicable") -> NotApplicable:
        return super().__new__(cls, message, code)  # type: ignore[return-value]

    def __init__(self, message: str, code: str = "not-applicable") -> None:
        super().__init__(message, code)


class NotProven(AntiphonError):
    """A schedule with a counter-example: ``not-proven``.

    >>> import antiphon
    >>> builder = antiphon.ScheduleBuilder(antiphon.Fabric("ring:4"), "all-reduce", 4096)
    >>> _ = builder.copy(0, 1, builder.lane(0, 4096), 0)
    >>> try:
    ...     antiphon.verify("ring:4", builder.finish())
    ... except antiphon.NotProven as error:
    ...     error.code
    'not-proven'
    """


class Stalled(AntiphonError):
    """A run in which all wait for each other: ``stalled``.

    >>> Stalled("0 waits for 1, 1 waits for 0", "stalled").code
    'stalled'
    """


class TooLarge(AntiphonError):
    """Work beyond the limits: ``too-large``.

    >>> import antiphon
    >>> try:
    ...     antiphon.build("mesh:128x128", "direct", bytes="1PiB")
    ... except antiphon.TooLarge as error:
    ...     error.code
    'too-large'
    """


KINDS: dict[str, type[AntiphonError]] = {
    "bad-size": InputError,
    "bad-spec": InputError,
    "unknown-name": InputError,
    "bad-file": FileError,
    "not-applicable": NotApplicable,
    "not-proven": NotProven,
    "stalled": Stalled,
    "too-large": TooLarge,
}
"""The kind of error of a code; of the others there is none."""
