"""What a machine offers to a platform or as its host, and lacks. Looking changes and sends nothing."""

from __future__ import annotations

import importlib.util
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from swell.executors.local.containers.engine import engine_offers
from swell.executors.local.devices import DeviceError, LocalNode, parse_devices
from swell.executors.local.gpus import GpuDriver, look_at_gpus
from swell.executors.local.limits.control_groups import limiter_offers
from swell.executors.local.machine_offer import MachineOffer
from swell.executors.node.options import find_host, options_of
from swell.executors.node.state import read_record
from swell.executors.storage import why_not_shared
from swell.model.finding import Finding, bad, ok, warn
from swell.model.target import ABOUT_SHARES, ShareKind
from swell.wire.lease_end import LEASE_FILE, LeaseWatch
from swell.wire.private_files import can_be_private
from swell.wire.untrusted_files import remove_folder

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
#: Less free space than this will soon be none; with less than that nothing can be saved.
WARN_BYTES, BAD_BYTES = 1 << 30, 64 << 20
NO_LAYERS_REMEDY = (
    "let root set `kernel.unprivileged_userns_clone=1` or, with AppArmor, "
    "`kernel.apparmor_restrict_unprivileged_userns=0` (sysctl); in a container: run it privileged"
)
_CUDA_LINE = re.compile(r"^cuda\b[^=]*= *'([^']+)'", re.MULTILINE)
_VERSION_LINE = re.compile(r"^__version__ *= *'([^']+)'", re.MULTILINE)


class TorchBuild(NamedTuple):
    """The torch of this interpreter."""

    version: str
    cuda: str = ""  #: version that it was built for; empty: for none


def machine_findings(
    state_dir: Path,
    devices: str = "auto",
    mode: ShareKind = ShareKind.WEIGHT,
    pid: int | None = None,
    kind: str = "",
) -> list[Finding]:
    """Takes some tenths of a second. What only several machines, or only GPUs, need is no fault of a machine.

    Args:
        state_dir: of a platform or a host, which need not be there.
        devices: as for `swell up`.
        mode: what a CPU share means.
        pid: of the process that has the workers of that folder; None: there is none.
        kind: what the devices are called; empty: what they are.
    """
    problem, nodes = "", tuple[LocalNode, ...]()
    try:
        nodes = parse_devices(devices)
    except DeviceError as error:
        problem = str(error)
    bindings = (binding for local in nodes for binding in local.bindings.values())
    gpus = [binding.cuda for binding in bindings if binding.cuda is not None]
    driver, build = look_at_gpus(gpus), probe_torch()
    why_no_gpu = driver if isinstance(driver, str) else ""
    folder = nearest_folder(state_dir)
    return [
        *device_findings(nodes, kind, problem, why_no_gpu),
        *torch_findings(build, not why_no_gpu),
        *(driver_findings(driver, build, pid is not None) if gpus and isinstance(driver, GpuDriver) else ()),
        *share_findings(mode, limiter_offers(pid=pid)),
        *container_findings(engine_offers()),
        layers_finding(has_trial_layers(folder)),
        disk_finding(folder, shutil.disk_usage(folder).free),
        shared_memory_finding(
            shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else None, bool(gpus)
        ),
    ]


# ------------------------------------------------------------ devices
def device_findings(
    nodes: Iterable[LocalNode], kind: str, problem: str, why_no_gpu: str
) -> Iterator[Finding]:
    """What `--devices` offers, or why not. `why_no_gpu`: empty if NVML tells of one."""
    if problem:
        yield warn("devices", problem, "name some with --devices")
    found: Counter[str] = Counter()
    for local in nodes:
        found[kind or local.node.kind] += len(local.node.devices)
    for name, num in found.items():
        yield ok("devices", f"{num} of kind {name}")
    if why_no_gpu:
        remedy = "if it has one: install its driver, and give it to this container"
        yield ok("devices", f"no GPU is offered: {why_no_gpu}", remedy)


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
    return TorchBuild(version[1] if version else "of an unknown version", cuda[1] if cuda else "")


def torch_findings(build: TorchBuild | None, has_gpus: bool) -> Iterator[Finding]:
    """Whether workers can run here, and use the GPUs that there are."""
    if build is None:
        yield warn("torch", "is not installed: no worker can run here", "pip install 'swell[torch]'")
        return
    text = f"{build.version}, built " + (f"for CUDA {build.cuda}" if build.cuda else "without CUDA")
    if has_gpus and not build.cuda:
        yield warn("torch", f"{text}: the GPUs cannot be used", "install a build of torch for CUDA")
    else:
        yield ok("torch", text)


def driver_findings(driver: GpuDriver, build: TorchBuild | None, is_up: bool) -> Iterator[Finding]:
    """Whether the driver knows the CUDA of torch, and whether others use the GPUs.

    Args:
        is_up: the platform is, so that processes on its GPUs are its own.
    """
    text, known = f"{driver.version}, which knows CUDA up to {driver.cuda}", _major(driver.cuda)
    if build is not None and build.cuda and _major(build.cuda) > known:
        remedy = f"install a newer driver, or a torch that is built for CUDA {known} or older"
        yield warn("driver", f"{text}: too old for torch, which is built for CUDA {build.cuda}", remedy)
    else:
        yield ok("driver", text)
    for gpu, processes in driver.used.items() if not is_up else ():
        text = f"GPU {gpu} is used by processes ({', '.join(map(str, processes))}): they take memory and time"
        yield warn("devices", text, "end them, or leave this GPU out of CUDA_VISIBLE_DEVICES")


