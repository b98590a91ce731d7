"""Trial runs: what is measured, what is kept, and what goes wrong."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.eventually import eventually
from tests.executors.agents import CALL, zygote_of
from tests.executors.listening import Listener
from tests.executors.puppets import hear_exited, hear_said, make_spec, make_stage, signals

from swell.executors.controller.profile_store import ProfileStore
from swell.executors.gang.host_messages import Effect, TellWorker
from swell.executors.gang.trial_controller import QueuedTrial, Trial
from swell.executors.gang.trial_plan import (
    ALONE,
    LEAST_GROUP_STEPS,
    MOST_GROUP_STEPS,
    GroupTimes,
    Part,
    PartKind,
)
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.link import LocalExecutor
from swell.model.command import ProfileJob
from swell.model.event import JobProfiled, Outcome, ProfilingFailed
from swell.script_facts import ScriptFinding
from swell.store.code_store import CodeStore
from swell.wire.messages import CALIBRATED_BYTES, Failed, GroupStepped, Hello, NotCompared, Profiled, Welcome

MakeProfile = Callable[..., ProfileJob]
TIMES = GroupTimes(allreduce_s={2: {1000: 0.1}})


@pytest.fixture
def make_profile(tmp_path: Path) -> MakeProfile:
    def make(script: str = "train.py", job_id: str = "digits-1", **changes: object) -> ProfileJob:
        path = tmp_path / script
        if not path.exists():
            path.write_text("# a training script\n")
        spec = make_spec(entry=str(path), workdir=str(tmp_path), **changes)
        return ProfileJob(job_id=job_id, spec=spec, sizes=(1, 2, 3, 4), device_kind="paced@400")

    return make


def test_a_profile_has_every_local_batch_and_every_size(
    executor: LocalExecutor, listener: Listener, make_profile: MakeProfile
) -> None:
    executor.perform(make_profile())
    profile = listener.wait(JobProfiled).profile
    assert profile.compute_s == {64: 0.064, 32: 0.032, 22: 0.022, 16: 0.016}
    assert set(profile.allreduce_s) == {1, 2, 3, 4}
    assert profile.allreduce_s[1] == 0.0
    assert 0.001 < profile.allreduce_s[2] < 0.01  # 4,000 bytes lie between the measured 1,000 and 100,000
    assert profile.start_s > 0
    assert set(profile.group_launch_s) == {2, 4}
    assert all(0.0 < launch_s < 30.0 for launch_s in profile.group_launch_s.values())
    assert profile.state_s_per_byte is not None and profile.state_s_per_byte > 0.0
    assert profile.save_s == 0.012, "as the worker has told it"


def test_what_was_measured_once_is_not_measured_again(
    executor: LocalExecutor, listener: Listener, make_profile: MakeProfile, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()

    def snapshot(text: str) -> str:
        (project / "train.py").write_text(text)
        return CodeStore(tmp_path / "state").take_snapshot(str(project), str(project / "train.py")).digest

    code = snapshot("# a training script\n")
    executor.perform(make_profile(code=code))
    listener.wait(JobProfiled)
    before = num_processes(tmp_path)
    executor.perform(make_profile(job_id="digits-2", code=code))
    assert listener.wait(JobProfiled, num=2).job_id == "digits-2"
    assert num_processes(tmp_path) == before == 2 + 4 + 1  # two calibrations and one trial
    executor.perform(make_profile(job_id="digits-3", code=snapshot("# another\n")))
    listener.wait(JobProfiled, num=3)
    assert num_processes(tmp_path) == before + 1  # the all-reduce is the same


def num_processes(tmp_path: Path) -> int:
    """Of trials, so far: the fake ones all print something."""
    return len(logs(tmp_path, "*/trial-*.log"))


def logs(tmp_path: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in (tmp_path / "state" / "jobs").glob(pattern))


def test_a_trial_writes_nothing_into_the_working_directory(
    executor: LocalExecutor, listener: Listener, make_profile: MakeProfile, tmp_path: Path
) -> None:
    executor.perform(make_profile())
    listener.wait(JobProfiled)
    calibrations = 2 + 4
    assert len(list(tmp_path.glob("token-*"))) == calibrations, "of the script's own run there is none"
    eventually(lambda: [path.name for path in (tmp_path / "state" / "scratch").glob("*/*")] == [])


def test_a_zygote_that_is_killed_while_it_imports_is_not_called_broken(
    tmp_path: Path, make_profile: MakeProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    monkeypatch.setenv("GATE", str(gate))
    preload = ("msgspec", "tests.executors.waits_at_gate")
    state = tmp_path / "state"
    options = AgentOptions(state_dir=state, preload=preload, call=CALL)
    executor = LocalExecutor(options, parse_devices("paced:8@400"))
    listener = Listener()
    executor.start(listener.put)
    try:
        command = make_profile()
        executor.perform(command)
        eventually(gate.with_name("waits").exists)
        zygote_of(state).kill()
        lost = listener.wait(ProfilingFailed)
        assert lost.outcome is Outcome.LOST
        told = f"the process that imports {', '.join(preload)} for all workers was killed by SIGKILL"
        assert told in lost.message
        gate.unlink()
        executor.perform(msgspec.structs.replace(command, attempt=1))
        listener.wait(JobProfiled)
    finally:
        executor.shut_down()


def test_a_script_that_cannot_be_tried_out_says_why(
    executor: LocalExecutor, listener: Listener, make_profile: MakeProfile
) -> None:
    executor.perform(make_profile("dies_on_import.py"))
    failed = listener.wait(ProfilingFailed)
    assert "no module named wonder" in failed.message
    executor.perform(make_profile("never_elastic.py", "job-2"))
    failed = listener.wait(ProfilingFailed, num=2)
    assert "with status 0 before it called swell.train.elastic" in failed.message
    executor.perform(make_profile(job_id="../escape"))
    failed = listener.wait(ProfilingFailed, num=3)
    assert "cannot name a folder" in failed.message


def test_a_trial_that_measured_nothing_has_failed() -> None:
    command = ProfileJob(job_id="digits-1", spec=make_spec(), sizes=(1,), device_kind="cpu")
    trial = Trial(make_stage(), QueuedTrial(command), 1, GroupTimes())
    trial.begin_part(ALONE, ["node0/0"], 0.0)
    said = Profiled(compute_s={}, grad_bytes=4, state_bytes=8, samples_per_epoch=512)
    hear_said(trial, 0, said, 1.0)
    (told,) = hear_exited(trial, 0, 0, "", 2.0)
    assert isinstance(told, ProfilingFailed)
    assert "left its loop before a step could be measured" in told.message


@pytest.mark.parametrize(("accepted", "tried"), [((), (64,)), (("part-of-batch",), (64, 32, 16))])
def test_a_script_that_fails_with_a_part_of_a_batch_is_measured_with_all_of_it(
    accepted: tuple[str, ...], tried: tuple[int, ...]
) -> None:
    job = make_stage(accept_differences=accepted)
    command = ProfileJob(job_id="digits-1", spec=job.spec, sizes=(1, 2, 4), device_kind="cpu")
    trial = Trial(job, QueuedTrial(command), 1, GroupTimes())
    trial.begin_part(ALONE, ["node0/0"], 0.0)
    assert welcome_of(hear_said(trial, 0, Hello(token="", worker=0, pid=1), 1.0)).local_batches == (
        64,
        32,
        16,
    )
    found = ScriptFinding(name="part-of-batch", text="take sizes from the batch")
    hear_said(trial, 0, NotCompared(finding=found), 2.0)
    hear_exited(trial, 0, 143, "", 3.0)
    again = welcome_of(hear_said(trial, 1, Hello(token="", worker=1, pid=2), 4.0))
    assert (again.local_batches, again.compares) == (tried, False)
    hear_said(trial, 1, Failed(message="Expected hidden size 32", steps=0), 5.0)
    (told,) = hear_exited(trial, 1, 1, "", 6.0)
    assert isinstance(told, ProfilingFailed)
    assert told.message == "take sizes from the batch\nExpected hidden size 32"


def times_of(*sizes: int) -> GroupTimes:
    usual = dict.fromkeys(CALIBRATED_BYTES, 0.001)
    return GroupTimes(allreduce_s=dict.fromkeys(sizes, usual), launch_s=dict.fromkeys(sizes, 0.5))


def group_of(size: int) -> Part:
    return Part(PartKind.GROUP, size)


def stepping_trial(hold: bool, num_devices: int = 8) -> Trial:
    """A trial of which all but steps of groups is measured, at second 2."""
    job = make_stage(hold_after_trial=hold)
    command = ProfileJob(job_id="digits-1", spec=job.spec, sizes=(1, 2, 4, 8), device_kind="cpu")
    trial = Trial(job, QueuedTrial(command), num_devices, times_of(2, 4, 8))
    compute_s = {64: 0.1, 32: 0.05, 16: 0.025, 8: 0.0125}
    said = Profiled(compute_s=compute_s, grad_bytes=4000, state_bytes=8, samples_per_epoch=512)
    trial.begin_part(ALONE, ["node0/0"], 0.0)
    hear_said(trial, 0, said, 1.0)
    told = hear_exited(trial, 0, 0, "", 2.0)
    assert bool(told) is trial.is_over
    return trial


def step_group(trial: Trial, first: int, step_s: float, at_s: float) -> list[Effect]:
    """Its next group makes steps of this length; what follows."""
    part = trial.next_part
    assert part is not None
    size = part.num_workers
    trial.begin_part(part, [f"node0/{place}" for place in range(size)], at_s)
    assert trial.part == group_of(size)
    welcome = welcome_of(hear_said(trial, first, Hello(token="", worker=first, pid=1), at_s))
    assert (welcome.mode, welcome.local_batches) == ("group", (64 // size,))
    assert LEAST_GROUP_STEPS <= welcome.group_steps <= MOST_GROUP_STEPS
    hear_said(trial, first, GroupStepped(step_s=step_s), at_s)
    effects = [hear_exited(trial, first + rank, 0, "", at_s) for rank in range(size)]
    return effects[-1]


def test_groups_make_steps_until_more_workers_are_no_faster() -> None:
    """ElasticFlow, sections 5 and 6.6: a pre-run on several numbers of devices that ends at the peak."""
    trial = stepping_trial(hold=True)
    assert trial.next_part == group_of(2)
    assert step_group(trial, 1, 0.06, 3.0) == [] and trial.next_part == group_of(4)
    [told] = step_group(trial, 3, 0.07, 4.0)
    assert isinstance(told, JobProfiled)
    assert told.profile.group_step_s == {2: 0.06, 4: 0.07}, "eight are not tried"


def test_a_group_whose_devices_are_wanted_gives_way_and_the_trial_is_answered() -> None:
    trial = stepping_trial(hold=True)
    step_group(trial, 1, 0.06, 3.0)
    trial.begin_part(group_of(4), [f"node0/{place}" for place in range(4)], 4.0)
    kills = trial.leave_out(group_of(4), "its devices were wanted", 5.0)
    assert kills == signals(signal.SIGKILL, 3, 4, 5, 6, run=trial.run)
    ends = [hear_exited(trial, worker, -9, "", 5.0) for worker in range(3, 7)]
    [told] = ends[-1]
    assert isinstance(told, JobProfiled)
    assert told.profile.group_step_s == {2: 0.06}


def test_sums_of_large_gradients_take_in_proportion_to_their_bytes() -> None:
    """Saxena, section III-B: t_comm(p, k) grows with the number of parameters."""
    job = make_stage()
    command = ProfileJob(job_id="digits-1", spec=job.spec, sizes=(1, 2), device_kind="cpu")
    times = GroupTimes(allreduce_s={2: {1000: 0.001, 30_000_000: 0.03}})
    trial = Trial(job, QueuedTrial(command), 2, times)
    said = Profiled(compute_s={64: 0.1}, grad_bytes=300_000_000, state_bytes=8, samples_per_epoch=512)
    trial.begin_part(ALONE, ["node0/0"], 0.0)
    hear_said(trial, 0, said, 1.0)
    [told] = hear_exited(trial, 0, 0, "", 2.0)
    assert isinstance(told, JobProfiled)
    profile = told.profile
    assert profile.allreduce_s[2] == pytest.approx(0.3) and profile.allreduce_sizes == ()


def welcome_of(effects: Sequence[Effect]) -> Welcome:
    [sent] = [effect.message for effect in effects if isinstance(effect, TellWorker)]
    assert isinstance(sent, Welcome)
    return sent


def test_what_cannot_be_kept_is_measured_again_next_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "profiles"
    in_the_way.write_text("no folder can be made here")
    cache = ProfileStore(in_the_way)
    cache.times("cpu").allreduce_s.update(TIMES.allreduce_s)
    cache.keep_times("cpu")
    assert "cannot keep what was measured" in caplog.text
    in_the_way.unlink()
    assert ProfileStore(in_the_way).times("cpu") == GroupTimes()
    cache.keep_times("cpu")
    assert ProfileStore(in_the_way).times("cpu") == TIMES
