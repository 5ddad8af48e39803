"""A GPU that is this machine, for tests of what runs on one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cuda_stand_in import COMPILER, GROUPS, THREADS, Driver, library

from antiphon.execution.cuda import carrier, device, testbed


@pytest.fixture(scope="session")
def _libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("no C++ compiler (g++)")
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def stand_in(_libraries: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Driver]:
    """Puts a machine with so many GPUs and bytes in place of this one's."""

    def put(gpus: int = 1, memory: int = 1 << 30) -> Driver:
        driver = Driver(gpus, memory)

        def compiled(architecture: str, element: str, *_: object) -> bytes:
            assert architecture == "sm_90"
            return str(library(_libraries, element)).encode()

        for module in (carrier, device, testbed):
            for name, value in (("GROUP", THREADS), ("SHAPES", ((GROUPS, 1),)), ("compiled", compiled)):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, value)
        monkeypatch.setattr(device, "_bindings", lambda name: driver)
        return driver

    return put
