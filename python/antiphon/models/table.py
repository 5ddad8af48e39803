"""Tables of layers in the form ``totals``."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields

from antiphon._core import Workload
from antiphon.errors import AntiphonError
from antiphon.files import written_whole


@dataclass
class Layer:
    """What a layer has, and does in the forward pass of one sample.

    Attributes:
        layer: name.
        params: trained weights, and so gradients.
        macs: multiply-adds.
        input_elements: elements read, without weights.
        output_elements: elements written.
    """

    layer: str
    params: int = 0
    macs: int = 0
    input_elements: int = 0
    output_elements: int = 0


@dataclass(frozen=True)
class LayerTable:
    """The layers of a model that have weights or multiply, in the order in which they start.

    Attributes:
        name: name of the model.
        layers: one entry for each layer.
    """

    name: str
    layers: list[Layer]

    @property
    def csv(self) -> str:
        """The table as CSV in the form ``totals``."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(field.name for field in fields(Layer))
        writer.writerows(astuple(layer) for layer in self.layers)
        return text.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the table to a file that ends in ``.csv``.

        Raises:
            AntiphonError: ``bad-file`` if it cannot be written.
        """
        with written_whole(path, ".csv") as file:
            file.write(self.csv)

    def workload(self) -> Workload:
        """The table as a workload.

        Raises:
            AntiphonError: ``bad-file`` if it has no layers or larger ones than a workload may have.
        """
        return Workload.from_csv(self.name, self.csv)


def samples(batch: int | None, first_dimension: int) -> int:
    """Samples in an input whose first dimension is given, if the caller says ``batch``.

    Raises:
        AntiphonError: ``bad-spec`` if that is not clear, ``bad-size`` below 1.
    """
    if batch is not None:
        whole_number("batch", batch)
    if batch is None and first_dimension != 1:
        message = f"the first dimension of the input is {first_dimension}"
        raise AntiphonError(f"{message}; say batch={first_dimension} if these are samples, batch=1 if not", "bad-spec")
    return 1 if batch is None else batch


def whole_number(name: str, value: object) -> None:
    """Refuses a ``value`` that is no whole number from 1.

    Raises:
        AntiphonError: ``bad-size``.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise AntiphonError(f"{name} is {value!r:.40}; it must be a whole number", "bad-size")
    if value < 1:
        raise AntiphonError(f"{name} is {value}; it must be at least 1", "bad-size")


def table_of(name: str, layers: Iterable[Layer], batch: int) -> LayerTable:
    """The table of ``layers``, whose counts are of ``batch`` samples; those that do nothing are left out.

    Raises:
        AntiphonError: ``not-applicable`` if counts are not the same for every sample.
    """
    rows = []
    for index, layer in enumerate(layers):
        counts = [layer.macs, layer.input_elements, layer.output_elements]
        if any(count % batch for count in counts):
            message = f"{name}: the counts of layer '{layer.layer}' are no multiples of the batch of {batch}"
            raise AntiphonError(f"{message}; give a single sample", "not-applicable")
        if layer.params or layer.macs:
            # A row that starts with # would be a comment.
            label = layer.layer.lstrip("# ") or f"layer{index}"
            rows.append(Layer(label, layer.params, *[count // batch for count in counts]))
    return LayerTable(name, rows)
