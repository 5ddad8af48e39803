"""Failures of the carrier, as users of PyTorch expect them."""

from __future__ import annotations

import torch.distributed as dist

from antiphon.errors import AntiphonError, harmless


def failure(reason: AntiphonError | str, name: str) -> Exception:
    """The exception for work that failed.

    Args:
        reason: what the carrier says: the link or the rank, and what to do.
        name: the work.
    """
    error: Exception = dist.DistBackendError(harmless(f"antiphon: {name} failed: {reason}"))
    return error


def timed_out(name: str, limit_s: float, hint: str = "") -> Exception:
    """The exception for work that took too long.

    Args:
        name: the work.
        limit_s: how long it was given.
        hint: what the carrier waited for.
    """
    what = hint or "another rank may have ended, or not have made this call"
    error: Exception = dist.DistBackendError(
        harmless(f"antiphon: {name} was not done within its timeout of {limit_s:g} s: {what}")
    )
    return error
