"""What needs CUDA's libraries for Python, which come with PyTorch; no GPU."""

from __future__ import annotations

import pytest
from cuda_stand_in import Driver

import antiphon
from antiphon.execution.cuda.carrier import ADDED
from antiphon.execution.cuda.device import SHAPES, Gpu, compiled

driver = pytest.importorskip("cuda.bindings.driver", reason="this PyTorch came without CUDA", exc_type=ImportError)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("element", ADDED)
def test_the_kernel_compiles(architecture: str, element: str) -> None:
    for shape in (SHAPES[0], SHAPES[-1]):
        for scope in ("gpu", "sys"):
            assert len(compiled(architecture, element, shape, scope)) > 1000


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(flags: int) -> None:
        raise RuntimeError("libcuda.so.1")

    monkeypatch.setattr(driver, "cuInit", missing)
    with pytest.raises(antiphon.NotApplicable, match="no NVIDIA driver"):
        Gpu()


def test_what_stands_in_is_what_cuda_for_python_has() -> None:
    calls = {name for name in dir(Driver) if name.startswith("cu")} | {"cuInit", "cuDriverGetVersion"}
    assert len(calls) > 25
    assert {name for name in calls if not hasattr(driver, name)} == set()
    for kind in ("CUresult", "CUdevice_attribute", "CUdevice_P2PAttribute"):
        members = getattr(Driver, kind).__members__
        assert {name for name in members if name not in getattr(driver, kind).__members__} == set()
