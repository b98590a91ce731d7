"""Machines that join, are drained, removed and lost, through a whole platform with obedient hands."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest

from swell.live import head_queue, watches
from swell.live.platform import Platform
from swell.model.errors import InvalidInput, InvalidJob, NodeInUse, UnknownNode
from swell.model.event import GangEnded, NodeJoined, NodeLost, NodeTested, NodeWarned, Outcome
from swell.model.job import Origin, Phase
from swell.model.node import Node
from swell.model.usage import DeviceReading, DeviceTest

from .parts import NODE, Hands, new_platform, spec
from .test_platform import as_if_killed, run_job, until
from .test_platform import running as platform_at_work

JOINED = Node(name="far", kind="cpu", devices=("far/0", "far/1"), address="10.9.0.11")


class Noting(Hands):
    """Tells of nodes that join and are lost."""

    def join(self, node: Node = JOINED) -> None:
        self.nodes = (*self.nodes, node)
        self.deliver(NodeJoined(at_s=0.0, node=node))

    def lose(self, name: str, cause: str) -> None:
        self.nodes = tuple(node for node in self.nodes if node.name != name)
        self.deliver(NodeLost(at_s=0.0, name=name, cause=cause))


def running(folder: Path, hands: Hands, *own: Node) -> AbstractContextManager[Platform]:
    """A platform that hosts may join, with these nodes of its own machine."""
    return platform_at_work(folder, hands, nodes=own, hosts_may_join=True)


def has(platform: Platform, *names: str) -> Callable[[], bool]:
    return lambda: {node.name for node in platform.cluster().nodes} == set(names)


def test_a_job_waits_for_the_first_node_and_starts_when_it_joins(tmp_path: Path) -> None:
    hands = Noting()
    with running(tmp_path, hands) as platform:
        job_id = platform.submit(spec(min_workers=1)).id
        until(lambda: platform.job(job_id).reason_code == "no_nodes")
        view = platform.job(job_id)
        assert view.phase is Phase.QUEUED and "none has joined" in view.reason
        assert "no_nodes" in [story.code for story in platform.stories(job_id)]
        assert not hands.performed and platform.cluster().num_devices == 0
        hands.join()
        until(lambda: platform.job(job_id).phase is Phase.RUNNING)
        (node,) = platform.cluster().nodes
        assert node.is_joined and node.address == "10.9.0.11" and node.jobs == [job_id]


def test_what_no_machine_here_can_hold_is_taken_only_where_more_may_join(tmp_path: Path) -> None:
    with running(tmp_path, Noting()) as platform:
        job_id = platform.submit(spec(min_workers=64, global_batch=64)).id
        until(lambda: platform.job(job_id).reason_code == "no_nodes")
        with pytest.raises(InvalidJob, match="a sample of the batch for each worker"):
            platform.submit(spec(min_workers=64, global_batch=8))
    alone = tmp_path / "alone"
    alone.mkdir()
    platform, journal = new_platform(alone, Noting())
    with pytest.raises(InvalidJob, match="at least 3 devices but the cluster has 2"):
        platform.submit(spec(min_workers=3))
    journal.close()


def test_joined_nodes_and_their_gangs_outlive_the_daemon(tmp_path: Path) -> None:
    hands = Noting()
    with running(tmp_path, hands) as platform:
        hands.join()
        job_id = run_job(platform)
        platform.drain_node("far")
        until(lambda: platform.job(job_id).phase is Phase.QUEUED)
        platform.undrain_node("far")
        until(lambda: platform.job(job_id).phase is Phase.RUNNING)
        copy, survivors = as_if_killed(tmp_path, hands)
    with running(copy, survivors) as after:
        until(has(after, "far"))
        assert after.job(job_id).phase is Phase.RUNNING and not survivors.performed
    survivors.nodes = ()
    with running(copy, survivors) as later:
        until(has(later))


def test_gangs_whose_leases_ended_without_a_platform_are_no_setbacks(tmp_path: Path) -> None:
    """Their nodes have joined again by then."""
    hands = Noting()
    with running(tmp_path, hands) as platform:
        hands.join()
        job_id = run_job(platform)
        copy, survivors = as_if_killed(tmp_path, hands)
    survivors.gangs.clear()
    with running(copy, survivors) as after:
        until(lambda: "requeued" in [story.code for story in after.stories(job_id)])
        told = next(story.text for story in after.stories(job_id) if story.code == "requeued")
        assert "whose devices left the cluster" in told
        until(lambda: after.job(job_id).phase is Phase.RUNNING)


def test_a_drained_node_is_left_and_says_so_until_it_is_undone(tmp_path: Path) -> None:
    hands = Noting()
    with running(tmp_path, hands, NODE) as platform:
        until(has(platform, "node0"))
        job_id = run_job(platform)
        node = platform.drain_node("node0")
        assert node.leaving is not None and node.leaving.until_s is None
        until(lambda: platform.job(job_id).phase is Phase.QUEUED)
        cluster = platform.cluster()
        assert cluster.num_free == 0 and cluster.num_devices == 2
        assert platform.undrain_node("node0").leaving is None
        assert platform.undrain_node("node0").leaving is None, "twice is once"
        until(lambda: platform.job(job_id).phase is Phase.RUNNING)
        with pytest.raises(UnknownNode, match="no node 'elsewhere'; these are there: node0"):
            platform.drain_node("elsewhere")


ANOTHER = msgspec.structs.replace(JOINED, kind="another")


def test_a_job_runs_on_the_kind_that_it_names_and_must_name_one_where_there_are_several(
    tmp_path: Path,
) -> None:
    hands = Noting()
    with running(tmp_path, hands, NODE) as platform:
        until(has(platform, "node0"))
        first = platform.submit(spec()).id
        with pytest.raises(
            InvalidJob, match=r"asks for devices of kind 'another'; the platform has cpu \(2 dev"
        ):
            platform.submit(spec(kind="another"))
        platform.allow_kind(ANOTHER.kind)
        hands.join(ANOTHER)
        until(has(platform, "node0", "far"))
        with pytest.raises(
            InvalidJob, match=r"has several: another \(2 devices\), cpu \(2 devices\); name one with --kind"
        ):
            platform.submit(spec())
        second = platform.submit(spec(kind="another")).id
        until(lambda: platform.job(first).phase is platform.job(second).phase is Phase.RUNNING)
        assert platform.node("node0").jobs == [first] and platform.node("far").jobs == [second]
        assert (platform.job(first).kind, platform.job(second).kind) == (NODE.kind, "another")


def test_a_host_of_a_kind_of_its_own_stands_in_the_way_of_no_job(tmp_path: Path) -> None:
    hands = Noting()
    with running(tmp_path, hands, NODE) as platform:
        until(has(platform, "node0"))
        hands.join(ANOTHER)
        until(lambda: [lost.name for lost in platform.cluster().lost_nodes] == ["far"])
        assert platform.submission(platform.submit(spec()).id).spec.kind == ""
        with pytest.raises(InvalidJob, match="asks for devices of kind 'another'; the platform has"):
            platform.submit(spec(kind="another"))
        with pytest.raises(InvalidInput, match="cannot be a kind of device"):
            platform.allow_kind("<b>")
        assert [node.name for node in platform.allow_kind("another").nodes] == ["node0", "far"]


def test_a_request_made_again_is_the_same_job_also_when_another_kind_has_joined(tmp_path: Path) -> None:
    hands, origin = Noting(), Origin(key="k", fingerprint="same")
    with running(tmp_path, hands, NODE) as platform:
        until(has(platform, "node0"))
        first = platform.submit(spec(), origin).id
        platform.allow_kind(ANOTHER.kind)
        hands.join(ANOTHER)
        until(has(platform, "node0", "far"))
        with pytest.raises(InvalidJob, match="names no kind of device"):
            platform.submit(spec(), Origin(key="l", fingerprint="same"))
        repeated = platform.submit(spec(), origin)
        assert (repeated.id, repeated.is_new) == (first, False)


def test_a_node_in_use_is_removed_only_by_force_and_its_host_is_told(tmp_path: Path) -> None:
    hands = Noting()
    with running(tmp_path, hands, NODE) as platform:
        until(has(platform, "node0"))
        with pytest.raises(NodeInUse, match="own machine"):
            platform.remove_node("node0")
        platform.drain_node("node0")
        hands.join()
        until(has(platform, "node0", "far"))
        assert platform.remove_node("far").jobs == [] and hands.removed.pop() == "far"
        platform.undrain_node("far")
        job_id = run_job(platform)
        with pytest.raises(NodeInUse, match=f"workers of {job_id}: `swell nodes drain far` moves them"):
            platform.remove_node("far")
        assert hands.removed == []
        assert platform.remove_node("far", force=True).jobs == [job_id]
        assert hands.removed == ["far"]
        hands.lose("far", "it was removed from the platform")
        until(has(platform, "node0"))
        (lost,) = platform.cluster().lost_nodes
        assert lost.name == "far" and lost.cause == "it was removed from the platform"
        assert not platform.remove_node("far").devices, "its name is forgotten where it is known"
        assert hands.removed == ["far", "far"]
        hands.join()
        until(has(platform, "node0", "far"))
        assert platform.cluster().lost_nodes == ()


def test_what_devices_do_is_shown_of_nodes_and_of_the_job_that_has_them(tmp_path: Path) -> None:
    hands = Hands()
    hands.readings = {
        "node0/0": DeviceReading(
            use=0.5, memory_bytes=1, total_memory_bytes=4, power_w=300.0, temperature_c=60
        ),
        "node0/1": DeviceReading(use=0.25, power_w=100.0, temperature_c=70),
        "gone/0": DeviceReading(use=1.0),
    }
    with running(tmp_path, hands, NODE) as platform:
        job_id = run_job(platform, devices_per_worker=2)
        (node,) = platform.cluster().nodes
        assert node.readings == {name: hands.readings[name] for name in NODE.devices}
        reading = platform.job(job_id).reading
        assert reading == DeviceReading(
            use=0.375, memory_bytes=1, total_memory_bytes=4, power_w=400.0, temperature_c=70
        )
        hands.readings = {}
        assert platform.job(job_id).reading is None and platform.cluster().nodes[0].readings == {}


def test_a_faulty_device_drains_its_node_once_until_an_operator_undoes_it_also_when_the_node_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "FAULTS_EVERY_S", 0.05)
    monkeypatch.setattr(head_queue, "LOOK_EVERY_S", 0.05)
    hands = Noting()
    fault = DeviceReading(use=0.0, fault="it has fallen off the bus")
    with running(tmp_path, hands, NODE) as platform:
        hands.join()
        job_id = run_job(platform, min_workers=2, max_workers=2)
        home = platform.job(job_id).devices[0].split("/")[0]
        hands.readings = {f"{home}/1": fault, "gone/0": fault}
        until(lambda: not any(device.startswith(home) for device in platform.job(job_id).devices))
        until(lambda: platform.job(job_id).phase is Phase.RUNNING)
        leaving = platform.node(home).leaving
        assert leaving is not None and leaving.is_ill and leaving.until_s is None
        assert leaving.why == f"device {home}/1: it has fallen off the bus"
        assert sum(node.leaving is not None for node in platform.cluster().nodes) == 1
        platform.undrain_node(home)
        asked = count_reads(hands)
        until(lambda: asked() > 2)
        assert platform.node(home).leaving is None, "it is not drained again for what was known"
        hands.readings = {f"{home}/1": DeviceReading(use=0.0)}
        until(lambda: asked() > 4)
        hands.readings = {f"{home}/1": fault}
        until(lambda: platform.node(home).leaving is not None)


def count_reads(hands: Hands) -> Callable[[], int]:
    """How often devices were read since."""
    asked, read = list[None](), hands.device_readings

    def device_readings() -> dict[str, DeviceReading]:
        asked.append(None)
        return read()

    hands.device_readings = device_readings  # type: ignore[method-assign]
    return lambda: len(asked)


def test_an_ill_node_that_was_lost_is_ill_when_it_joins_again(tmp_path: Path) -> None:
    hands = Noting()
    with running(tmp_path, hands, NODE) as platform:
        hands.join()
        until(has(platform, "node0", "far"))
        hands.deliver(NodeWarned(at_s=0.0, name="far", why="device far/0: Xid 79", is_ill=True))
        platform.drain_node("far")
        hands.lose("far", "gave no sign of life")
        until(has(platform, "node0"))
        hands.join()
        until(has(platform, "node0", "far"))
        leaving = platform.node("far").leaving
        assert leaving is not None and leaving.is_ill and leaving.why == "device far/0: Xid 79"
        assert platform.undrain_node("far").leaving is None


def test_a_drained_node_without_jobs_is_tested_and_an_ill_one_has_jobs_again_once_it_passes(
    tmp_path: Path,
) -> None:
    hands = Noting()
    with running(tmp_path, hands, NODE) as platform:
        until(has(platform, "node0"))
        with pytest.raises(NodeInUse, match="jobs may be placed on it; drain it"):
            platform.test_node("node0")
        job_id = run_job(platform)
        hands.is_obedient = False
        hands.deliver(NodeWarned(at_s=0.0, name="node0", why="Xid 79", is_ill=True))
        until(lambda: platform.node("node0").leaving is not None)
        with pytest.raises(NodeInUse, match=f"has workers of {job_id}; drain it"):
            platform.test_node("node0")
        hands.obey_again(job_id)
        until(lambda: not platform.node("node0").jobs)
        before = platform.test_node("node0")
        assert hands.tested == [("node0", *NODE.devices)] and before.tested_s is None and not before.tests

        def tell(*faults: str) -> str:
            """What the node is drained for after a test."""
            last_s = platform.node("node0").tested_s
            results = [DeviceTest(device=d, fault=f) for d, f in zip(NODE.devices, faults, strict=True)]
            now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            hands.deliver(NodeTested(at_s=now_s, name="node0", results=tuple(results)))
            until(lambda: platform.node("node0").tested_s != last_s)
            assert platform.node("node0").tests == tuple(results)
            leaving = platform.node("node0").leaving
            return leaving.why if leaving else ""

        assert tell("", "a sum was wrong") == "Xid 79; its test failed (device node0/1: a sum was wrong)"
        platform.drain_node("node0")
        assert "`swell nodes drain --undo`" in tell("", ""), "an operator's word stays"
        platform.undrain_node("node0")
        hands.deliver(NodeWarned(at_s=0.0, name="node0", why="Xid 79", is_ill=True))
        until(lambda: platform.node("node0").leaving is not None)
        assert tell("", "") == ""
        assert tell("a", "") == "its test failed (device node0/0: a)"
        until(lambda: platform.job(job_id).phase is Phase.QUEUED)


def test_a_node_at_which_job_after_job_fails_is_drained_and_stays_so_after_a_kill(
    tmp_path: Path,
) -> None:
    hands = Noting()
    with running(tmp_path, hands, NODE) as platform:
        hands.join()
        until(has(platform, "node0", "far"))
        well = run_job(platform, min_workers=1, max_workers=1)
        home = platform.job(well).devices[0].split("/")[0]
        filler = run_job(platform, name="filler", min_workers=1, max_workers=1)
        assert platform.job(filler).devices[0].startswith(home)
        (bad,) = {"node0", "far"} - {home}
        for number in range(3):
            assert platform.node(bad).leaving is None
            job_id = run_job(platform, name=f"job{number}", entry=f"/job{number}.py", max_workers=1)
            end = GangEnded(at_s=0.0, job_id=job_id, generation=1, outcome=Outcome.FAILED, steps=1)
            hands.deliver(end)
            until(lambda: platform.job(job_id).phase is Phase.FAILED)  # noqa: B023
        until(lambda: platform.node(bad).leaving is not None)
        leaving = platform.node(bad).leaving
        assert leaving is not None and leaving.is_ill and "3 jobs failed on it within an hour" in leaving.why
        copy, survivors = as_if_killed(tmp_path, hands)
    with running(copy, survivors, NODE) as after:
        until(has(after, "node0", "far"))
        assert after.node(bad).leaving == leaving


GPUS = Node(name="far", kind="cuda:NVIDIA H200", devices=("far/0", "far/1"), address="10.9.0.11")


@pytest.mark.parametrize("fault", ["", "a sum was wrong"])
def test_a_machine_that_joins_with_gpus_is_tested_before_jobs_have_them(tmp_path: Path, fault: str) -> None:
    hands, asked = Noting(), [("far", "far/0", "far/1")]
    with running(tmp_path, hands) as platform:
        hands.join(GPUS)
        until(lambda: hands.tested == asked)
        job_id = platform.submit(spec(min_workers=1)).id
        until(lambda: platform.job(job_id).reason_code == "no_nodes")
        assert platform.node("far").leaving is not None and not hands.performed
        copy, survivors = as_if_killed(tmp_path, hands)
    with running(copy, survivors) as after:
        until(lambda: survivors.tested == asked)  # the result may have gone with the daemon
        results = tuple(DeviceTest(device=device, fault=fault) for device in GPUS.devices)
        survivors.deliver(NodeTested(at_s=0.0, name="far", results=results))
        until(lambda: after.node("far").tests == results)
        leaving, phase = after.node("far").leaving, after.job(job_id).phase
        if fault:
            assert leaving is not None and leaving.is_ill and phase is Phase.QUEUED
            assert leaving.why == f"its test failed (device far/0: {fault})"
        else:
            assert leaving is None
            until(lambda: after.job(job_id).phase is Phase.RUNNING)
            survivors.deliver(NodeJoined(at_s=0.0, node=GPUS))  # as a new controller tells
            assert after.node("far").jobs == [job_id] and after.node("far").leaving is None
        assert survivors.tested == asked


@pytest.mark.parametrize("why", ["no GPU", "borrowed", "the platform's own"])
def test_other_nodes_have_jobs_at_once(tmp_path: Path, why: str) -> None:
    hands, node = Noting(), msgspec.structs.replace(GPUS, is_borrowed=why == "borrowed")
    node = JOINED if why == "no GPU" else node
    is_own = why == "the platform's own"
    with running(tmp_path, hands, *([node] if is_own else [])) as platform:
        if not is_own:
            hands.join(node)
        job_id = platform.submit(spec(min_workers=1)).id
        until(lambda: platform.job(job_id).phase is Phase.RUNNING)
        assert hands.tested == []
