"""Shares, memory limits and usage of gangs: what the agent does with them, and what no worker hears of."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import msgspec
import psutil
import pytest
from tests.eventually import eventually
from tests.executors.agents import CALL
from tests.executors.contract import JOB, MakeJob, launch
from tests.executors.listening import Listener
from tests.executors.puppets import (
    devices,
    make_spec,
)

from swell.executors.exit_status import OVER_MEMORY
from swell.executors.local.agent.address import read_address
from swell.executors.local.agent.gang_limits import READ_EVERY_S, GangLimits
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.launch import AgentError, stop_agent
from swell.executors.local.limits.allocation import MemoryKills, num_kills_for_memory
from swell.executors.local.limits.control_groups import PREFIX, limiter_offers
from swell.executors.local.limits.limiter import CoreSharing, GangGroup, Limiter
from swell.executors.local.link import LocalExecutor
from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import (
    GangEnded,
    GangResized,
    GangStarted,
    JobWarned,
    Outcome,
    StepsReported,
)
from swell.model.target import Configuration, ShareKind, Target
from swell.model.usage import GangUsage
from swell.wire.group_places import GroupFiles, group_places


def with_share(command: LaunchGang, share: float, memory_bytes: int | None = None) -> LaunchGang:
    target = Target(devices=command.target.devices, configuration=Configuration(share=share))
    spec = msgspec.structs.replace(command.spec, memory_bytes=memory_bytes)
    return msgspec.structs.replace(command, target=target, spec=spec)


def reconfigure(generation: int, share: float | None, *numbers: int) -> Reconfigure:
    configuration = Configuration(share=share)
    target = Target(devices=devices(*numbers), configuration=configuration)
    return Reconfigure(job_id=JOB, generation=generation, target=target)


# ------------------------------------------------------------ a limiter that may fail
@dataclass
class FakeGroup(GangGroup):
    """Does what it is told, unless it is broken."""

    broken: set[str]
    share: float | None = None
    memory_bytes: int | None = None
    pids: set[int] = field(default_factory=set)
    num_reads: int = 0
    num_oom: int = 0
    is_closed: bool = False

    def _do(self, what: str) -> None:
        if what in self.broken:
            raise PermissionError(13, "Permission denied", f"groups/{what}")

    def set_share(self, share: float) -> None:
        self._do("share")
        self.share = share

    def limit_memory(self, num_bytes: int) -> None:
        self._do("memory")
        self.memory_bytes = num_bytes

    def keep_processes(self, pids: Iterable[int]) -> None:
        self._do("keep")
        self.pids = set(pids)

    def usage(self) -> GangUsage:
        self._do("usage")
        self.num_reads += 1
        return GangUsage(cpu_s=float(self.num_reads))

    def num_killed(self) -> int:
        self._do("killed")
        return self.num_oom

    def close(self) -> None:
        self._do("close")
        self.is_closed = True


class FakeLimiter(Limiter):
    name, lack = "fake", ""

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.groups: list[FakeGroup] = []

    def group(self, name: str) -> FakeGroup:
        self.groups.append(FakeGroup(self.broken))
        return self.groups[-1]

    def close(self) -> None:
        """It holds nothing."""


class Scene:
    """A host that has launched one gang with a share of 0.5, and what the controller makes of its answers."""

    def __init__(self, broken: Iterable[str] = (), memory_bytes: int | None = None) -> None:
        self.limiter = FakeLimiter()
        self.limiter.broken.update(broken)
        self.warnings: list[tuple[str, str]] = []
        self.num_kills = 0  #: by the kernel of the machine, for lack of memory
        kills = MemoryKills(lambda: self.num_kills)
        warn = lambda job, about, text: self.warnings.append((about, text))  # noqa: E731
        self.limits = GangLimits(self.limiter, warn, kills)
        begin = with_share(launch(lambda **_: make_spec(), devices(0, 1)), 0.5, memory_bytes)
        self.limits.launch(JOB, begin.target.configuration.weight, memory_bytes)
        (self.group,) = self.limiter.groups

    def change(self, share: float) -> None:
        self.limits.set_share(JOB, share)

    def read(self, now_s: float) -> GangUsage | None:
        """What is read of its usage now; None: it is not read, or cannot be."""
        return self.limits.tick(now_s).get(JOB)


def test_a_gang_has_its_share_from_its_launch_and_then_as_it_is_told() -> None:
    scene = Scene(memory_bytes=1 << 30)
    assert (scene.group.share, scene.group.memory_bytes) == (0.5, 1 << 30)
    for share in (0.25, 1.0):
        scene.change(share)
        assert scene.group.share == share
    assert scene.warnings == []


def test_a_share_that_cannot_be_had_is_one_warning() -> None:
    scene = Scene()
    scene.limiter.broken.add("share")
    for _ in range(2):
        scene.change(0.25)
    assert scene.warnings == [
        ("share", "its CPU share is not what it should be: Permission denied (groups/share)")
    ]
    scene.limiter.broken.clear()
    scene.change(0.25)
    assert scene.warnings[1:] == [("share", "")]


def test_a_job_with_a_share_is_told_what_its_machine_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLimiter, "lack", "no quota")
    scene = Scene()
    assert scene.warnings == [("quota", "no quota")] and scene.group.share == 0.5
    scene.limits.ended(JOB)
    assert scene.warnings[1:] == [("quota", "")]
    begin = launch(lambda **_: make_spec(), devices(0, 1))
    scene.limits.launch(JOB, begin.target.configuration.share, None)
    assert len(scene.warnings) == 2, "no share was chosen for it"
    for share in (0.5, 0.25):
        scene.limits.set_share(JOB, share)
    assert scene.warnings[2:] == [("quota", "no quota")], "once"


def test_what_cannot_be_read_is_said_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    assert scene.read(0.0) == GangUsage(cpu_s=1.0)
    scene.limiter.broken.add("usage")
    assert [scene.read(now_s) for now_s in (1.0, 2.0, 3.0)] == [None] * 3
    assert len(scene.warnings) == 1
    assert caplog.text.count("Permission denied") == 1
    scene.limiter.broken.clear()
    assert scene.read(4.0) == GangUsage(cpu_s=2.0)
    assert scene.warnings[1:] == [("use", "")]


def test_usage_is_read_so_often_and_processes_are_kept_in_their_group() -> None:
    scene = Scene()
    times_s = [step * 0.1 for step in range(40)]
    read = [now_s for now_s in times_s if scene.read(now_s) is not None]
    assert len(read) == 4
    assert all(after - before >= READ_EVERY_S - 1e-9 for before, after in pairwise(read))
    scene.limits.forked(JOB, "0", 7)
    scene.limits.tick(60.0)
    assert scene.group.pids == {7}


def test_a_worker_that_was_killed_for_memory_says_so() -> None:
    scene = Scene(memory_bytes=1 << 30)
    for worker in range(4):
        scene.limits.forked(JOB, str(worker), 100 + worker)
    kill = -signal.SIGKILL
    assert scene.limits.exited(JOB, "0", kill) == (kill, "")
    scene.group.num_oom = 1
    assert scene.limits.exited(JOB, "1", -signal.SIGTERM) == (-signal.SIGTERM, "")
    assert scene.limits.exited(JOB, "2", kill) == (OVER_MEMORY, "memory limit of 1.1 GB")
    assert scene.limits.exited(JOB, "3", kill) == (kill, ""), "that was another one"
    scene.group.num_oom = 2
    assert scene.limits.exited(JOB, "3", 137) == (OVER_MEMORY, "memory limit of 1.1 GB"), "so says a shell"
    assert scene.limits.exited(JOB, "3", 137) == (137, "")
    scene.limiter.broken.add("killed")
    assert scene.limits.exited(JOB, "4", kill) == (kill, "")


def test_the_kernel_counts_its_kills(tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text("nr_free_pages 7\noom_kill 3\npgfault 12\n")
    assert num_kills_for_memory(tmp_path / "vmstat") == 3
    assert num_kills_for_memory(tmp_path / "not there") == 0, "a sandbox hides it"


# ------------------------------------------------------------ real gangs
@pytest.fixture
def groups() -> None:
    """Skips where this machine has no control groups to give."""
    offers = limiter_offers()
    if not any(offer.is_offered for offer in offers if offer.name.startswith("cgroup")):
        pytest.skip("; ".join(f"{offer.name}: {offer.why_not}" for offer in offers if offer.why_not))


def group_folders(pid: int) -> list[Path]:
    """Groups of platforms in which a process is."""
    folders = {place.folder for place in group_places(GroupFiles(), pid).values()}
    return sorted(folder for folder in folders if folder.parent.name.startswith(PREFIX))


def weight_of(pid: int) -> int:
    files = [folder / name for folder in group_folders(pid) for name in ("cpu.shares", "cpu.weight")]
    (text,) = [file.read_text() for file in files if file.exists()]
    return int(text)


def usage_in(listener: Listener) -> list[GangUsage]:
    found = [event.usage for event in listener.events if isinstance(event, StepsReported)]
    return [usage for usage in found if usage is not None]


@pytest.mark.usefixtures("groups")
def test_a_share_changes_under_a_gang_that_notices_nothing(
    executor: LocalExecutor, listener: Listener, make_job: MakeJob, state_dir: Path
) -> None:
    executor.perform(with_share(launch(make_job, devices(0, 1), child=1), 0.5))
    started = listener.wait(GangStarted, 1)
    whole = {weight_of(pid) for pid in started.pids}
    assert len(whole) == 1
    executor.perform(reconfigure(2, 0.25, 0, 1))
    resized = listener.wait(GangResized, 2)
    assert resized.pids == started.pids
    assert {2 * weight_of(pid) for pid in started.pids} == whole
    for pid in started.pids:
        (child,) = psutil.Process(pid).children()
        assert group_folders(child.pid) == group_folders(pid)
    executor.perform(
        msgspec.structs.replace(
            reconfigure(3, 0.125, 0, 1, 2),
            target=Target(devices=devices(0, 1, 2), configuration=Configuration(share=0.125)),
        )
    )
    grown = listener.wait(GangResized, 3)
    assert {4 * weight_of(pid) for pid in grown.pids} == whole, "joiners too"
    eventually(lambda: bool(usage_in(listener)) and usage_in(listener)[-1].cpu_s > 0.0)
    assert usage_in(listener)[-1].memory_bytes > 1 << 20
    folders = group_folders(grown.pids[0])
    assert not any(isinstance(event, JobWarned) for event in listener.events)
    executor.close()
    stop_agent(state_dir)
    assert not any(folder.parent.exists() for folder in folders)


@pytest.mark.usefixtures("groups")
def test_a_worker_beyond_its_memory_limit(
    executor: LocalExecutor, listener: Listener, make_job: MakeJob, state_dir: Path
) -> None:
    if not limiter_offers()[0].is_offered:
        pytest.skip("only control groups of version 2 limit memory")
    executor.perform(with_share(launch(make_job, devices(0), eat=400), 1.0, memory_bytes=100 << 20))
    listener.wait(GangStarted, 1)
    ended = listener.wait(GangEnded, 1)
    assert ended.outcome is Outcome.LOST
    assert "went beyond their memory limit of 104.9 MB" in ended.message
    executor.close()
    stop_agent(state_dir)


# ------------------------------------------------------------ how cores are shared
@pytest.fixture
def new_sharing_executor(tmp_path: Path) -> Iterator[Callable[[CoreSharing], LocalExecutor]]:
    made: list[LocalExecutor] = []

    def make(sharing: CoreSharing) -> LocalExecutor:
        nodes = parse_devices("paced:8@400")
        options = AgentOptions(state_dir=tmp_path / "state", sharing=sharing, preload=("msgspec",), call=CALL)
        executor = LocalExecutor(options, nodes)
        made.append(executor)
        return executor

    yield make
    for executor in made:
        executor.close()
    stop_agent(tmp_path / "state")


def test_workers_keep_to_the_cores_that_they_may_have(
    new_sharing_executor: Callable[[CoreSharing], LocalExecutor], make_job: MakeJob, state_dir: Path
) -> None:
    executor, listener = new_sharing_executor(CoreSharing(cores=1.0, mode=ShareKind.OFF)), Listener()
    executor.start(listener.put)
    executor.perform(launch(make_job, devices(0, 1)))
    pids = listener.wait(GangStarted).pids
    assert {tuple(os.sched_getaffinity(pid)) for pid in pids} == {(min(os.sched_getaffinity(0)),)}
    assert group_folders(pids[0]) == [], "nothing is divided"
    executor.perform(reconfigure(2, 0.25, 0, 1))
    listener.wait(GangResized, 2)
    eventually(lambda: bool(usage_in(listener)))
    executor.close()
    other = new_sharing_executor(CoreSharing())
    with pytest.raises(AgentError, match=r"`swell up --cores 1 --cpu-shares off --listen ''`"):
        other.start(Listener().put)
    address = read_address(state_dir)
    assert address is not None and psutil.pid_exists(address.pid), "what runs is not touched"
