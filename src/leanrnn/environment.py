"""What a bug report, a run and a measurement should say about the machine, and what a process can ask of it."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from leanrnn import __version__

__all__ = ["environment", "hold_memory", "peak_bytes"]

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameters of mallopt, from malloc.h of the GNU C library


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
    """Let this process keep its large blocks of memory from step to step; only the GNU C library can, elsewhere nothing
    happens. ::

        hold_memory()

    Otherwise every block of some megabytes (the scores of a window over all words) goes back to the system when it is
    freed, and comes again page by page, each cleared first: a tenth or more of a training step on a CPU.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(MMAP_THRESHOLD, 1 << 30)
    mallopt(TRIM_THRESHOLD, (1 << 31) - 1)


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
