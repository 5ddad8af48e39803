"""The exception of the package, and its kinds."""

from __future__ import annotations


class AntiphonError(ValueError):
    """Something a user can act on; by its code one of the kinds below, where there is one.

    >>> type(AntiphonError("ring on mesh:2x2 loses a byte", "not-proven")).__name__
    'NotProven'

    Attributes:
        message: what is wrong, where, and what to do instead, on one line.
        code: stable identifier: ``bad-size``, ``unknown-name``, ``bad-spec``, ``bad-file``,
            ``not-applicable``, ``not-proven``, ``stalled``, ``too-large``, ``missing-extra``, ``interrupted``, or
            ``internal``, a fault of Antiphon itself.
    """

    def __new__(cls, message: str, code: str) -> AntiphonError:
        kind = KINDS.get(code, cls) if cls is AntiphonError else cls
        return super().__new__(kind, message, code)

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message, code)
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return self.message


class InputError(AntiphonError):
    """An argument that means nothing: ``bad-size``, ``bad-spec`` or ``unknown-name``."""


class FileError(AntiphonError):
    """A file that cannot be read or written, or is not what it should be: ``bad-file``."""


class NotApplicable(AntiphonError):
    """An algorithm, model or option that does not fit: ``not-applicable``."""


class NotProven(AntiphonError):
    """A schedule with a counter-example: ``not-proven``."""


class Stalled(AntiphonError):
    """A run in which all wait for each other: ``stalled``."""


class TooLarge(AntiphonError):
    """Work beyond the limits: ``too-large``."""


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
