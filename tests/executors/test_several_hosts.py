"""One gang over several real hosts: trains, grows, shrinks, loses a host, and learns what it would on one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.executors.puppets import make_spec
from tests.executors.several_hosts import SeveralHosts
from tests.train.wild import BATCH, SAME, STEPS_PER_EPOCH, read_story, run_alone

from swell.executors.hosts import messages as h
from swell.model.command import LaunchGang, Reconfigure, StopGang
from swell.model.event import GangEnded, GangResized, GangStarted, Outcome, WorkersLost
from swell.model.job import Elasticity, EndCondition, JobSpec
from swell.model.target import Target
from swell.wire import messages as m

pytest.importorskip("torch")

JOB = "job-1"
EPOCHS = 8
WORDS = ("deterministic", "norm", "noise")
SCRIPTS = SAME.parent


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralHosts]:
    """For all tests of this file: a zygote takes long to import torch."""
    made = SeveralHosts(tmp_path_factory.mktemp("hosts"))
    yield made
    made.close()


def target(*devices: str) -> Target:
    return Target(devices=devices)


def launch(job: str, spec: JobSpec, *devices: str) -> LaunchGang:
    steps = spec.end.steps
    return LaunchGang(job_id=job, generation=1, target=target(*devices), spec=spec, total_steps=steps)


def allow(folder: Path, num_steps: int) -> None:
    draft = folder / "draft"
    draft.write_text(str(num_steps))
    draft.rename(folder / "allowed")


def num_finished(folder: Path) -> int:
    lines = [line for path in folder.glob("diary-*") for line in path.read_text().splitlines()]
    return len({line for line in lines if '"finished"' in line})


def said(hosts: SeveralHosts, kind: type[m.Message]) -> list[m.Message]:
    return [
        told.message
        for heard in hosts.said.values()
        for told in heard
        if isinstance(told, h.WorkerSaid) and isinstance(told.message, kind)
    ]


def test_a_script_finds_what_torchrun_tells_of_several_hosts(hosts: SeveralHosts, tmp_path: Path) -> None:
    spec = make_spec(
        entry=str(SCRIPTS / "names.py"), workdir=str(tmp_path), global_batch=6, end=EndCondition(steps=100)
    )
    hosts.perform(launch("names", spec, "a/0", "b/0", "b/1"))
    assert hosts.wait(GangEnded, "names").outcome is Outcome.SUCCEEDED
    told = {}
    for host in "ab":
        folder = hosts.folder(host, "names")
        for path in sorted(folder.glob("worker-*.log")):
            told[path.name] = path.read_text().splitlines()[-1].split()
    places = [line[:5] for line in told.values()]
    assert places == [
        ["0", "0", "3", "1", "0"],
        ["1", "0", "3", "2", "1"],
        ["2", "1", "3", "2", "1"],
    ], told
    assert {line[5] for line in told.values()} == {"127.0.0.2"}, "the host of rank 0"


def test_scripts_that_are_stopped_and_started_stop_in_the_same_step(
    hosts: SeveralHosts, tmp_path: Path
) -> None:
    spec = make_spec(
        entry=str(SCRIPTS / "foreign.py"),
        args=("sgd", "0", "100000000"),
        workdir=str(tmp_path),
        elasticity=Elasticity.RESTART,
        end=EndCondition(),
    )
    job = "foreign"
    hosts.perform(launch(job, spec, "a/0", "b/0", "b/1"))
    hosts.wait(GangStarted, job)
    hosts.until(lambda: any(isinstance(s, m.Stepped) and s.steps > 2 for s in said(hosts, m.Stepped)))
    hosts.perform(Reconfigure(job_id=job, generation=2, target=target("b/0", "c/0")))
    hosts.wait(GangResized, job, 2)
    (last,) = [each for each in said(hosts, m.Stepped) if isinstance(each, m.Stepped) and each.is_last]
    folders = [hosts.folder(name, job) for name in "ab"]
    ends = [
        path.read_text().splitlines()[-1] for folder in folders for path in folder.glob("worker-[012].log")
    ]
    assert ends == [str(last.steps)] * 3
    hosts.perform(StopGang(job_id=job, generation=2))
    hosts.wait(GangEnded, job)


def test_a_gang_over_three_hosts_learns_what_one_worker_does(hosts: SeveralHosts, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    steps = EPOCHS * STEPS_PER_EPOCH
    spec = make_spec(
        entry=str(SAME),
        args=(str(folder), str(EPOCHS), *WORDS),
        workdir=str(tmp_path),
        global_batch=BATCH,
        end=EndCondition(steps=steps),
        seed=0,
    )
    allow(folder, 4)
    hosts.perform(launch(JOB, spec, "a/0", "b/0"))
    hosts.wait(GangStarted, JOB)
    for generation, devices in enumerate(
        (("a/0", "b/0", "b/1", "c/0", "c/1"), ("b/1", "c/0", "c/1"), ("a/0", "a/1", "b/1", "c/0")), start=2
    ):
        hosts.perform(Reconfigure(job_id=JOB, generation=generation, target=target(*devices)))
        allow(folder, 4 * generation)
        hosts.wait(GangResized, JOB, generation)
        hosts.until(lambda: num_finished(folder) >= 4 * generation)  # noqa: B023
    allow(folder, 18)
    hosts.lose("a")
    lost = hosts.wait(WorkersLost, JOB)
    assert set(lost.devices) == {"a/0", "a/1"}
    allow(folder, 10**9)
    ended = hosts.wait(GangEnded, JOB)
    assert (ended.outcome, ended.steps) == (Outcome.SUCCEEDED, steps), ended.message
    story, expected = read_story(folder), run_alone(tmp_path / "alone", EPOCHS, *WORDS)
    assert story.losses == expected.losses
    assert story.digest == expected.digest
