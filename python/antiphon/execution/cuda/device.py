"""GPUs by CUDA's driver: memory, kernels of ``kernel.cu``, runs that end when they are told to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from types import ModuleType
from typing import TYPE_CHECKING, Any

from antiphon.errors import AntiphonError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

GROUP = 128
"""Threads that move one message together."""
SHAPES = ((8, 1), (4, 2), (2, 4), (1, 8), (1, 16))
"""Groups of a block, so messages of a queue that are under way together, and blocks of an SM; with the last, registers
are few."""
EXTRA = "a GPU needs CUDA for Python: pip install 'antiphon[cuda]'"
POLL_S = 1e-4


def compiled(architecture: str, element: str, shape: tuple[int, int], scope: str = "gpu") -> bytes:
    """``kernel.cu`` as machine code. Needs no GPU.

    Args:
        architecture: as ``sm_90``.
        element: float32, float16, bfloat16 or int32.
        shape: groups of a block, and blocks of an SM.
        scope: ``gpu``, or ``sys`` where several GPUs take part.

    Raises:
        AntiphonError: ``missing-extra`` without NVRTC, ``internal`` if it refuses.
    """
    groups, blocks = shape
    defined = (element.upper(), f'SCOPE="{scope}"', f"GROUP={GROUP}", f"GROUPS={groups}", f"BLOCKS={blocks}")
    return _compiled(f"--gpu-architecture={architecture}", *(f"-D{each}" for each in defined))


@lru_cache(maxsize=16)
def _compiled(*options: str) -> bytes:
    nvrtc = _bindings("nvrtc")
    source = files("antiphon.execution.cuda").joinpath("kernel.cu").read_bytes()
    (program,) = _done(nvrtc.nvrtcCreateProgram(source, b"kernel.cu", 0, [], []))
    try:
        failed, *_ = nvrtc.nvrtcCompileProgram(program, len(options), [each.encode() for each in options])
        if int(failed):
            log = b" " * _done(nvrtc.nvrtcGetProgramLogSize(program))[0]
            nvrtc.nvrtcGetProgramLog(program, log)
            raise AntiphonError(f"kernel.cu: {log.decode(errors='replace')[:300]}", "internal")
        code: bytes = b" " * _done(nvrtc.nvrtcGetCUBINSize(program))[0]
        _done(nvrtc.nvrtcGetCUBIN(program, code))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return code


def _bindings(name: str) -> ModuleType:
    """A part of CUDA for Python that has found its library."""
    try:
        module = import_module(f"cuda.bindings.{name}")
    except ImportError:
        raise AntiphonError(EXTRA, "missing-extra") from None
    try:
        _done(module.cuInit(0) if name == "driver" else module.nvrtcVersion())
    except RuntimeError:  # where the library is not found
        if name == "nvrtc":
            raise AntiphonError(f"NVRTC is missing; {EXTRA}", "missing-extra") from None
        raise AntiphonError("this machine has no NVIDIA driver, which a GPU needs", "not-applicable") from None
    return module


def _done(result: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a call gave.

    Raises:
        AntiphonError: ``not-applicable`` with CUDA's name of the error.
    """
    error, *rest = result
    if int(error):
        raise AntiphonError(f"the GPU cannot be used: {getattr(error, 'name', error)}", "not-applicable")
    return tuple(rest)


