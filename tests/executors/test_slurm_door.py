"""The door of a platform on Slurm, with a Slurm in memory: what it asks, tells and keeps going through."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.eventually import PATIENCE_S
from tests.executors.fake_slurm import FakeSlurm
from tests.executors.test_host_door import FakeController

from swell.executors.engine import InvalidEngine
from swell.executors.engines import make_engine
from swell.executors.local.agent.door import DoorError
from swell.executors.local.agent.options import AgentOptions
from swell.executors.slices.door import SliceDoor
from swell.executors.slices.order import SliceOrder
from swell.executors.slices.port import ClusterError, ClusterRead
from swell.executors.slurm import slurm_client
from swell.executors.slurm.engine import SlurmEngine
from swell.model.event import AnyEvent, NodeLost


class Reporting(FakeController):
    """Keeps what it is to tell."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[AnyEvent] = []

    def report(self, event: AnyEvent) -> None:
        self.events.append(event)


class Agent:
    """The door, as its agent calls it."""

    def __init__(self, folder: Path, slurm: FakeSlurm, **options: Any) -> None:
        usual: dict[str, Any] = {"max_nodes": 4, "slice_devices": "cuda:2"}
        engine = SlurmEngine(**(usual | options))
        given = AgentOptions(
            state_dir=folder, preload=(), call="", listen="127.0.0.1:0", engine=engine.encoded()
        )
        folder.mkdir(exist_ok=True)
        self.listener = Reporting()
        self.slurm = slurm

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(slurm_client, "SlurmClient", lambda *told: slurm)
            self.door = SliceDoor(self.listener, given, "session")

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not is_so():
                self.door.tick()
                await asyncio.sleep(0.005)

    async def look(self) -> None:
        """Until Slurm has been asked once more."""
        num = self.slurm.num_asked
        await self.until(lambda: self.slurm.num_asked > num)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SlurmEngine, "period_s", 0.0)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_slices_come_while_jobs_could_use_them_and_their_script_says_where_to_join(tmp_path: Path) -> None:
    async def check() -> None:
        slurm = FakeSlurm(["n1", "n2"])
        agent = Agent(tmp_path / "state", slurm)
        address = await agent.door.open()
        await agent.look()
        assert slurm.num_submitted == 0
        agent.door.want_devices(3)
        await agent.until(lambda: slurm.num_submitted == 2)
        text = next(line for line in slurm.scripts[1].splitlines() if line.startswith("{"))
        order = msgspec.json.decode(text, type=SliceOrder)
        assert (order.host.join, order.host.devices, order.host.grace_s) == (address, "cuda:2", 30.0)
        assert order.token and (tmp_path / "state" / "slurm.join-token").read_text().strip() == order.token
        await agent.door.close()
        assert not slurm.in_state("PENDING"), "all goes back to Slurm"

    run(check())


def test_a_slice_that_is_asked_for_while_the_platform_goes_down_goes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        slurm, is_asked, may_answer = FakeSlurm(["n1"]), asyncio.Event(), asyncio.Event()
        at_once = slurm.submit

        async def submit(order: SliceOrder, node: str = "") -> int:
            is_asked.set()
            await may_answer.wait()
            return await at_once(order, node)

        monkeypatch.setattr(slurm, "submit", submit)
        agent = Agent(tmp_path / "state", slurm)
        await agent.door.open()
        agent.door.want_devices(2)
        await agent.until(is_asked.is_set)
        closing = asyncio.create_task(agent.door.close())
        await asyncio.sleep(0)
        may_answer.set()
        await closing
        assert slurm.num_submitted == 1 and not slurm.in_state("PENDING")

    run(check())


def test_a_slurm_that_does_not_answer_is_waited_for_and_nothing_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check() -> None:
        slurm = FakeSlurm(["n1"], silence="squeue: down; wait")
        agent = Agent(tmp_path / "state", slurm)
        await agent.door.open()
        agent.door.want_devices(2)
        for _ in range(3):
            await agent.look()
        assert caplog.text.count("squeue: down; wait") == 1 and agent.listener.events == []
        slurm.silence = ""
        await agent.until(lambda: slurm.num_submitted == 1)
        assert '"grace_s":30.0' in slurm.scripts[1]
        slurm.silence = "squeue: down; wait"
        for _ in range(3):
            await agent.look()
        slurm.silence = ""
        await agent.look()
        assert slurm.num_submitted == 1 and agent.listener.events == []
        slurm.silence = "squeue: down; wait"
        await agent.door.close()
        assert "slices may be left in Slurm" in caplog.text

    run(check())


def test_what_slices_printed_long_ago_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "slurm"
    folder.mkdir(parents=True)
    for name in ("1.out", "2.out"):
        (folder / name).touch()
    os.utime(folder / "1.out", (0, 0))
    Agent(tmp_path / "state", FakeSlurm())
    assert [path.name for path in folder.iterdir()] == ["2.out"]


def test_a_refusal_is_told_where_users_look_at_nodes(tmp_path: Path) -> None:
    async def check() -> None:
        slurm = FakeSlurm(["n1"], refusal="sbatch: Invalid qos specification")
        agent = Agent(tmp_path / "state", slurm, partition="scav")
        await agent.door.open()
        agent.door.want_devices(2)
        await agent.until(lambda: bool(agent.listener.events))
        event = agent.listener.events[0]
        assert isinstance(event, NodeLost) and event.name == "slurm-slices" and event.cause == slurm.refusal
        await agent.door.close()

    run(check())


def test_a_partition_that_is_not_there_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse() -> ClusterRead:
        raise ClusterError("scontrol: Partition x not found", is_final=True)

    slurm = FakeSlurm()
    monkeypatch.setattr(slurm, "read", refuse)
    with pytest.raises(DoorError, match="Partition x not found"):
        asyncio.run(Agent(tmp_path / "state", slurm).door.open())


# ---------------------------------------------------------------- options
def made(**options: Any) -> SlurmEngine:
    engine = make_engine("slurm", options, "")
    assert isinstance(engine, SlurmEngine)
    return engine


@pytest.mark.parametrize(
    ("devices", "said", "last"),
    [
        ("cuda:2", "--gres=gpu:a100:2", "--gres=gpu:a100:2"),
        ("cuda:2", "--gpus-per-node a100:2", "--gpus-per-node"),
        ("cuda:2", "-G 2", "-G"),
        ("cuda:2", "-c 16", "-c"),
        ("cpu:4", "", "--cpus-per-task=4"),
    ],
)
def test_what_the_user_says_stands_last_and_of_gpus_alone(devices: str, said: str, last: str) -> None:
    """`sbatch` goes by the last one. A cluster without GPUs is asked for none."""
    words = made(slice_devices=devices, sbatch=said).submission()
    assert words.index(f"--cpus-per-task={devices[-1]}") <= words.index(last)
    assert ("--gres=gpu:2" in words) == (said == "-c 16")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"min_nodes": 3, "max_nodes": 2},
            r"--min-nodes 3: it is more than --max-nodes 2; lower it",
        ),
        ({"slice_devices": "auto"}, r"--slice-devices auto: .* write cuda:N, cpu:N or paced:N@RATE"),
        ({"slice_devices": "cuda:0"}, r"--slice-devices cuda:0: .* one at least"),
        ({"sbatch": "-p scav"}, r"--sbatch '-p scav': .* name it with --partition"),
        ({"sbatch": "--comment='a"}, r"--sbatch .* close its quotes"),
    ],
)
def test_options_that_do_not_fit_are_refused_with_the_remedy(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidEngine, match=told):
        made(**options)
