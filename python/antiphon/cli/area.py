"""The command that says how large a network is."""

from __future__ import annotations

from functools import partial

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.options import read_fabric
from antiphon.cli.output import tell
from antiphon.view.documents.energy import area_document


@command(system="aries")
def area(fabric: str, *, system: antiphon.System, output: str) -> None:
    """Print the area of routers and collectives engines (docs/explanation/energy.md).

    Examples:
        antiphon area mesh:8x8
        antiphon area torus:4x4x4 --system tto --endpoint ace:sram=8MiB,fsms=32 --json
    """
    network = read_fabric(fabric)
    found = antiphon.area(network, system)
    head = {"fabric": network.name, "system": system.name, "endpoint": system.endpoint}
    cost = antiphon.cost(network, system)
    document = head | found.to_dict() | {"cost": cost.to_dict()}
    tell("area", document, output, partial(area_document, network.name, found, cost), "parts")
