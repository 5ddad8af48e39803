"""What needs a GPU says so in a line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from cuda_stand_in import Driver

import antiphon
from antiphon.execution.cuda import carrier, device
from antiphon.execution.cuda.device import Gpu
from antiphon.execution.measure import Plan

Machine = Callable[..., Driver]


def test_without_cuda_for_python(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda.bindings.driver", "cuda.bindings.nvrtc"):
        monkeypatch.setitem(sys.modules, name, None)
    for work in (
        lambda: antiphon.measure("ring:4", "ring", sizes=[4096], transport="cuda"),
        lambda: antiphon.emulate("ring:4", "ring", bytes=4096, device="cuda"),
    ):
        with pytest.raises(antiphon.AntiphonError, match=r"pip install 'antiphon\[cuda\]'") as error:
            work()
        assert error.value.code == "missing-extra"


def test_without_a_gpu(stand_in: Machine) -> None:
    stand_in(gpus=0)
    with pytest.raises(antiphon.NotApplicable, match="0 GPUs"):
        Gpu()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"element": "float64"}, "not-applicable", "not float64"),
        ({"calibration": "none.json"}, "not-applicable", "calibration"),
        ({"fabric": "fc:9", "algorithm": "direct"}, "too-large", "72 pairs of ranks that talk; Stand-in serves 64"),
    ],
)
def test_what_is_refused(options: dict[str, str], code: str, said: str, stand_in: Machine) -> None:
    stand_in()
    given = {"fabric": "ring:4", "algorithm": "ring"} | options
    with pytest.raises(antiphon.AntiphonError) as error:
        antiphon.measure(**given, sizes=[9 * 4096], transport="cuda")  # type: ignore[arg-type]
    assert (error.value.code, said in str(error.value)) == (code, True), error.value


def test_memory_is_looked_at_first(stand_in: Machine) -> None:
    driver = stand_in(memory=carrier.SPARE_BYTES + 1000)
    with pytest.raises(antiphon.TooLarge, match="which has 1,000 to give"):
        carrier.measure_cuda([antiphon.build("ring:4", "ring", bytes=4096)], Plan("int32", 0, 1), 8.0)
    assert driver.memory == {}


def test_a_kernel_that_is_refused(stand_in: Machine) -> None:
    driver = stand_in()
    driver.cuModuleLoadData = lambda code: (driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY,)  # type: ignore[method-assign]
    driver.cuDriverGetVersion = lambda: (0, 12040)  # type: ignore[attr-defined]
    with pytest.raises(antiphon.NotApplicable, match=r"OUT_OF_MEMORY: the driver is for CUDA 12.4"):
        Gpu().kernel("carry", b"")


def test_an_older_gpu_is_refused_or_left_out(stand_in: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = stand_in(gpus=2)
    whole = driver.cuDeviceGetAttribute
    old: set[int] = {1}

    def attribute(which: Any, number: int) -> Any:
        return (0, 7) if number in old and which.name.endswith("MAJOR") else whole(which, number)

    monkeypatch.setattr(driver, "cuDeviceGetAttribute", attribute)
    assert len(device.gpus()) == 1
    old.clear()
    assert len(device.gpus()) == 2
    driver.by_nvlink = False
    assert len(device.gpus()) == 1
    old.add(0)
    with pytest.raises(antiphon.NotApplicable, match="Stand-in is sm_70"):
        device.gpus()
