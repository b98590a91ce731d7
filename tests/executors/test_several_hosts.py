"""One gang over several real hosts: trains, grows, shrinks, loses a host, and learns what it would on one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.executors.forked_zygotes import fork_zygotes
from tests.executors.joined_engine import JoinedEngine
from tests.executors.puppets import make_spec
from tests.train.wild import BATCH, SAME, STEPS_PER_EPOCH, read_story, run_alone

from swell.executors.gang import host_messages as h
from swell.executors.gang.job_context import DeviceBinding
from swell.model.command import LaunchGang, ProfileJob, Reconfigure, StopGang
from swell.model.event import GangEnded, GangResized, GangStarted, JobProfiled, Outcome, WorkersLost
from swell.model.job import Elasticity, EndCondition, JobSpec
from swell.model.target import Target
from swell.wire import messages as m

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

JOB = "job-1"
EPOCHS = 12
WORDS = ("deterministic", "norm", "noise")
SCRIPTS = SAME.parent


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JoinedEngine]:
    """For all tests of this file."""
    with pytest.MonkeyPatch.context() as patch:
        fork_zygotes(patch)
        cpu = DeviceBinding(torch_device="cpu", kind="cpu")
        made = JoinedEngine(tmp_path_factory.mktemp("hosts"), binding=cpu)
        for number, name in enumerate("abc"):
            made.join(name, address=f"127.0.0.{2 + number}")
        yield made
        made.close()


def target(*devices: str) -> Target:
    return Target(devices=devices)


def launch(job: str, spec: JobSpec, *devices: str) -> LaunchGang:
    steps = spec.end.steps
    return LaunchGang(job_id=job, generation=1, target=target(*devices), spec=spec, total_steps=steps)


class Pace:
    """Lets the script `same.py` do so many steps and no more, however long others take to start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._num_allowed = 0

    def allow(self, num_steps: int) -> None:
        self._num_allowed = num_steps
        draft = self._folder / "draft"
        draft.write_text(str(num_steps))
        draft.rename(self._folder / "allowed")

    def goes_on_until(self, is_so: Callable[[], bool]) -> bool:
        """Whether it is so; if not, one more step may be done as soon as all others are."""
        diaries = [path.read_text() for path in self._folder.glob("diary-*")]
        if f'"finished": {self._num_allowed - 1},' in "".join(diaries):
            self.allow(self._num_allowed + 1)
        return is_so()


def has_ready(hosts: JoinedEngine, num: int) -> bool:
    """Whether so many workers of the job have been ready to join."""
    ready = [
        told
        for heard in hosts.said.values()
        for told in heard
        if isinstance(told, h.WorkerSaid) and told.run == JOB and isinstance(told.message, m.Ready)
    ]
    return len(ready) >= num


def has_resized(hosts: JoinedEngine, generation: int) -> bool:
    resized = [event for event in hosts.line.events if isinstance(event, GangResized) and event.job_id == JOB]
    return any(event.generation == generation for event in resized)


def said(hosts: JoinedEngine, kind: type[m.Message]) -> list[m.Message]:
    return [
        told.message
        for heard in hosts.said.values()
        for told in heard
        if isinstance(told, h.WorkerSaid) and isinstance(told.message, kind)
    ]


def test_a_trial_run_measures_an_all_reduce_over_two_hosts(hosts: JoinedEngine, tmp_path: Path) -> None:
    from swell.measure import training  # it imports torch

    spec = make_spec(entry=training.__file__, workdir=str(tmp_path), global_batch=training.GLOBAL_BATCH)
    hosts.perform(ProfileJob(job_id="tried", spec=spec, sizes=(1, 2), device_kind="cpu"))
    profile = hosts.wait(JobProfiled, job_id="tried").profile
    assert 2 in profile.crossing_s and profile.crossing_s[2].keys() == {2}
    assert profile.allreduce_s[2] > 0.0
    hosts.wait_until(lambda: not any(end.host.is_needed for end in hosts.hosts.values()))


def test_a_script_finds_what_torchrun_tells_of_several_hosts(hosts: JoinedEngine, tmp_path: Path) -> None:
    spec = make_spec(
        entry=str(SCRIPTS / "names.py"), workdir=str(tmp_path), global_batch=6, end=EndCondition(steps=100)
    )
    hosts.perform(launch("names", spec, "a/0", "b/0", "b/1"))
    hosts.wait_until(lambda: hosts.controller.has_workers("a") and hosts.controller.has_workers("b"))
    assert hosts.wait(GangEnded, job_id="names").outcome is Outcome.SUCCEEDED
    hosts.wait_until(lambda: not hosts.controller.has_workers("a"))
    logs = sorted(hosts.job_folder("names").glob("worker-*.log"))
    told = {path.name: path.read_text().splitlines()[-1].split() for path in logs}
    places = [line[:5] for line in told.values()]
    assert places == [
        ["0", "0", "3", "1", "0"],
        ["1", "0", "3", "2", "1"],
        ["2", "1", "3", "2", "1"],
    ], told
    assert {line[5] for line in told.values()} == {"127.0.0.2"}, "the host of rank 0"


def test_scripts_that_are_stopped_and_started_stop_in_the_same_step(
    hosts: JoinedEngine, tmp_path: Path
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
    hosts.wait(GangStarted, job_id=job)
    hosts.wait_until(lambda: any(isinstance(s, m.Stepped) and s.steps > 2 for s in said(hosts, m.Stepped)))
    hosts.perform(Reconfigure(job_id=job, generation=2, target=target("b/0", "c/0")))
    hosts.wait(GangResized, job_id=job, generation=2)
    (last,) = [each for each in said(hosts, m.Stepped) if isinstance(each, m.Stepped) and each.is_last]
    logs = hosts.job_folder(job).glob("worker-[012].log")
    ends = [path.read_text().splitlines()[-1] for path in logs]
    assert ends == [str(last.steps)] * 3
    hosts.perform(StopGang(job_id=job, generation=2))
    hosts.wait(GangEnded, job_id=job)


def test_a_gang_over_three_hosts_learns_what_one_worker_does(hosts: JoinedEngine, tmp_path: Path) -> None:
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
    pace = Pace(folder)
    pace.allow(2)
    hosts.perform(launch(JOB, spec, "a/0", "b/0"))
    hosts.wait(GangStarted, job_id=JOB)
    sizes = [("a/0", "b/0", "b/1", "c/0", "c/1"), ("b/1", "c/0", "c/1"), ("a/0", "a/1", "b/1", "c/0")]
    num_ready = [5, 5, 7]  # all that were ever started
    for generation, (devices, num) in enumerate(zip(sizes, num_ready, strict=True), start=2):
        hosts.perform(Reconfigure(job_id=JOB, generation=generation, target=target(*devices)))
        hosts.wait_until(partial(has_ready, hosts, num))
        hosts.wait_until(partial(pace.goes_on_until, partial(has_resized, hosts, generation)))
    hosts.lose("a")
    lost = hosts.wait(WorkersLost, job_id=JOB)
    assert set(lost.devices) == {"a/0", "a/1"}
    pace.allow(10**9)
    ended = hosts.wait(GangEnded, job_id=JOB)
    assert (ended.outcome, ended.steps) == (Outcome.SUCCEEDED, steps), ended.message
    story, expected = read_story(folder), run_alone(tmp_path / "alone", EPOCHS, *WORDS)
    assert story.losses == expected.losses
    assert story.digest == expected.digest
