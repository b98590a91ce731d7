"""What a machine offers to a platform, and lacks: what it has been found to have, judged."""

from __future__ import annotations

from collections.abc import Iterator

from swell.executors.local.machine_facts import MachineFacts, ShareFacts
from swell.executors.local.machine_probe import SHARED_MEMORY
from swell.model.finding import Finding, bad, ok, warn
from swell.model.share_mode import ABOUT_SHARES, ShareMode

#: Less free space than this will soon be none; with less than that nothing can be saved.
WARN_BYTES, BAD_BYTES = 1 << 30, 64 << 20
NO_LAYERS_REMEDY = (
    "let root set `kernel.unprivileged_userns_clone=1` or, with AppArmor, "
    "`kernel.apparmor_restrict_unprivileged_userns=0` (sysctl); in a container: run it privileged"
)


def machine_findings(facts: MachineFacts) -> list[Finding]:
    """What only several machines need, and what only GPUs need, is no fault of a machine that lacks it."""
    return [
        *_devices(facts),
        *_torch(facts),
        *_gpus(facts),
        *_shares(facts.shares),
        *_engines(facts),
        _trial_layers(facts),
        _disk(facts),
        _shared_memory(facts),
    ]


# ------------------------------------------------------------ devices
def _devices(facts: MachineFacts) -> Iterator[Finding]:
    if facts.devices_problem:
        yield warn("devices", facts.devices_problem, "name some with --devices")
    for kind, num in facts.devices.items():
        yield ok("devices", f"{num} of kind {kind}")
    if facts.gpu_problem:
        remedy = "if it has one: install its driver, and give it to this container"
        yield ok("devices", f"no GPU is offered: {facts.gpu_problem}", remedy)


def _torch(facts: MachineFacts) -> Iterator[Finding]:
    build, has_gpus = facts.torch, not facts.gpu_problem
    if build is None:
        yield warn("torch", "is not installed: no worker can run here", "pip install 'swell[torch]'")
        return
    text = f"{build.version}, built " + (f"for CUDA {build.cuda}" if build.cuda else "without CUDA")
    if has_gpus and not build.cuda:
        yield warn("torch", f"{text}: the GPUs cannot be used", "install a build of torch for CUDA")
    else:
        yield ok("torch", text)


def _gpus(facts: MachineFacts) -> Iterator[Finding]:
    gpus = facts.gpus
    if gpus is None:
        return
    text, known = f"{gpus.driver}, which knows CUDA up to {gpus.cuda}", _major(gpus.cuda)
    if facts.torch is not None and facts.torch.cuda and _major(facts.torch.cuda) > known:
        remedy = f"install a newer driver, or a torch that is built for CUDA {known} or older"
        yield warn("driver", f"{text}: too old for torch, which is built for CUDA {facts.torch.cuda}", remedy)
    else:
        yield ok("driver", text)
    for gpu, processes in gpus.used.items():
        whose = "are no workers of this platform: they take memory and time from its jobs"
        text = f"GPU {gpu} is used by processes ({', '.join(map(str, processes))}) that {whose}"
        yield warn("devices", text, "end them, or leave this GPU out of CUDA_VISIBLE_DEVICES")


def _major(version: str) -> int:
    return int(version.partition(".")[0])


# ------------------------------------------------------------ control groups and containers
def _shares(shares: ShareFacts) -> Iterator[Finding]:
    """Findings about what enforces the CPU shares of jobs, or would, and which other means are offered."""
    if shares.mode is ShareMode.OFF:
        yield ok(ABOUT_SHARES, "not enforced: --cpu-shares off")
    elif not shares.used:
        text = "not enforced, nor memory limits: control groups cannot be used"
        remedy = "see below; agent.log, or on a host the output of `swell node`, says what was tried"
        yield (warn if shares.mode is ShareMode.QUOTA else ok)(ABOUT_SHARES, text, remedy)
    for offer in shares.offers:
        text = f"{offer.name}, not offered: {offer.why_not}"
        if offer.is_offered:
            text = f"by {offer.name}" if offer.name == shares.used else f"{offer.name}, offered"
        note = f" ({offer.note})" if offer.note and offer.is_offered else ""
        yield ok(ABOUT_SHARES, text + note, offer.remedy)


def _engines(facts: MachineFacts) -> Iterator[Finding]:
    """Whether Docker and Podman can run jobs that name an image; neither is needed."""
    for offer in facts.engines:
        text = f"{offer.name} {offer.note} can be used"
        if not offer.is_offered:
            text = f"{offer.name} cannot be used: {offer.why_not}"
        yield ok("containers", text, offer.remedy)


# ------------------------------------------------------------ trial runs
def _trial_layers(facts: MachineFacts) -> Finding:
    if facts.has_trial_layers:
        return ok("trial runs", "what a script writes in its trial run stays in layers of its own")
    text = "a script that writes by absolute paths in its trial run writes there: the kernel gives no layers"
    return ok("trial runs", text, NO_LAYERS_REMEDY)


# ------------------------------------------------------------ room
def _disk(facts: MachineFacts) -> Finding:
    text = f"{_gib(facts.state_free_bytes)} free in {facts.state_folder}"
    if facts.state_free_bytes < BAD_BYTES:
        return bad("disk", text, "make room: neither the journal nor a checkpoint can be written soon")
    if facts.state_free_bytes < WARN_BYTES:
        return warn("disk", text, "make room for checkpoints and logs")
    return ok("disk", text)


def _shared_memory(facts: MachineFacts) -> Finding:
    """Docker gives 64 MiB to a container that names no size."""
    remedy = f"`mount -o remount,size=SIZE {SHARED_MEMORY}`; for a container: `docker run --shm-size SIZE`"
    what = "loaders with workers" + (" and NCCL on several GPUs" if facts.gpus is not None else "")
    if facts.shared_free_bytes < 0:
        return warn("shared memory", f"there is no {SHARED_MEMORY}: {what} fail", remedy)
    text = f"{_gib(facts.shared_free_bytes)} free in {SHARED_MEMORY}"
    if facts.shared_free_bytes < WARN_BYTES:
        return warn("shared memory", f"{text}: {what} may fail", remedy)
    return ok("shared memory", text)


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / (1 << 30):.1f} GiB"
