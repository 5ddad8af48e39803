"""Large models, and constants of accelerators, as they are given: names, files or objects."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from antiphon._core import Fabric, ModelShape, constants_presets
from antiphon.arguments import expect, shown
from antiphon.errors import AntiphonError
from antiphon.files import read_text

LARGEST_FILE = 1 << 24
"""Files of models and constants are read whole; larger ones are refused."""
OF_BOXES = {
    "dgx-a100": "a100",
    "dgx-h100": "h100",
    "dgx-h200": "h200",
    "dgx-b200": "b200",
    "h800": "h100",
    "gb200-nvl72": "gb200",
}
"""Constants of what is in boxes, by the kind of fabric; of these kinds there may be more than a Fabric has."""


def read_model(model: str | os.PathLike[str] | ModelShape, sequence: int | None = None) -> ModelShape:
    """A model by name (``large_models()``), or from a file, ``.json``: our own form or a ``config.json`` of Hugging
    Face (docs/reference/large-models.md).

    >>> read_model("llama3-8b", sequence=2048).sequence
    2048

    Args:
        sequence: tokens of a sequence; None: those of the model.

    Raises:
        AntiphonError: ``unknown-name``, ``bad-file`` or ``bad-size``.
    """
    expect("model", model, str, os.PathLike, ModelShape)
    if not isinstance(model, ModelShape):
        model = os.fspath(model)
        expect("model", model, str)
        is_file = model.lower().endswith(".json")
        model = ModelShape.from_json(model, read_text(model, LARGEST_FILE)) if is_file else ModelShape(model)
    return model if sequence is None else model.with_sequence(sequence)


def constants(name: str) -> dict[str, Any]:
    """The constants of an accelerator that is known by name, to look at or to change.

    >>> constants("h100")["memory_gib"]
    80.0

    Args:
        name: one of ``a100``, ``h100``, ``h200`` and ``gb200``.

    Raises:
        AntiphonError: ``unknown-name``, listing those there are.
    """
    expect("name", name, str)
    known = {each["name"]: each for each in map(json.loads, constants_presets())}
    if name not in known:
        message = f"no constants {shown(name)}; known: {', '.join(known)}, or a file that ends in .json"
        raise AntiphonError(message, "unknown-name")
    return dict[str, Any](known[name])


def all_constants() -> list[dict[str, Any]]:
    """All constants that are known by name."""
    return [json.loads(text) for text in constants_presets()]


def read_constants(
    given: str | os.PathLike[str] | Mapping[str, Any] | None, fabric: str | Fabric = ""
) -> tuple[str, str]:
    """What errors call them, and constants as a text: those of a name, a file, ``.json``, or a dictionary; None: those
    of the fabric's kind.

    >>> read_constants(None, "dgx-a100:2")[0]
    'a100'

    Raises:
        AntiphonError: ``unknown-name``, ``bad-file``; ``bad-spec`` if the fabric's kind has none.
    """
    expect("constants", given, str, os.PathLike, Mapping, type(None))
    if isinstance(given, Mapping):
        try:
            return "given", json.dumps(dict(given))
        except (TypeError, ValueError, RecursionError):
            raise AntiphonError("constants: is no dictionary of texts and numbers", "bad-file") from None
    if given is None:
        name = fabric if isinstance(fabric, str) else fabric.name
        given = OF_BOXES.get(kind_of(name), "")
        if not given:
            known = ", ".join(each["name"] for each in all_constants())
            message = f"fabric {name:.40}: does not say which accelerators it joins; give constants: {known}, or a file"
            raise AntiphonError(message, "bad-spec")
    given = os.fspath(given)
    expect("constants", given, str)
    if given.lower().endswith(".json"):
        return given, read_text(given, LARGEST_FILE)
    return given, json.dumps(constants(given))


def kind_of(fabric: str) -> str:
    """The kind of a fabric by its specification.

    >>> kind_of("dgx-h100:2[0-7]@100")
    'dgx-h100'
    """
    return fabric.partition(":")[0]


def of_boxes(fabric: str) -> bool:
    """Whether a specification is of equal boxes, of which a step may have more ranks than a Fabric."""
    return kind_of(fabric) in OF_BOXES
