"""What NVML tells of the GPUs that a machine offers, apart from their names. No CUDA context is opened."""

from __future__ import annotations

import os
from collections.abc import Sequence

import psutil
import pynvml

from swell.executors.local.devices import as_text
from swell.executors.local.machine_facts import GpuFacts


def look_at_gpus(uuids: Sequence[str], pid: int | None) -> GpuFacts | None:
    """Return what is known of these GPUs; None: NVML does not tell.

    Args:
        pid: of the process that has the workers of this machine's platform; None: there is none.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        handles = [pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids]
        version = pynvml.nvmlSystemGetCudaDriverVersion_v2()
        return GpuFacts(
            driver=as_text(pynvml.nvmlSystemGetDriverVersion()),
            cuda=f"{version // 1000}.{version % 1000 // 10}",
            used={
                uuid: others
                for uuid, gpu in zip(uuids, handles, strict=True)
                if (others := _others(gpu, pid))
            },
        )
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def _others(gpu: object, pid: int | None) -> tuple[int, ...]:
    """The processes that compute on a GPU and are none of the platform's."""
    try:
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)
    except pynvml.NVMLError:
        return ()
    return tuple(sorted(one.pid for one in processes if pid is None or not _may_be_below(one.pid, pid)))


def _may_be_below(process: int, ancestor: int) -> bool:
    """Whether it descends from the ancestor; or may do so, because one of the two is in a container."""
    try:
        above = {process, *(parent.pid for parent in psutil.Process(process).parents())}
        return ancestor in above or os.readlink(f"/proc/{process}/ns/pid") != os.readlink("/proc/self/ns/pid")
    except (psutil.NoSuchProcess, FileNotFoundError):  # NVML numbers processes as the machine does
        return True
    except (psutil.AccessDenied, PermissionError):  # another user's
        return False
