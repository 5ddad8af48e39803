"""What runs the points of a study: processes, or a Dask cluster for studies that are too large for one machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from antiphon.errors import AntiphonError
from antiphon.parallel import cores
from antiphon.studies.workers import Workers

ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://[^\s/]+:\d{1,5}")
EXAMPLE = "tcp://10.0.0.1:8786"
PATIENCE_S = 10.0
"""A scheduler, and a first worker, are waited for this long."""


@contextmanager
def workers(jobs: int | None, address: str | None, limit_s: float | None) -> Iterator[tuple[Executor, int]]:
    """Worker processes on this machine, or the cluster of a scheduler, and how many points are run at once.

    Raises:
        AntiphonError: as ``cluster``.
    """
    if address is None:
        count = jobs or cores()
        with Workers(count, limit_s) as executor:
            yield executor, count
    else:
        with cluster(address) as (there, count):
            yield there, jobs or count


@contextmanager
def cluster(address: str) -> Iterator[tuple[Executor, int]]:
    """The cluster of a Dask scheduler, such as ``tcp://10.0.0.1:8786``, and how many points it can run at once.

    Antiphon, the same build, must be installed on the workers, and files that points name must be there.

    Raises:
        AntiphonError: ``missing-extra`` without Dask; ``bad-spec`` if there is no scheduler, or it has no workers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise AntiphonError("clusters need Dask: pip install 'antiphon[cluster]'", "missing-extra") from None
    if not ADDRESS.fullmatch(address):
        raise AntiphonError(f"cluster '{address[:80]}' is no address; write for example {EXAMPLE}", "bad-spec")
    try:
        client: Any = Client(address, timeout=PATIENCE_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError) as error:
        message = f"no Dask scheduler at '{address[:80]}': {error}"
        raise AntiphonError(message, "bad-spec") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE_S)
        except TimeoutError:
            message = f"the scheduler at {address} has no workers; start some with: dask worker {address}"
            raise AntiphonError(message, "bad-spec") from None
        yield client.get_executor(pure=False), sum(client.nthreads().values())
