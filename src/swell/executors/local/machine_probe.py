"""Looks at this machine. That leaves nothing there, and sends nothing to another one."""

from __future__ import annotations

import importlib.util
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pynvml

from swell.executors.local.containers.engine import engine_offers
from swell.executors.local.devices import DeviceError, parse_devices
from swell.executors.local.gpu_probe import look_at_gpus
from swell.executors.local.limits.detection import limiter_offers
from swell.executors.local.machine_facts import MachineFacts, ShareFacts, TorchBuild
from swell.model.share_mode import ShareMode
from swell.wire.private_files import can_be_private, remove_room

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
_CUDA_LINE = re.compile(r"^cuda\b[^=]*= *'([^']+)'", re.MULTILINE)
_VERSION_LINE = re.compile(r"^__version__ *= *'([^']+)'", re.MULTILINE)


def probe_machine(
    state_dir: Path,
    devices: str = "auto",
    mode: ShareMode = ShareMode.WEIGHT,
    pid: int | None = None,
    kind: str = "",
) -> MachineFacts:
    """Takes some tenths of a second.

    Args:
        state_dir: of a platform or a host, which need not be there.
        devices: as for `swell up`.
        mode: what a CPU share means.
        pid: of the process that has the workers of that folder; None: there is none.
        kind: what the devices are called; empty: what they are.
    """
    found, gpus, devices_problem = _devices(devices, kind)
    folder = nearest_folder(state_dir)
    return MachineFacts(
        devices=found,
        devices_problem=devices_problem,
        gpu_problem=_gpu_problem(),
        gpus=look_at_gpus(gpus, pid) if gpus else None,
        torch=probe_torch(),
        shares=_shares(mode, pid),
        engines=engine_offers(),
        has_trial_layers=_has_trial_layers(folder),
        state_folder=str(folder),
        state_free_bytes=shutil.disk_usage(folder).free,
        shared_free_bytes=shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else -1,
    )


# ------------------------------------------------------------ devices
def _devices(wanted: str, kind: str) -> tuple[dict[str, int], list[str], str]:
    """Return the number of devices of each kind, which of them are GPUs, and why there are none."""
    try:
        nodes = parse_devices(wanted)
    except DeviceError as error:
        return {}, [], str(error)
    found: Counter[str] = Counter()
    for local in nodes:
        found[kind or local.node.kind] += len(local.node.devices)
    bindings = (binding for local in nodes for binding in local.bindings.values())
    return dict(found), [binding.cuda for binding in bindings if binding.cuda is not None], ""


def _gpu_problem() -> str:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return str(error)
    try:
        return "" if pynvml.nvmlDeviceGetCount() else "NVML finds none"
    except pynvml.NVMLError as error:
        return str(error)
    finally:
        pynvml.nvmlShutdown()


def probe_torch() -> TorchBuild | None:
    """Return the build of PyTorch, read from its files, because importing it takes seconds.

    None: it is not installed.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text()
    except OSError:  # it is broken, which its workers will say
        text = ""
    version, cuda = _VERSION_LINE.search(text), _CUDA_LINE.search(text)
    return TorchBuild(
        version=version[1] if version else "of an unknown version",
        cuda=cuda[1] if cuda else "",
    )


# ------------------------------------------------------------ kernel
def _shares(mode: ShareMode, pid: int | None) -> ShareFacts:
    offers = limiter_offers(pid=pid)
    used = next((offer.name for offer in offers if offer.is_offered and mode is not ShareMode.OFF), "")
    return ShareFacts(mode=mode, used=used, offers=offers)


def _has_trial_layers(folder: Path) -> bool:
    """Whether the kernel gives a trial run layers in this folder, where an agent would have them."""
    try:
        room = tempfile.mkdtemp(prefix=".layers-", dir=folder)
    except OSError:  # others say what is wrong with it
        return False
    try:
        return can_be_private(room)
    finally:
        remove_room(room)


def nearest_folder(folder: Path) -> Path:
    """This one, or the nearest above that is there."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.is_dir())
