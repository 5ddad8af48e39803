"""``torch.distributed`` over any wiring of machines: the process group ``antiphon``.

``torch.distributed.init_process_group("antiphon")`` works where Antiphon is installed: PyTorch 2.5 and later load it
by its entry point, PyTorch 2.4 after ``import antiphon.torch``.

Examples:
    A job under ``torchrun``::

        import torch, torch.distributed as dist

        dist.init_process_group("antiphon")
        tensor = torch.ones(4)
        dist.all_reduce(tensor)
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