def _major(version: str) -> int:
    return int(version.partition(".")[0])


# ------------------------------------------------------------ control groups and containers
def share_findings(mode: ShareKind, offers: Sequence[MachineOffer]) -> Iterator[Finding]:
    """What enforces the CPU shares of jobs, or would, and which other means are offered."""
    used = next((offer for offer in offers if offer.is_offered), None)
    if mode is ShareKind.OFF:
        used = None
        yield ok(ABOUT_SHARES, "not enforced: --cpu-shares off")
    elif used is None:
        text = "not enforced, nor memory limits: control groups cannot be used"
        remedy = "see below; agent.log, or on a host the output of `swell node`, says what was tried"
        yield (warn if mode is ShareKind.QUOTA else ok)(ABOUT_SHARES, text, remedy)
    for offer in offers:
        text = f"{offer.name}, not offered: {offer.why_not}"
        if offer.is_offered:
            text = f"by {offer.name}" if offer is used else f"{offer.name}, offered"
        note = f" ({offer.note})" if offer.note and offer.is_offered else ""
        yield ok(ABOUT_SHARES, text + note, offer.remedy)


def container_findings(offers: Iterable[MachineOffer]) -> Iterator[Finding]:
    """Whether Docker and Podman can run jobs that name an image; neither is needed."""
    for offer in offers:
        text = f"{offer.name} {offer.note} can be used"
        if not offer.is_offered:
            text = f"{offer.name} cannot be used: {offer.why_not}"
        yield ok("containers", text, offer.remedy)


# ------------------------------------------------------------ trial runs
def has_trial_layers(folder: Path) -> bool:
    """Whether the kernel gives a trial run layers in this folder, where an agent would have them."""
    try:
        room = tempfile.mkdtemp(prefix=".layers-", dir=folder)
    except OSError:  # others say what is wrong with it
        return False
    try:
        return can_be_private(room)
    finally:
        remove_folder(room)


def layers_finding(has_layers: bool) -> Finding:
    """Whether a trial run can change files outside of its own folder."""
    if has_layers:
        return ok("trial runs", "what a script writes in its trial run stays in layers of its own")
    text = "a script that writes by absolute paths in its trial run writes there: the kernel gives no layers"
    return ok("trial runs", text, NO_LAYERS_REMEDY)


# ------------------------------------------------------------ room
def nearest_folder(folder: Path) -> Path:
    """This one, or the nearest above that is there."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.is_dir())


def disk_finding(folder: Path, free_bytes: int) -> Finding:
    """Whether the journal and checkpoints have room."""
    text = f"{_gib(free_bytes)} free in {folder}"
    if free_bytes < BAD_BYTES:
        return bad("disk", text, "make room: neither the journal nor a checkpoint can be written soon")
    if free_bytes < WARN_BYTES:
        return warn("disk", text, "make room for checkpoints and logs")
    return ok("disk", text)


def shared_memory_finding(free_bytes: int | None, has_gpus: bool) -> Finding:
    """Whether loaders with workers have room: Docker gives 64 MiB to a container that names no size.

    Args:
        free_bytes: None: there is no shared memory.
    """
    remedy = f"`mount -o remount,size=SIZE {SHARED_MEMORY}`; for a container: `docker run --shm-size SIZE`"
    what = "loaders with workers" + (" and NCCL on several GPUs" if has_gpus else "")
    if free_bytes is None:
        return warn("shared memory", f"there is no {SHARED_MEMORY}: {what} fail", remedy)
    text = f"{_gib(free_bytes)} free in {SHARED_MEMORY}"
    if free_bytes < WARN_BYTES:
        return warn("shared memory", f"{text}: {what} may fail", remedy)
    return ok("shared memory", text)


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / (1 << 30):.1f} GiB"


def host_findings(folder: Path) -> list[Finding]:
    """Findings about the host process of a state folder, and about the machine as it holds for this host."""
    pid = find_host(folder)
    if pid is None:
        text = "none runs with this folder: this machine works for no platform"
        return [warn("host", text, "start `swell node`"), *machine_findings(folder)]
    try:
        options = options_of(pid)
    except (OSError, ValueError) as error:
        text = f"runs (pid {pid}), and its options cannot be read: {error}"
        remedy = "run the `swell doctor` of its version of Swell, as the user who runs `swell node`"
        return [warn("host", text, remedy), *machine_findings(folder)]
    text = f"runs (pid {pid}), as {options.name} of the head at {options.head}"
    return [
        ok("host", text),
        _lease(folder),
        *_storage(folder),
        *machine_findings(folder, options.devices, options.sharing.mode, pid, options.kind),
    ]


def _lease(folder: Path) -> Finding:
    """Whether the head has let it in, and has answered lately."""
    try:
        has_lease = not LeaseWatch(str(folder / LEASE_FILE)).is_over
    except (OSError, ValueError):  # it has not begun, or is about to
        has_lease = False
    if has_lease:
        return ok("lease", "the head has given one: workers can run here")
    remedy = "it goes on trying; the output of `swell node` says what the head answers"
    return bad("lease", "the head has given none, or it is over: no worker can run here", remedy)


def _storage(folder: Path) -> list[Finding]:
    """Whether this machine still sees the folder that the head has, once it was let in with it."""
    seen = read_record(folder)
    if seen is None or not seen.storage:
        return []
    if why := why_not_shared(Path(seen.storage), seen.mark):
        return [bad("storage", why, "mount it again, as it was when the host joined: its jobs wait for it")]
    return [ok("storage", f"{seen.storage} is the one of the head, and can be written")]
