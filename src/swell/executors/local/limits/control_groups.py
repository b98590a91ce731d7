"""Control groups as a limiter: one group for a platform, and below it one for each gang.

Of version 1 the CPU alone is used, whose controller has a hierarchy of its own. Version 2 has one hierarchy,
in which a group hands its controllers down or has processes: the group in which the agent was started has to
be delegated to its user, and its processes are moved to a leaf (`LEAF`) first. What of this a machine offers
is told, and why not the rest.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from swell.executors.local.limits.allocation import PERIOD_US, available_cores, quota_us
from swell.executors.local.limits.limiter import NO_MEMORY_LIMIT, CoreSharing, GangGroup, Limiter
from swell.executors.local.machine_offer import MachineOffer
from swell.executors.local.processes.listing import is_alive, started_by
from swell.model.errors import InvalidOption
from swell.model.target import ShareKind
from swell.wire.group_places import UNIFIED, GroupFiles, GroupPlace, group_places, numbers

PREFIX = "swell-"
#: The controllers.
CPU, MEMORY = "cpu", "memory"
#: The group of the processes that were in the delegated one; an agent that is started in it goes back up.
LEAF = "swell-processes"
#: A process may be started while others are moved.
MOST_ROUNDS = 20

#: systemd marks the groups that it leaves to others; the second one is for older versions.
DELEGATED = ("user.delegate", "trusted.delegate")
SCOPE = "start the platform with `systemd-run --user --scope -p Delegate=yes swell up ...`"

#: What an agent without control groups cannot do.
LACK = (
    "CPU shares are not enforced, because control groups cannot be used: `swell doctor` says why, and what "
    "to do; `--cpu-shares off` asks for none"
)

log = logging.getLogger("swell.agent")


def platform_prefix(state_dir: Path) -> str:
    """How all begins that is called after a state folder and lies outside of it."""
    return f"{PREFIX}{hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:12]}-"


def platform_group(state_dir: Path, pid: int) -> str:
    """How the group of a platform is called whose agent is this process, and its containers begin."""
    return f"{platform_prefix(state_dir)}{pid}"


class ControlGroups(Limiter):
    """A limiter by control groups of one version. Groups are told by their folders."""

    #: The file of a group's weight among others, its value where none was chosen, and the kernel's least.
    weight_file: ClassVar[str]
    full_weight: ClassVar[int]
    least_weight: ClassVar[int]

    def __init__(self, files: GroupFiles, top: Path, sharing: CoreSharing, state_dir: Path) -> None:
        """`top`: the folder in which platforms make their groups."""
        super().__init__()
        self.files, self.sharing = files, sharing
        self.folder = top / platform_group(state_dir, os.getpid())
        self._numbers = itertools.count(1)

    def make_platform_group(self) -> None:
        """Make the platform's group, and remove those of agents that have ended. Raises OSError."""
        self.prepare()
        for folder in self.files.inner(self.folder.parent):
            # Where the number is another process's now the group stays until that one ends, too.
            pid = folder.name.removeprefix(PREFIX).rpartition("-")[2]
            if folder.name.startswith(PREFIX) and pid.isdecimal() and not is_alive(int(pid)):
                remove_tree(self.files, folder)

    def group(self, name: str) -> ControlGroup:
        return ControlGroup(self, self.folder / f"{name}.{next(self._numbers)}")

    def close(self) -> None:
        remove_tree(self.files, self.folder)

    def settings(self, share: float) -> dict[str, str]:
        """Return what to write to which files of a group for a share."""
        if self.sharing.mode is ShareKind.QUOTA:
            return self.quota_settings(quota_us(share, self.sharing.cores))
        return {self.weight_file: str(self.weight_of(share))}

    @classmethod
    def weight_of(cls, share: float) -> int:
        """What the kernel is told of a share in (0, 1]."""
        return max(cls.least_weight, round(share * cls.full_weight))

    # ------------------------------------------------------------ of each version
    def prepare(self) -> None:
        """Make the platform's own group, so that groups can be made in it."""
        self.files.make(self.folder)

    def quota_settings(self, cpu_us: int) -> dict[str, str]:
        """Return what to write to which files of a group for so much CPU time in each `PERIOD_US`."""
        raise NotImplementedError


def remove_tree(files: GroupFiles, folder: Path) -> None:
    """A group and those in it; one that still has processes stays, and is told of."""
    for inner in files.inner(folder):
        remove_tree(files, inner)
    try:
        files.remove(folder)
    except OSError as error:
        log.warning("control group %s is left behind: %s", folder, error)


