"""For the pages of Python's names: a field of a record has the meaning that its declaration ``says``."""

from __future__ import annotations

import ast
from typing import Any

from griffe import Attribute, Docstring, Expr, ExprCall, Extension

DECLARED = {"says": 0, "Part": 2}
"""What declares a field, and which of its arguments is the meaning."""


class Fields(Extension):
    """Reads the meanings of fields."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Moves the meaning from the value of a field to its docstring."""
        value = attr.value
        if not isinstance(value, ExprCall) or str(value.function) not in DECLARED:
            return
        place = DECLARED[str(value.function)]
        if len(value.arguments) > place:
            meaning = ast.literal_eval(str(value.arguments[place]))
            attr.docstring = Docstring(meaning[:1].upper() + meaning[1:], parent=attr)
        if str(value.function) == "Part" and isinstance(kind := value.arguments[0], Expr | str):
            attr.annotation = kind
        attr.value = None
