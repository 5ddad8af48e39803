"""Commands about training: what models there are, and how long they take to train."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

import antiphon
from antiphon.cli.declared import command
from antiphon.cli.documented import with_options
from antiphon.cli.groups import Part
from antiphon.cli.lists import entry_row
from antiphon.cli.options import read_fabric
from antiphon.cli.output import note, tell
from antiphon.cli.pages import paged
from antiphon.collective.result import REFUSALS
from antiphon.collective.specs import split_specs
from antiphon.declared import inputs
from antiphon.errors import AntiphonError
from antiphon.platforms import read_endpoint
from antiphon.results import rows_of
from antiphon.training.result import Training
from antiphon.training.train import RAILS, split_fabrics
from antiphon.view.document import Document
from antiphon.view.documents.fabric import noting_switches
from antiphon.view.documents.jobs import training_document
from antiphon.view.documents.lists import entries_table, list_document
from antiphon.view.terminal.console import progress_bar

TAKE_NOTHING = {"system", "ideal"}
"""Endpoints that leave all to computation."""


@command(of=antiphon.train, common="overlap batch compute system against energy report opened output", without="chakra")
def train(
    model: str,
    fabric: str,
    algorithm: str,
    *,
    system: antiphon.System,
    against: tuple[str, ...] = (),
    against_endpoints: tuple[str, ...] = (),
    part: Part,
    chakra: str | None = None,
    report: str | None,
    output: str,
    dataset: int,
    **parameters: Any,
) -> None:
    """Time an iteration and an epoch of training.

    MODEL is a name (antiphon workloads), a table of layers, FILE.csv, or an ONNX model, FILE.onnx
    (docs/reference/workloads.md); it and FABRIC may be several, with commas, for a table. FABRIC
    rails:TOPOLOGY is a multi-dimensional network (antiphon rails); ALGORITHM is then a scheduler.

    Examples:
        antiphon train alexnet mesh:4x4 tto --system tto --against ring-bi,multitree
        antiphon train alexnet,resnet50 ring:4,ring:8 ring --format markdown
        antiphon train resnet152 rails:3D-SW_SW_SW_hetero themis --overlap layerwise
        antiphon train resnet50 rails:ace:4x8x4 phased --overlap both --endpoint ace --against-endpoints ideal,npu
        antiphon train resnet50 mesh:4x4 ring --against tto --energy --set static_router_mw=100
        antiphon train resnet50 mesh:4x4 ring --overlap layerwise --chakra resnet50

    Args:
        against: Algorithms to compare with. Repeatable.
        against_endpoints: Endpoints to compare with, with the same ALGORITHM. Repeatable.
        chakra: Also write Chakra traces, PREFIX.RANK.et (docs/reference/formats.md).
        report: Also draw the iterations on a self-contained HTML page.
    """
    models, fabrics = model.split(","), split_fabrics(fabric)
    networks = [network for spec in fabrics for network in _networks(spec, fabric, part)]
    single = len(models) == len(networks) == 1
    if chakra is not None and not single:
        raise AntiphonError("--chakra: traces are of one model on one fabric; give one of each", "bad-spec")
    mixed, options = len({spec.startswith(RAILS) for spec in fabrics}) > 1, parameters
    with paged(report, output) as write:
        results: list[tuple[Training, list[Training]]] = []
        refused: list[dict[str, str]] = []
        with progress_bar() as progress:
            rivals = [(each, system) for each in split_specs(against)] if against else []
            endpoints = split_specs(against_endpoints) if against_endpoints else []
            rivals += [(algorithm, system.with_(endpoint=read_endpoint(each))) for each in endpoints]
            _check_taken([system, *(platform for _, platform in rivals)], parameters)
            for name in models:
                work = antiphon.workload(name)
                for network in networks:
                    if mixed:  # Each option is for one kind.
                        other = ("exchange", "in_flight") if isinstance(network, str) else ("chunks",)
                        options = {**parameters, **dict[str, Any].fromkeys(other)}
                    runs: list[Training] = []
                    for number, (each, platform) in enumerate([(algorithm, system), *rivals]):
                        options["chakra"] = None if number else chakra
                        try:
                            runs.append(
                                antiphon.train(
                                    work, network, each, platform, dataset=dataset, progress=progress, **options
                                )
                            )
                        except AntiphonError as error:
                            # One training must succeed, a row of a table need not.
                            if error.code not in REFUSALS or (single and not number):
                                raise
                            reason = with_options(error.message, click.get_current_context().command)
                            why = {"reason": reason, "code": error.code}
                            name = network if isinstance(network, str) else network.name
                            refused.append({"model": work.name, "fabric": name, "algorithm": each, **why})
                            if not number:
                                break
                    if runs:
                        results.append((runs[0], runs[1:]))
        if not results:
            raise AntiphonError(refused[0]["reason"], refused[0]["code"])
        write(partial(_page, results, refused))
        shown = partial(training_document, results, refused)
        show = noting_switches(shown, *(network for network in networks if not isinstance(network, str)))
        if single:
            training, others = results[0]
            tables = {"exchanges": rows_of(training.iteration.exchanges), "layers": rows_of(training.layers)}
            document = training.to_dict(others) | {"refused": refused, "tables": tables}
        else:
            document = {"runs": [training.to_dict(others) for training, others in results], "refused": refused}
        tell("train", document, output, show, "runs")
    note(output, chakra and f"Traces: {chakra}.0.et to {chakra}.{results[0][0].ranks - 1}.et")


def _page(results: list[tuple[Training, list[Training]]], refused: list[dict[str, str]]) -> str:
    from antiphon.view.pages.training import render

    return render(results, refused)


def _check_taken(systems: Sequence[antiphon.System], parameters: dict[str, Any]) -> None:
    """Refuses what is about an endpoint that takes something from computation, if there is none, nor relays that do."""
    if any(system.relay_processors for system in systems):
        return
    endpoints = {system.endpoint.partition(":")[0] for system in systems}
    declared = {key: each for key, each in inputs(antiphon.train).items() if each.needs == "endpoint"}
    given = [key for key, each in declared.items() if parameters[key] != each.default]
    for key in given if endpoints <= TAKE_NOTHING else ():
        name = f"{key} {parameters[key]}" if declared[key].choices else key
        message = f"{name}: endpoint {', '.join(sorted(endpoints))} takes nothing from computation"
        raise AntiphonError(f"{message}; use it with an endpoint npu or ace", "not-applicable")


def _networks(spec: str, whole: str, part: Part) -> list[str | antiphon.Fabric]:
    """What one of the fabrics ``whole`` stands for: rails, itself, a group of it or several."""
    if spec.startswith(RAILS):
        # There is nothing to read twice.
        if part != Part():
            raise AntiphonError(f"{spec}: groups are of fabrics; name the dimensions that take part", "not-applicable")
        return [spec]
    return list(part.of(read_fabric(spec, whole)))


@command()
def workloads(*, output: str) -> None:
    """List the models that are known by name, and the compute models.

    Examples:
        antiphon workloads
    """
    rows = [{"name": each.name, "summary": each.summary, "source": each.source} for each in antiphon.workloads()]
    models = list(map(entry_row, antiphon.compute_models()))

    def show() -> Document:
        return list_document(rows).with_(entries_table("Compute model", antiphon.compute_models()))

    tell("workloads", {"workloads": rows, "compute_models": models}, output, show, rows)
