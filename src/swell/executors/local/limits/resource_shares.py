"""What this machine can divide of memory, block I/O and network, and what stands in the way."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from swell.executors.local.limits.allocation import available_bytes
from swell.executors.local.limits.limiter import CoreSharing
from swell.model.resource import Resource
from swell.model.share_mode import ShareMode
from swell.wire.group_files import GroupFiles

#: Schedulers of block devices that divide them by the weights of control groups.
WEIGHING = ("bfq", "cfq")
#: Programs that limit the network of a container, of iproute2 and util-linux.
NETWORK_PROGRAMS = ("tc", "nsenter")
NO_NETWORK = (
    "the network of processes outside of containers cannot be limited: the kernel counts and limits that of "
    "interfaces; give jobs an image (`--image`)"
)
QUOTA_WORDS = "--cpu-shares quota"
RATE_WORDS = {Resource.BLOCK_IO: "--disk-rate", Resource.NETWORK: "--network-rate"}


def memory_share_bytes(share: float) -> int:
    """That part of the memory that this process may use, in whole pages."""
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    return max(1, int(share * (available_bytes() // page_bytes))) * page_bytes


def share_rate(share: float, rate_bytes_per_s: int) -> int:
    """That part of a rate, at least 1: with 0 there would be no limit."""
    return max(1, int(share * rate_bytes_per_s))


def disks(files: GroupFiles) -> list[Path]:
    """Folders of the block devices of this machine below /sys/block, without loops and memory."""
    return sorted(one for one in files.inner_links(files.at("/sys/block")) if (one / "device").exists())


def numbers_of_disks(files: GroupFiles) -> Iterator[str]:
    """MAJOR:MINOR of each disk, as control groups name it."""
    for disk in disks(files):
        yield files.read(disk / "dev").strip()


def weighing_disks(files: GroupFiles) -> list[str]:
    """Names of the disks that are divided by the weights of groups."""
    return [disk.name for disk in disks(files) if _scheduler(files, disk) in WEIGHING]


def has_cost_model(files: GroupFiles) -> bool:
    """Whether version 2 divides some disk by `io.weight` (io.cost.qos)."""
    for top in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        try:
            if "enable=1" in files.read(files.at(f"{top}/io.cost.qos")):
                return True
        except OSError:
            continue
    return False


def _scheduler(files: GroupFiles, disk: Path) -> str:
    try:
        text = files.read(disk / "queue" / "scheduler")
    except OSError:
        return ""
    return next((word.strip("[]") for word in text.split() if word.startswith("[")), text.strip())


def why_no_rate(resource: Resource, sharing: CoreSharing) -> str:
    """Why a part of a rate cannot be given; empty: the rate is known, or not needed."""
    if resource not in RATE_WORDS or sharing.mode is not ShareMode.QUOTA or sharing.rate_of(resource):
        return ""
    return (
        f"a share of {resource.noun} is a part of a rate, which is not known; say how many bytes all jobs of "
        f"a machine may move in a second: {RATE_WORDS[resource]} 100MB"
    )


def why_no_share(resource: Resource, mode: ShareMode, is_version_1: bool, files: GroupFiles) -> str:
    """Why this machine cannot give shares of a resource in this way, with what to do; empty: it can.

    Control groups themselves are taken to be there.
    """
    match resource:
        case Resource.MEMORY if mode is ShareMode.QUOTA and is_version_1:
            return (
                "control groups of version 1 have no limit that slows a job down and does not kill it; "
                "choose --cpu-shares weight, by which memory has soft limits"
            )
        case Resource.BLOCK_IO if mode is ShareMode.WEIGHT:
            if weighing_disks(files) or (not is_version_1 and has_cost_model(files)):
                return ""
            found = ", ".join(f"{one.name}: {_scheduler(files, one)}" for one in disks(files)) or "none"
            return (
                f"no disk divides its time by weight (schedulers of disks: {found}); let root choose bfq "
                f"(`echo bfq > .../queue/scheduler`), or choose {QUOTA_WORDS} with --disk-rate"
            )
        case Resource.NETWORK:
            return _why_no_network(mode)
    return ""


def _why_no_network(mode: ShareMode) -> str:
    if mode is not ShareMode.QUOTA:
        return (
            "the network has no weights: each container has interfaces of its own; "
            f"choose {QUOTA_WORDS} with --network-rate"
        )
    missing = [name for name in NETWORK_PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} is not installed; install iproute2 and util-linux"
    if os.geteuid() != 0:
        return "only root limits the network of a container; run the platform as root"
    return ""
