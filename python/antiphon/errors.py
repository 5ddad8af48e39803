"""The one exception of the package."""


class AntiphonError(ValueError):
    """Something a user can act on.

    Attributes:
        message: what is wrong, where, and what to do instead, on one line.
        code: stable identifier: ``bad-size``, ``unknown-name``, ``bad-spec``, ``bad-file``,
            ``not-applicable``, ``not-proven``, ``stalled``, ``too-large`` or ``interrupted``.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message, code)
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return self.message