class ControlGroup(GangGroup):
    """A gang's control group. It is made when it is needed."""

    def __init__(self, groups: ControlGroups, folder: Path) -> None:
        super().__init__()
        self._groups, self._files = groups, groups.files
        self.folder = folder

    def set_share(self, share: float) -> None:
        self._files.make(self.folder)
        for name, text in self._groups.settings(share).items():
            self._files.write(self.folder / name, text)

    def limit_memory(self, num_bytes: int) -> None:
        self._files.make(self.folder)
        if not (self.folder / "memory.max").exists():  # version 1, or not delegated
            raise OSError(NO_MEMORY_LIMIT)
        self._files.write(self.folder / "memory.max", str(num_bytes))
        with suppress(FileNotFoundError):  # a kernel without swap accounting
            self._files.write(self.folder / "memory.swap.max", "0")

    def keep_processes(self, pids: Iterable[int]) -> None:
        super().keep_processes(pids)
        strangers = self._workers.difference(self._files.pids(self.folder))
        self._files.add(self.folder, [*strangers, *started_by(strangers)])

    def num_killed(self) -> int:
        events = self.folder / "memory.events"
        return numbers(self._files.read(events)).get("oom_kill", 0) if events.exists() else 0

    def close(self) -> None:
        self._files.remove(self.folder)


# ---------------------------------------------------------------- version 1
class CgroupV1(ControlGroups):
    """See `ControlGroups`."""

    name = "cgroup v1"
    weight_file, full_weight, least_weight = "cpu.shares", 1024, 2

    def quota_settings(self, cpu_us: int) -> dict[str, str]:
        return {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(cpu_us)}


# ---------------------------------------------------------------- version 2
def top_of(own: Path) -> Path:
    """The group below which platforms make theirs, of a process that is in this one."""
    return own.parent if own.name == LEAF else own


class CgroupV2(ControlGroups):
    """See `ControlGroups`."""

    name = "cgroup v2"
    weight_file, full_weight, least_weight = "cpu.weight", 100, 1

    def prepare(self) -> None:
        self._hand_down(self.folder.parent)
        super().prepare()
        self._hand_down(self.folder)

    def _hand_down(self, folder: Path) -> None:
        """Groups in this one are to have the controllers. Raises OSError if not even that of the CPU."""
        handed = self.files.read(folder / "cgroup.subtree_control").split()
        offered = self.files.read(folder / "cgroup.controllers").split()
        if CPU not in handed:
            self._clear(folder)
            self.files.write(folder / "cgroup.subtree_control", f"+{CPU}")
        if MEMORY in offered and MEMORY not in handed:
            with suppress(OSError):  # gangs can do without
                self.files.write(folder / "cgroup.subtree_control", f"+{MEMORY}")

    def _clear(self, folder: Path) -> None:
        """Move the processes of a group to its leaf; the topmost one of a machine may keep its own."""
        if is_root(folder):
            return
        for _ in range(MOST_ROUNDS):
            pids = self.files.pids(folder)
            if not pids:
                return
            self.files.make(folder / LEAF)
            self.files.add(folder / LEAF, pids)
        raise OSError(f"processes are started in {folder} faster than they can be moved to {LEAF}")

    def quota_settings(self, cpu_us: int) -> dict[str, str]:
        return {"cpu.max": f"{cpu_us} {PERIOD_US}"}


def is_root(folder: Path) -> bool:
    """Whether it is the machine's topmost group, and not just a container's: that one has no type."""
    return not (folder / "cgroup.type").exists()


# ---------------------------------------------------------------- what the machine offers
def limiter_offers(files: GroupFiles | None = None, pid: int | None = None) -> tuple[MachineOffer, ...]:
    """The first that is offered is used. `pid`: to which process; None: to this one."""
    files = files or GroupFiles()
    places = group_places(files, pid)
    return (_offer_of_v2(files, places), _offer_of_v1(files, places))


def check_sharing(sharing: CoreSharing, files: GroupFiles | None = None) -> None:
    """Raises InvalidOption: cores cannot be shared like this here."""
    num_cores = available_cores()
    if sharing.cores is not None and sharing.cores not in range(1, num_cores + 1):
        raise InvalidOption(
            f"--cores {sharing.cores:g}: this process may use {num_cores} cores; "
            f"name a whole number up to {num_cores}, or 0 for all of them"
        )
    groups = limiter_offers(files) if sharing.mode is ShareKind.QUOTA else ()
    if groups and not any(offer.is_offered for offer in groups):
        why = "; ".join(f"{offer.name}: {offer.why_not}" for offer in groups)
        raise InvalidOption(
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
        groups.make_platform_group()
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
