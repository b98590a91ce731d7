"""Which limiters this machine offers to a process, and why not the others."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from swell.executors.local.limits.allocation import available_cores
from swell.executors.local.limits.control_groups import CPU, CgroupV1, CgroupV2, is_root, top_of
from swell.executors.local.limits.limiter import CoreSharing, Limiter, LimitsError
from swell.executors.local.machine_offer import MachineOffer
from swell.model.target import ShareKind
from swell.wire.group_places import UNIFIED, GroupFiles, GroupPlace, group_places

#: systemd marks the groups that it leaves to others; the second one is for older versions.
DELEGATED = ("user.delegate", "trusted.delegate")
SCOPE = "start the platform with `systemd-run --user --scope -p Delegate=yes swell up ...`"

#: What an agent without control groups cannot do.
LACK = (
    "CPU shares are not enforced, because control groups cannot be used: `swell doctor` says why, and what "
    "to do; `--cpu-shares off` asks for none"
)

log = logging.getLogger("swell.agent")


def limiter_offers(files: GroupFiles | None = None, pid: int | None = None) -> tuple[MachineOffer, ...]:
    """The first that is offered is used. `pid`: to which process; None: to this one."""
    files = files or GroupFiles()
    places = group_places(files, pid)
    return (_offer_of_v2(files, places), _offer_of_v1(files, places))


def check_sharing(sharing: CoreSharing, files: GroupFiles | None = None) -> None:
    """Raises LimitsError: cores cannot be shared like this here."""
    num_cores = available_cores()
    if sharing.cores is not None and sharing.cores not in range(1, num_cores + 1):
        raise LimitsError(
            f"--cores {sharing.cores:g}: this process may use {num_cores} cores; "
            f"name a whole number up to {num_cores}, or 0 for all of them"
        )
    groups = limiter_offers(files) if sharing.mode is ShareKind.QUOTA else ()
    if groups and not any(offer.is_offered for offer in groups):
        why = "; ".join(f"{offer.name}: {offer.why_not}" for offer in groups)
        raise LimitsError(
            f"--cpu-shares quota needs control groups, and this machine offers none ({why}); choose weight"
        )


def new_limiter(sharing: CoreSharing, state_dir: Path, files: GroupFiles | None = None) -> Limiter:
    """The best one that works. Never raises: in the end usage is measured, and nothing is limited."""
    if sharing.mode is ShareKind.OFF:
        return Limiter()
    files = files or GroupFiles()
    places = group_places(files)
    groups: CgroupV1 | CgroupV2
    if _offer_of_v2(files, places).is_offered:
        groups = CgroupV2(files, top_of(places[UNIFIED].folder), sharing, state_dir)
    elif _offer_of_v1(files, places).is_offered:
        groups = CgroupV1(files, places[CPU].folder, sharing, state_dir)
    else:
        return Limiter(LACK)
    try:
        groups.begin()
    except OSError as error:
        log.warning("%s cannot be used (%s): CPU shares are not enforced", groups.name, error)
        groups.close()
        return Limiter(LACK)
    return groups


# ------------------------------------------------------------ version 2
def _offer_of_v2(files: GroupFiles, places: Mapping[str, GroupPlace]) -> MachineOffer:
    place = places.get(UNIFIED)
    if place is None:
        return MachineOffer(name=CgroupV2.name, why_not="it is not mounted")
    top = top_of(place.folder)
    try:
        why_not, remedy = _obstacle_of_v2(files, top, place.is_top, CPU in places)
    except OSError as error:
        why_not, remedy = f"{top} cannot be read ({error.strerror})", ""
    return MachineOffer(name=CgroupV2.name, why_not=why_not, remedy=remedy, note=f"below {top}")


def _obstacle_of_v2(files: GroupFiles, top: Path, is_top: bool, is_hybrid: bool) -> tuple[str, str]:
    """What is in the way, and the remedy; both are empty if nothing is."""
    if CPU not in files.read(top / "cgroup.controllers").split():
        if is_hybrid:
            return "the controller cpu is one of version 1 on this machine", ""
        return f"the controller cpu is not delegated to {top}", SCOPE
    needed = (top, top / "cgroup.procs", top / "cgroup.subtree_control")
    if not all(map(files.can_write, needed)):
        return f"this user cannot write {top}", SCOPE
    is_ready = CPU in files.read(top / "cgroup.subtree_control").split()
    is_own = is_top or is_root(top) or any(files.has_mark(top, mark) for mark in DELEGATED)
    if not is_ready and not is_own and files.pids(top):
        return f"{top} is not delegated, and its processes are not ours to move", SCOPE
    return "", ""


# ------------------------------------------------------------ version 1
def _offer_of_v1(files: GroupFiles, places: Mapping[str, GroupPlace]) -> MachineOffer:
    why_not = remedy = ""
    if (place := places.get(CPU)) is None:
        why_not = "its controller cpu is not mounted"
    elif not files.can_write(place.folder):
        why_not = f"this user cannot write {place.folder}"
        remedy = "let root make a group in it, give it to this user, and start the platform in that"
    return MachineOffer(name=CgroupV1.name, why_not=why_not, remedy=remedy, note="memory is not limited")
