"""``torch.distributed`` over any wiring of machines: the process group ``antiphon``.

``torch.distributed.init_process_group("antiphon")`` works where Antiphon is installed: PyTorch 2.5 and later load it
by its entry point, PyTorch 2.4 after ``import antiphon.torch``.

Examples:
    A job under ``torchrun``::

        import torch, torch.distributed as dist

        dist.init_process_group("antiphon")
        tensor = torch.ones(4)
        dist.all_reduce(tensor)

    Training, with gradients exchanged behind the next forward pass; in place of ``DistributedDataParallel(model)``::

        model = antiphon.torch.chain(model, optimizer)
"""

from __future__ import annotations

from typing import Any

from antiphon.errors import AntiphonError

NAME = "antiphon"
"""What ``init_process_group`` calls it."""


def create(options: Any, _backend_options: object = None) -> Any:
    """A process group, as PyTorch asks for it.

    Args:
        options: PyTorch's ``_DistributedBackendOptions``: store, rank, size, time limit, name and ranks of the group.

    Raises:
        torch.distributed.DistBackendError: no wiring joins the ranks, or a rank did not come.
    """
    from antiphon.torch.group import open_group  # `import torch` loads this file: the rest waits until it is asked for

    return open_group(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        name=str(options.group_id),
        ranks=list(options.global_ranks_in_group),
    )


def chain(
    model: Any, optimizer: Any, *, algorithm: str | None = None, by_layer: bool = False, group: Any = None
) -> Any:
    """Chains the exchange of a model's gradients with its next forward pass, layer by layer, as C-Cube does (HPCA
    2023).

    All ranks start from the parameters and buffers of rank 0. A backward pass ends in one all-reduce of all gradients,
    laid out in the order of the first forward pass. ``optimizer.step()`` returns at once; in the next forward pass
    every layer waits for the sums of its own gradients and does its own part of the step, while those of later layers
    are still on their way. Weights are those that all steps at once would give. Sums are added up in the same order in
    every run.

    Args:
        model: whose parameters that need gradients all get one in every step. One that is used in several places is
            waited for in all of them. It may run under ``torch.autocast``.
        optimizer: of just these parameters. Whatever looks at gradients between ``backward`` and ``step`` (clipping by
            their norm, ``GradScaler``) waits for all of them, so that little is hidden. After ``step`` parameters have
            no gradients.
        algorithm: a specification such as ``overlapped-tree:trees=1``; default: the one that completes gradients in
            order soonest, as simulated.
        by_layer: an optimizer that is not PyTorch's own steps each parameter by its own gradient alone.
        group: of the ranks; default: all.

    Returns:
        A module to call in place of the model. ``no_sync()`` is that of ``DistributedDataParallel``; ``finish()`` does
        what is left of a step, for whoever reads parameters; saving a ``state_dict`` does it, too.

    Raises:
        ValueError: for what cannot be chained: another backend, a model that was compiled or wrapped as a whole, sparse
            gradients, optimizers that need all gradients at once.
        AntiphonError: for an algorithm that does not apply.
    """
    from antiphon.torch.chaining.model import Chained

    return Chained(model, optimizer, algorithm, group, by_layer)


def register(name: str = NAME) -> None:
    """Makes the process group known to PyTorch, for CPU and CUDA tensors. It may be called more than once.

    The end of ``import torch`` calls it by the entry point, even while `register` itself imports PyTorch.

    Args:
        name: what ``init_process_group`` will call it.

    Raises:
        AntiphonError: ``missing-extra`` without PyTorch.
    """
    try:
        import torch.distributed as dist
    except ModuleNotFoundError as error:
        raise AntiphonError("antiphon.torch needs PyTorch; pip install 'antiphon[torch]'", "missing-extra") from error
    if dist.is_available():
        dist.Backend.register_backend(name, create, extended_api=True, devices=["cpu", "cuda"])


register()