class Gpu:
    """One GPU: its memory, and one stream of work."""

    def __init__(self, number: int = 0) -> None:
        """Opens a GPU.

        Raises:
            AntiphonError: ``missing-extra`` without CUDA for Python; ``not-applicable`` without such a GPU.
        """
        self._cuda = cuda = _bindings("driver")
        (count,) = _done(cuda.cuDeviceGetCount())
        if number >= count:
            raise AntiphonError(f"this machine has {count} GPUs that CUDA can use", "not-applicable")
        (self.handle,) = _done(cuda.cuDeviceGet(number))
        self.name: str = _done(cuda.cuDeviceGetName(128, self.handle))[0].decode().strip("\0 ")
        self.processors = self._attribute("MULTIPROCESSOR_COUNT")
        major, minor = (self._attribute(f"COMPUTE_CAPABILITY_{each}") for each in ("MAJOR", "MINOR"))
        self.architecture = f"sm_{major}{minor}"
        self.cycles_per_s = 1000.0 * self._attribute("CLOCK_RATE")
        if major < 8:
            raise AntiphonError(f"{self.name} is {self.architecture}; sm_80 or newer is needed", "not-applicable")
        (self.context,) = _done(cuda.cuDevicePrimaryCtxRetain(self.handle))
        self._memory: list[int] = []
        self._modules: dict[bytes, Any] = {}
        self.use()
        self.stream, self._aside = (_done(cuda.cuStreamCreate(1))[0] for _ in range(2))
        self._events = [_done(cuda.cuEventCreate(0))[0] for _ in range(2)]

    def _attribute(self, name: str) -> int:
        attribute = getattr(self._cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(_done(self._cuda.cuDeviceGetAttribute(attribute, self.handle))[0])

    def use(self) -> Any:
        """Makes it the one that calls are about; gives CUDA's driver."""
        _done(self._cuda.cuCtxSetCurrent(self.context))
        return self._cuda

    def reaches(self, other: Gpu) -> bool:
        """Whether it can read the other's memory and count its words up, and may from now on."""
        cuda = self.use()
        if not _done(cuda.cuDeviceCanAccessPeer(self.handle, other.handle))[0]:
            return False
        counts = cuda.CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
        if not _done(cuda.cuDeviceGetP2PAttribute(counts, self.handle, other.handle))[0]:
            return False
        already = cuda.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
        result = cuda.cuCtxEnablePeerAccess(other.context, 0)
        return result[0] == already or not _done(result)

    def free_bytes(self) -> int:
        """Memory that is left."""
        return int(_done(self.use().cuMemGetInfo())[0])

    def allocate(self, bytes: int) -> int:
        """Memory, aligned to 256 bytes, until ``release``; its address."""
        address = int(_done(self.use().cuMemAlloc(max(bytes, 1)))[0])
        self._memory.append(address)
        return address

    def release(self, mark: int = 0) -> None:
        """Gives back all memory but what was allocated first."""
        cuda = self.use()
        while len(self._memory) > mark:
            cuda.cuMemFree(self._memory.pop())

    def mark(self) -> int:
        """For ``release``: what is allocated now stays."""
        return len(self._memory)

    def upload(self, array: Array, address: int | None = None) -> int:
        """Copies an array there, to memory of its own if no address is given; the address."""
        import numpy as np

        array = np.ascontiguousarray(array)
        address = self.allocate(array.nbytes) if address is None else address
        if array.nbytes:
            _done(self.use().cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))
        return address

    def download(self, address: int, into: Array) -> Array:
        """Fills an array from there."""
        if into.nbytes:
            _done(self.use().cuMemcpyDtoH(into.ctypes.data, address, into.nbytes))
        return into

    def fill(self, address: int, byte: int, bytes: int) -> None:
        """Sets bytes, in the order of its stream."""
        if bytes:
            _done(self.use().cuMemsetD8Async(address, byte, bytes, self.stream))

    def copy(self, to: int, start: int, bytes: int) -> None:
        """Copies bytes within GPUs, in the order of its stream."""
        if bytes:
            _done(self.use().cuMemcpyDtoDAsync(to, start, bytes, self.stream))

    def kernel(self, name: str, code: bytes) -> Any:
        """A function of machine code.

        Raises:
            AntiphonError: ``not-applicable`` if the driver is older than what compiled it.
        """
        cuda = self.use()
        if code not in self._modules:
            try:
                (self._modules[code],) = _done(cuda.cuModuleLoadData(code))
            except AntiphonError as error:
                (version,) = _done(cuda.cuDriverGetVersion())
                what = f"the driver is for CUDA {version // 1000}.{version % 1000 // 10}"
                what += "; for CUDA 12: pip install 'cuda-bindings~=12.8' nvidia-cuda-nvrtc-cu12"
                raise AntiphonError(f"{error.message}: {what}", "not-applicable") from None
        return _done(cuda.cuModuleGetFunction(self._modules[code], name.encode()))[0]

    def room(self, kernel: Any, threads: int) -> int:
        """Blocks of a kernel that all run at once."""
        per_processor = _done(self.use().cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, threads, 0))[0]
        return int(per_processor) * self.processors

    def launch(self, kernel: Any, blocks: int, threads: int, arguments: Sequence[Array], *, together: bool) -> None:
        """Starts a kernel in its stream; with ``together`` all blocks at once."""
        import numpy as np

        pointers = np.array([each.ctypes.data for each in arguments], np.uint64)
        cuda, size = self.use(), (kernel, blocks, 1, 1, threads, 1, 1, 0, self.stream, pointers.ctypes.data)
        _done(cuda.cuLaunchCooperativeKernel(*size) if together else cuda.cuLaunchKernel(*size, 0))

    def record(self, which: int) -> None:
        """Notes when its stream comes here: the start (0) or the end (1) of a run."""
        _done(self.use().cuEventRecord(self._events[which], self.stream))

    def is_done(self) -> bool:
        """Whether its stream has ended."""
        cuda = self.use()
        result = cuda.cuStreamQuery(self.stream)
        return result[0] != cuda.CUresult.CUDA_ERROR_NOT_READY and _done(result) == ()

    def tell(self, address: int, word: Array) -> None:
        """Copies to memory that a kernel reads while it runs."""
        _done(self.use().cuMemcpyHtoDAsync(address, word.ctypes.data, word.nbytes, self._aside))

    def elapsed_ns(self) -> float:
        """Between the start and the end."""
        return float(_done(self.use().cuEventElapsedTime(*self._events))[0]) * 1e6

    def wait(self) -> None:
        """Until its streams have ended."""
        cuda = self.use()
        _done(cuda.cuStreamSynchronize(self.stream))
        _done(cuda.cuStreamSynchronize(self._aside))

    def close(self) -> None:
        """Gives back all that it has."""
        self.release()
        cuda = self.use()
        for module in self._modules.values():
            cuda.cuModuleUnload(module)
        self._modules.clear()
        for event in self._events:
            cuda.cuEventDestroy(event)
        for stream in (self.stream, self._aside):
            cuda.cuStreamDestroy(stream)
        cuda.cuDevicePrimaryCtxRelease(self.handle)


def gpus() -> list[Gpu]:
    """The first GPU, and all others such that each can read every other's memory.

    Raises:
        AntiphonError: as for one.
    """
    found = [Gpu(0)]
    (count,) = _done(found[0].use().cuDeviceGetCount())
    for number in range(1, count):
        try:
            other = Gpu(number)
        except AntiphonError:  # an older one
            continue
        if other.architecture == found[0].architecture and all(a.reaches(other) and other.reaches(a) for a in found):
            found.append(other)
        else:
            other.close()
    return found


def finish(gpus: Sequence[Gpu], stop: int, progress: Callable[[], object] | None = None) -> None:
    """Until the streams of all have ended. What is raised meanwhile, by Ctrl-C or ``progress``, ends the run first:
    then the word at ``stop``, in the memory of the first, is not 0."""
    import numpy as np

    try:
        while not all(gpu.is_done() for gpu in gpus):
            time.sleep(POLL_S)
            if progress is not None:
                progress()
    except BaseException:
        gpus[0].tell(stop, np.ones(1, np.uint32))
        for gpu in gpus:
            gpu.wait()
        raise
