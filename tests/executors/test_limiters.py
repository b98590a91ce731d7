"""Every limiter, as `limiter.py` promises it: on the real kernel, and on a folder that behaves as one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.eventually import eventually
from tests.executors.fake_groups import FakeKernel, FakeV1, FakeV2

from swell.executors.local.limits import control_groups
from swell.executors.local.limits.allocation import PERIOD_US, available_cores, quota_us
from swell.executors.local.limits.control_groups import (
    CgroupV1,
    CgroupV2,
    ControlGroup,
    ControlGroups,
    check_sharing,
    limiter_offers,
    new_limiter,
)
from swell.executors.local.limits.limiter import CoreSharing, GangGroup, Limiter
from swell.model.errors import InvalidOption
from swell.model.target import ShareKind
from swell.wire.group_places import GroupFiles, group_places

BUSY = "while True: pass"
#: Burns so many seconds of CPU, then waits for a line.
BURN = "import time\nwhile time.process_time() < {}: pass\nprint(1, flush=True); input()"
WEIGHTS, QUOTA = CoreSharing(), CoreSharing(mode=ShareKind.QUOTA)
SHARES = st.floats(1e-4, 1.0)


@dataclass
class Rig:
    """A limiter, and processes for it."""

    limiter: Limiter
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    pids: defaultdict[GangGroup, list[int]] = field(default_factory=lambda: defaultdict(list))

    def burnt(self, group: GangGroup, cpu_s: float) -> subprocess.Popen[str]:
        """A process of the group that has used so much."""
        process = self.start(BURN.format(cpu_s), group)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    def start(self, code: str, group: GangGroup | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,  # as workers
        )
        self.started.append(process)
        if group is not None:
            self.enter(group, process.pid)
        return process

    def enter(self, group: GangGroup, pid: int) -> None:
        self.pids[group].append(pid)
        group.keep_processes(self.pids[group])

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()


@dataclass
class FakeRig(Rig):
    """Its processes are real."""

    kernel: FakeKernel = field(default_factory=lambda: FakeV1(Path("/nowhere")))

    def start(self, code: str, group: GangGroup | None = None) -> subprocess.Popen[str]:
        process = super().start(code)
        for folder in {place.folder for place in group_places(self.kernel).values()}:
            self.kernel.start(folder, process.pid)
        if group is not None:
            self.enter(group, process.pid)
        return process

    def end(self) -> None:
        for process in self.started:
            self.kernel.end(process.pid)
        super().end()


def fake_rig(kernel: FakeV1 | FakeV2, state_dir: Path, sharing: CoreSharing = WEIGHTS) -> FakeRig:
    kernel.boot()
    for folder in {place.folder for place in group_places(kernel).values()}:
        kernel.start(folder, os.getpid())
    return FakeRig(new_limiter(sharing, state_dir, kernel), kernel=kernel)


def groups_of_this_machine(state_dir: Path) -> Limiter:
    limiter = new_limiter(CoreSharing(), state_dir)
    if not isinstance(limiter, ControlGroups):
        offers = (offer for offer in limiter_offers() if not offer.is_offered)
        pytest.skip("; ".join(f"{offer.name}: {offer.why_not}" for offer in offers))
    return limiter


RIGS: dict[str, Callable[[Path], Rig]] = {
    "this machine": lambda path: Rig(groups_of_this_machine(path)),
    "folder of version 1": lambda path: fake_rig(FakeV1(path / "root"), path),
    "folder of version 2": lambda path: fake_rig(FakeV2(path / "root"), path),
    "off": lambda path: Rig(Limiter()),
}


@pytest.fixture(params=RIGS)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    rig = RIGS[request.param](tmp_path)
    yield rig
    rig.end()
    rig.limiter.close()


# ------------------------------------------------------------ what all owe
def test_what_the_processes_of_a_gang_use_is_summed(rig: Rig) -> None:
    group = rig.limiter.group("job-1")
    group.set_share(0.5)
    one = rig.burnt(group, 0.2)
    group.keep_processes([one.pid])
    first = group.usage()
    assert 0.1 < first.cpu_s < 5.0
    two = rig.burnt(group, 0.2)
    group.keep_processes([one.pid, two.pid])
    assert group.usage().cpu_s > first.cpu_s + 0.1
    rig.end()
    rig.started.clear()
    group.keep_processes([])
    assert group.usage().cpu_s > first.cpu_s + 0.1, "those that have ended count"


def test_a_process_that_is_gone_is_no_error(rig: Rig) -> None:
    group = rig.limiter.group("job-1")
    group.set_share(0.5)
    process = rig.start("input()")
    rig.end()
    group.keep_processes([process.pid])
    group.keep_processes([])
    group.set_share(0.25)
    assert group.usage().memory_bytes == 0


def test_memory_is_limited_or_it_is_said_why_not(rig: Rig) -> None:
    group = rig.limiter.group("job-1")
    if rig.limiter.name == "cgroup v2":
        group.limit_memory(1 << 30)
    else:
        with pytest.raises(OSError, match="only control groups of version 2"):
            group.limit_memory(1 << 30)
    group.set_share(0.5)
    assert group.num_killed() == 0


# ------------------------------------------------------------ control groups
@pytest.fixture(params=["this machine", "folder of version 1", "folder of version 2"])
def groups(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    rig = RIGS[request.param](tmp_path)
    yield rig
    rig.end()
    rig.limiter.close()


def folders_of(group: GangGroup) -> list[Path]:
    return [group.folder] if isinstance(group, ControlGroup) else []


def test_children_of_a_worker_come_with_it(groups: Rig) -> None:
    if isinstance(groups, FakeRig):
        pytest.skip("children are those that the kernel lists")
    group = groups.limiter.group("job-1")
    group.set_share(0.5)
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'])\n"
        "print(child.pid, flush=True); child.wait()"
    )
    process = groups.start(code)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    group.keep_processes([process.pid])
    assert {process.pid, child} <= set(GroupFiles().pids(folders_of(group)[0]))
    os.kill(child, signal.SIGKILL)


def test_nothing_is_left_behind(groups: Rig) -> None:
    group = groups.limiter.group("job-1")
    group.set_share(0.5)
    groups.start("input()", group)
    platforms = [folder.parent for folder in folders_of(group)]
    assert all(folder.is_dir() for folder in platforms)
    groups.end()
    groups.limiter.close()
    assert not any(folder.exists() for folder in platforms)


def test_groups_of_agents_that_have_ended_are_removed(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    kernel = FakeV2(tmp_path / "root")
    kernel.boot()
    stale = kernel.own_group / f"swell-abc-{gone.pid}"
    live = kernel.own_group / f"swell-abc-{os.getppid()}"
    for folder in (stale, stale / "job-1.1", live, kernel.own_group / "others"):
        kernel.make(folder)
    limiter = new_limiter(CoreSharing(), tmp_path, kernel)
    left = {folder.name for folder in kernel.inner(kernel.own_group)}
    assert isinstance(limiter, ControlGroups)
    assert left == {live.name, "others", limiter.folder.name}


# ------------------------------------------------------------ version 2
def test_memory_is_limited_and_kills_for_it_are_counted(tmp_path: Path) -> None:
    group = fake_rig(FakeV2(tmp_path / "root"), tmp_path).limiter.group("job-1")
    group.limit_memory(1 << 30)
    (folder,) = folders_of(group)
    assert (folder / "memory.max").read_text() == str(1 << 30)
    (folder / "memory.events").write_text("oom 2\noom_kill 2")
    assert group.num_killed() == 2


def test_the_processes_of_a_delegated_group_go_to_a_leaf_first(tmp_path: Path) -> None:
    rig = fake_rig(FakeV2(tmp_path / "root"), tmp_path)
    kernel = rig.kernel
    assert isinstance(kernel, FakeV2)
    assert kernel.pids(kernel.own_group) == []
    assert kernel.pids(kernel.own_group / control_groups.LEAF) == [os.getpid()]
    kernel.own(f"0::/{kernel.scope}/{control_groups.LEAF}\n")  # where an agent started from there begins
    again = new_limiter(CoreSharing(), tmp_path / "other", kernel)
    group = again.group("job-1")
    group.set_share(0.5)
    (folder,) = folders_of(group)
    assert folder.parent.parent == kernel.own_group
    assert (folder / "cpu.weight").read_text() == "50"


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda kernel: setattr(type(kernel), "is_delegated", False), "is not delegated"),
        (lambda kernel: kernel.mounted(""), "it is not mounted"),
        (
            lambda kernel: (kernel.own_group / "cgroup.controllers").write_text("memory io"),
            "the controller cpu is not delegated to",
        ),
        (lambda kernel: (kernel.own_group / "cgroup.controllers").unlink(), "cannot be read"),
        (lambda kernel: (kernel.own_group / "cgroup.subtree_control").unlink(), "cannot write"),
    ],
    ids=["foreign", "unmounted", "no cpu", "unreadable", "unwritable"],
)
def test_why_version_2_is_not_offered(
    tmp_path: Path, harm: Callable[[FakeV2], object], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeV2, "is_delegated", True)  # and back again
    kernel = FakeV2(tmp_path / "root")
    kernel.boot()
    kernel.start(kernel.own_group, os.getpid())
    assert limiter_offers(kernel)[0].is_offered
    harm(kernel)
    offer = limiter_offers(kernel)[0]
    assert told in offer.why_not
    limiter = new_limiter(CoreSharing(), tmp_path, kernel)
    assert not isinstance(limiter, ControlGroups) and limiter.lack


def test_a_kernel_that_refuses_after_all_leaves_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(self: FakeV2, folder: Path, name: str) -> None:
        raise PermissionError(1, "not permitted", str(folder))

    kernel = FakeV2(tmp_path / "root")
    kernel.boot()
    monkeypatch.setattr(FakeV2, "_hand_down", refuse)
    limiter = new_limiter(CoreSharing(), tmp_path, kernel)
    assert not isinstance(limiter, ControlGroups) and "CPU shares are not enforced" in limiter.lack
    assert "cgroup v2 cannot be used" in caplog.text


# ------------------------------------------------------------ version 1
def test_in_a_container_groups_are_below_what_is_mounted(tmp_path: Path) -> None:
    kernel = FakeV1(tmp_path / "root")
    kernel.boot()
    kernel.mounted(kernel.read(kernel.at("/proc/self/mountinfo")).replace(" / /sys", " /docker/7 /sys"))
    kernel.own("3:cpu,cpuacct:/docker/7\n2:memory:/docker/7/session\n1:blkio:/elsewhere\n")
    places = group_places(kernel)
    assert places["cpu"].folder == kernel.at("/sys/fs/cgroup/cpu,cpuacct")
    assert places["memory"].folder == kernel.at("/sys/fs/cgroup/memory/session")
    assert places["blkio"].folder == kernel.at("/sys/fs/cgroup/blkio")
    assert places["cpu"].is_top and not places["memory"].is_top


# ------------------------------------------------------------ quotas, weights
def test_a_quota_is_a_part_of_the_cores(tmp_path: Path) -> None:
    sharing = CoreSharing(cores=2.0, mode=ShareKind.QUOTA)
    for kernel, name in ((FakeV1(tmp_path / "1"), "cpu.cfs_quota_us"), (FakeV2(tmp_path / "2"), "cpu.max")):
        group = fake_rig(kernel, tmp_path, sharing).limiter.group("job-1")
        group.set_share(0.25)
        (folder,) = folders_of(group)
        assert (folder / name).read_text().split()[0] == "50000"


@given(one=SHARES, other=SHARES, cores=st.floats(0.1, 64.0))
def test_more_is_never_less(one: float, other: float, cores: float) -> None:
    low, high = sorted((one, other))
    assert 1 <= CgroupV2.weight_of(low) <= CgroupV2.weight_of(high) <= 100
    assert 2 <= CgroupV1.weight_of(low) <= CgroupV1.weight_of(high) <= 1024
    assert 1000 <= quota_us(low, cores) <= quota_us(high, cores) <= max(1000, cores * PERIOD_US)


# ------------------------------------------------------------ what can be asked for
@pytest.mark.parametrize("cores", [0.0, -1.0, 0.5, 1.5, 1e6, float("nan")])
def test_cores_that_there_are_not(cores: float) -> None:
    with pytest.raises(InvalidOption, match=f"this process may use {available_cores()} cores"):
        check_sharing(CoreSharing(cores=cores))


@given(st.none() | st.floats(0.0, 4096.0, exclude_min=True))
def test_as_options_cores_are_exact(cores: float | None) -> None:
    """`swell up` waits for a node with as many."""
    assert float(CoreSharing(cores).words[1]) == (cores or 0.0)
    assert CoreSharing(2.0).words == ("--cores", "2", "--cpu-shares", "weight")


def test_what_needs_control_groups_is_refused_without_them(tmp_path: Path) -> None:
    kernel = FakeV1(tmp_path / "root")
    kernel.boot()
    check_sharing(QUOTA, kernel)
    kernel.mounted("")
    check_sharing(CoreSharing(cores=1.0), kernel)
    with pytest.raises(InvalidOption, match=r"--cpu-shares quota needs control groups.*choose weight"):
        check_sharing(QUOTA, kernel)


# ------------------------------------------------------------ the real kernel
@pytest.mark.slow
def test_a_changed_share_is_seen_in_cpu_time_within_a_second(tmp_path: Path) -> None:
    """More busy processes than cores, in two gangs, all on one core: which of them are on which core, as
    others come and go, changes the ratio too.
    """
    rig = Rig(groups_of_this_machine(tmp_path))
    gangs = [rig.limiter.group(f"job-{number}") for number in range(2)]
    try:
        for gang in gangs:
            gang.set_share(1.0)
            for _ in range(2):
                os.sched_setaffinity(rig.start(BUSY, gang).pid, {min(os.sched_getaffinity(0))})
        eventually(lambda: all(gang.usage().cpu_s > 0.2 for gang in gangs))
        gangs[1].set_share(0.25)
        assert 2.0 < _ratio_in_a_second(gangs) < 8.0
        gangs[0].set_share(0.25)
        gangs[1].set_share(1.0)
        assert 1 / 8.0 < _ratio_in_a_second(gangs) < 1 / 2.0
    finally:
        rig.end()
        rig.limiter.close()


def _ratio_in_a_second(gangs: list[GangGroup]) -> float:
    """CPU time of the first gang, for that of the second, from now on."""
    before = [gang.usage().cpu_s for gang in gangs]
    time.sleep(1.0)  # what is measured is this second
    one, other = (gang.usage().cpu_s - used_s for gang, used_s in zip(gangs, before, strict=True))
    return one / other
