"""What a bug report, a run and a measurement should say about the machine, and what a process can ask of it."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import cast

from leanrnn import __version__
from leanrnn.errors import ConfigError, LeanRNNError

__all__ = [
    "check_folder",
    "check_target",
    "check_threads",
    "environment",
    "give_back_memory",
    "hold_memory",
    "peak_bytes",
    "use_threads",
]

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameters of mallopt, from malloc.h of the GNU C library
KERNELS = "64"  # enough for a training step of one shape; making one again costs next to nothing


def environment() -> dict[str, str]:
    """Versions, processor and threads, by name. ::

    environment()["torch"]
    """
    import torch

    packages = ("numpy", "scipy", "safetensors", "tyro", "rich")
    return {
        "leanrnn": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "torch": torch.__version__,
        **{name: _version(name) for name in packages},
        "processor": f"{_processor()}, {os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}",
        "threads": f"{torch.get_num_threads()} (between operators: {torch.get_num_interop_threads()})",
        "oneDNN": "yes" if torch._C._has_mkldnn else "no",
        "accelerator": ", ".join(_accelerators()) or "none",
    }


def hold_memory() -> None:
    """Let this process keep its large blocks of memory from step to step (only the GNU C library can), and oneDNN not
    the kernels of every shape it ever had; call it before the first step. ::

        hold_memory()

    Otherwise every block of some megabytes (the scores of a window over all words) goes back to the system when it is
    freed, and comes again page by page, each cleared first: a tenth or more of a training step on a CPU. And where
    batches are of many lengths, what oneDNN keeps of 1024 kernels grows by gigabytes.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", KERNELS)
    if mallopt := _of_libc("mallopt"):
        mallopt(MMAP_THRESHOLD, 1 << 30)
        mallopt(TRIM_THRESHOLD, (1 << 31) - 1)


def give_back_memory() -> None:
    """Return what is held and not in use to the system; only the GNU C library can. ::

        give_back_memory()  # now and then, where blocks are of many sizes

    Held blocks of one size rarely serve for another, so with batches of many lengths ever more of them are held.
    """
    if malloc_trim := _of_libc("malloc_trim"):
        malloc_trim(0)


def peak_bytes() -> int:
    """The largest memory this process ever had; 0 where the system does not say. ::

    peak_bytes()
    """
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage tells would be the parent's at first
        line = next((line for line in status.read_text().splitlines() if line.startswith("VmHWM")), "")
        return int(line.split()[1]) * 1024 if line else 0
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def check_target(path: Path, kind: type[LeanRNNError]) -> None:
    """An error of this kind if no file can be written there; call it before the work. ::

    check_target(Path("small.onnx"), ExportError)
    """
    if path.is_dir():
        raise kind(f"{path} is a folder. Name a file to write, such as {path / 'NAME'}{path.suffix}.")
    if not path.parent.is_dir():
        raise kind(f"there is no folder {path.parent} for {path.name}. Create it first.")
    if path.exists() and not os.access(path, os.W_OK):
        raise kind(f"{path} is there and write-protected. Name another file, or allow writing to it.")
    if not os.access(path.parent, os.W_OK):
        raise kind(f"nothing can be written to {path.parent.resolve()}: permission denied. Name another folder.")


def check_folder(path: Path, kind: type[LeanRNNError]) -> None:
    """An error of this kind if there can be no folder to write into; nothing is made. Call it before the work. ::

    check_folder(Path("runs/mine"), RunError)
    """
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not there.is_dir():
        raise kind(f"{path} cannot be a folder: {there} is a file. Name another with --out.")
    if not os.access(there, os.W_OK):
        raise kind(f"{path} cannot be written to: permission denied. Name another with --out.")


def check_threads(count: int) -> None:
    """An error if no work can be done with so many. ::

    check_threads(1)
    """
    if count < 1:
        raise ConfigError(f"threads is {count}. Give at least 1.")


def use_threads(count: int | None) -> None:
    """Let PyTorch use so many threads; None leaves it as it is. ::

    use_threads(1)
    """
    import torch

    if count is not None:
        check_threads(count)
        torch.set_num_threads(count)


def _of_libc(name: str) -> Callable[..., int] | None:
    """A function of the C library; None where there is none of this name."""
    try:
        return cast(Callable[..., int], getattr(ctypes.CDLL(None), name))
    except (AttributeError, OSError, TypeError):
        return None


def _accelerators() -> list[str]:
    import torch

    found = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return [*found, "mps"] if torch.backends.mps.is_available() else found


def _processor() -> str:
    info = Path("/proc/cpuinfo")  # platform.processor() says nothing on most Linux systems
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
