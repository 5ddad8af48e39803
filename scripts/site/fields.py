"""For the pages of Python's names: what the fields of a record mean, and examples as code."""

from __future__ import annotations

import ast
import re
from typing import Any

from griffe import Attribute, Class, Docstring, ExprCall, Extension, Object

DECLARED = {"says": 0, "Part": 2}
"""What declares a field, and which of its arguments is the meaning."""


class Fields(Extension):
    """Completes docstrings."""

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        """The fields that a class declares become attributes of its docstring, as ``help`` shows them."""
        told = []
        for name, member in list(cls.members.items()):
            value = member.value if isinstance(member, Attribute) else None
            if not isinstance(value, ExprCall) or str(value.function) not in DECLARED:
                continue
            place = DECLARED[str(value.function)]
            if len(value.arguments) > place:
                meaning = ast.literal_eval(str(value.arguments[place]))
                kind = value.arguments[0] if place else member.annotation
                told.append(f"    {name} ({kind}): {meaning[:1].upper()}{meaning[1:]}")
                cls.del_member(name)
        if told and cls.docstring:
            cls.docstring.value = "\n".join([cls.docstring.value.rstrip(), "", "Attributes:", *told])

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Examples that stand in the text are code."""
        if obj.docstring:
            text = re.sub(r"^>>> .*?(?=\n\s*\n|\Z)", r"```pycon\n\g<0>\n```", obj.docstring.value, flags=re.M | re.S)
            obj.docstring = Docstring(text, parent=obj, parser=obj.docstring.parser, lineno=obj.docstring.lineno)
