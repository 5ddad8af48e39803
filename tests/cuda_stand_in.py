"""A GPU that is this machine: CUDA's driver, as far as the package calls it, with ``kernel.cu`` compiled as C++."""

from __future__ import annotations

import ctypes
import enum
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np

KERNEL = Path(__file__).parent.parent / "python/antiphon/execution/cuda/kernel.cu"
COMPILER = shutil.which("g++")
THREADS = 2
"""Of a group."""
GROUPS = 2


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704


class CUdevice_P2PAttribute(enum.Enum):
    CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 3


class CUdevice_attribute(enum.Enum):
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 64
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 9
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 0
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 1_000_000


def library(folder: Path, element: str) -> Path:
    """The kernel as a library."""
    path = folder / f"{element}.so"
    if not path.exists():
        assert COMPILER is not None
        options = [
            "-std=c++20",
            "-O1",
            "-g",
            "-shared",
            "-fPIC",
            "-pthread",
            f"-DGROUP={THREADS}",
            f"-DGROUPS={GROUPS}",
        ]
        defined = [f"-D{element.upper()}", f'-DKERNEL_FILE="{KERNEL}"']
        source = Path(__file__).parent / "stand_in.h"
        command = [COMPILER, *options, *defined, "-x", "c++", str(source), "-o", str(path)]
        subprocess.run(command, check=True, capture_output=True, text=True)
    return path


class Driver:
    """The functions of ``cuda.bindings.driver``. A stream is a list of threads that work one after the other."""

    CUresult, CUdevice_attribute, CUdevice_P2PAttribute = CUresult, CUdevice_attribute, CUdevice_P2PAttribute

    def __init__(self, gpus: int = 1, bytes: int = 1 << 30) -> None:
        self.gpus, self.bytes, self.by_nvlink = gpus, bytes, True
        self.memory: dict[int, np.ndarray] = {}
        self.streams: dict[int, list[threading.Thread]] = {}
        self.launched: list[int] = []

    def _idle(self, *_: object) -> tuple[int]:
        return (0,)

    cuCtxSetCurrent = cuCtxEnablePeerAccess = cuDevicePrimaryCtxRelease = cuModuleUnload = _idle
    cuEventDestroy = cuStreamDestroy = _idle

    def cuDeviceGetCount(self) -> Any:
        return 0, self.gpus

    def cuDeviceGet(self, number: int) -> Any:
        return 0, number

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        return 0, device

    def cuDeviceGetName(self, size: int, device: int) -> Any:
        return 0, b"Stand-in\0"

    def cuDeviceGetAttribute(self, attribute: Any, device: int) -> Any:
        return 0, attribute.value

    def cuDeviceCanAccessPeer(self, device: int, other: int) -> Any:
        return 0, 1

    def cuDeviceGetP2PAttribute(self, attribute: Any, device: int, other: int) -> Any:
        return 0, int(self.by_nvlink)

    def cuMemGetInfo(self) -> Any:
        return 0, self.bytes, self.bytes

    def cuMemAlloc(self, size: int) -> Any:
        room = np.full(size + 256, 170, np.uint8)
        address = -(-room.ctypes.data // 256) * 256
        self.memory[address] = room
        return 0, address

    def cuMemFree(self, address: int) -> Any:
        del self.memory[address]
        return (0,)

    def cuMemcpyHtoD(self, to: int, start: int, size: int) -> Any:
        ctypes.memmove(to, start, size)
        return (0,)

    cuMemcpyDtoH = cuMemcpyHtoD

    def cuMemcpyHtoDAsync(self, to: int, start: int, size: int, stream: int) -> Any:
        return self.cuMemcpyHtoD(to, start, size)

    def cuMemcpyDtoDAsync(self, to: int, start: int, size: int, stream: int) -> Any:
        return self.work(stream, ctypes.memmove, to, start, size)

    def cuMemsetD8Async(self, to: int, byte: int, size: int, stream: int) -> Any:
        return self.work(stream, ctypes.memset, to, byte, size)

    def work(self, stream: int, function: Any, *arguments: Any) -> Any:
        before = self.streams[stream][-1:]

        def run() -> None:
            for each in before:
                each.join()
            function(*arguments)

        self.streams[stream].append(threading.Thread(target=run, daemon=True))
        self.streams[stream][-1].start()
        return (0,)

    def cuStreamCreate(self, flags: int) -> Any:
        self.streams[len(self.streams)] = []
        return 0, len(self.streams) - 1

    def cuStreamQuery(self, stream: int) -> Any:
        busy = any(each.is_alive() for each in self.streams[stream])
        return (CUresult.CUDA_ERROR_NOT_READY if busy else CUresult.CUDA_SUCCESS,)

    def cuStreamSynchronize(self, stream: int) -> Any:
        while self.streams[stream]:
            self.streams[stream].pop(0).join()
        return (0,)

    def cuEventCreate(self, flags: int) -> Any:
        return 0, object()

    def cuEventRecord(self, event: object, stream: int) -> Any:
        return (0,)

    def cuEventElapsedTime(self, start: object, end: object) -> Any:
        return 0, 0.5

    def cuModuleLoadData(self, code: bytes) -> Any:
        return 0, ctypes.CDLL(code.decode())

    def cuModuleGetFunction(self, module: ctypes.CDLL, name: bytes) -> Any:
        return 0, getattr(module, f"launch_{name.decode()}")

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, kernel: Any, threads: int, shared: int) -> Any:
        return 0, 1

    def cuLaunchCooperativeKernel(self, kernel: Any, blocks: int, *rest: Any) -> Any:
        self.launched.append(blocks)
        pointers = ctypes.cast(rest[-1], ctypes.POINTER(ctypes.c_void_p))
        # What a kernel is given is copied when it is launched.
        copied = ctypes.create_string_buffer(ctypes.string_at(pointers[0], 18 * 8), 18 * 8)
        held = (ctypes.c_void_p * 1)(ctypes.addressof(copied))
        return self.work(rest[-2], lambda: (kernel(blocks, held), copied))

    def cuLaunchKernel(self, kernel: Any, blocks: int, *rest: Any) -> Any:
        pointers = ctypes.cast(rest[-2], ctypes.POINTER(ctypes.c_void_p))
        kernel(blocks, pointers)
        return (0,)
