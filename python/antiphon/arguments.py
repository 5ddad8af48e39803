"""Arguments of a wrong type, refused before they are used, as the core refuses its own."""

from __future__ import annotations

LONGEST = 40
"""Characters that are shown of a value."""


def shown(value: object) -> str:
    """A value as in Python, cut where it is long.

    >>> shown(["ring", 3]), shown(10**5000)
    ("['ring', 3]", 'int')
    """
    try:
        return f"{value!r:.{LONGEST}}"
    except ValueError:  # Python refuses to print integers of thousands of digits
        return type(value).__name__


def expect(name: str, value: object, *types: type) -> None:
    """Refuses an argument that is none of the types.

    >>> expect("fabric", 3, str, type(None))
    Traceback (most recent call last):
    TypeError: argument 'fabric': expected str or None, not int

    Raises:
        TypeError: naming the argument.
    """
    if not isinstance(value, types):
        expected = " or ".join("None" if one is type(None) else one.__name__ for one in types)
        raise TypeError(f"argument '{name}': expected {expected}, not {type(value).__name__}")
