"""Real workers that run out of memory, in their trial run and in training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.eventually import eventually
from tests.executors.listening import Listener
from tests.executors.puppets import devices, make_spec, target

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.link import LocalExecutor
from swell.model.command import LaunchGang, ProfileJob, Reconfigure
from swell.model.event import (
    GangEnded,
    GangResized,
    GangStarted,
    JobProfiled,
    JobWarned,
    Outcome,
    ProfilingFailed,
    WorkersLost,
)
from swell.model.job import EndCondition, JobSpec

pytest.importorskip("torch")
pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("narrow.py")
#: 64 samples take a worker 0.01 s.
DEVICES, KIND = "paced:4@6400", "paced@6400"
BATCH = 64


class Platform:
    """One agent for all tests of this file; each has a job of its own, and a listener that begins empty."""

    def __init__(self, state: Path) -> None:
        self.executor = LocalExecutor(AgentOptions(state_dir=state), parse_devices(DEVICES))
        self.listener = Listener()
        self.executor.start(lambda event: self.listener.put(event))

    def profile(self, job: str, spec: JobSpec, sizes: tuple[int, ...] = (1, 2, 4)) -> None:
        self.executor.perform(ProfileJob(job_id=job, spec=spec, sizes=sizes, device_kind=KIND))

    def launch(self, job: str, spec: JobSpec, generation: int, size: int, bound: int | None = None) -> None:
        self.executor.perform(
            LaunchGang(
                job_id=job,
                generation=generation,
                target=target(*range(size)),
                spec=spec,
                total_steps=spec.end.steps,
                max_local_batch=bound,
            )
        )

    def resize(self, job: str, generation: int, *numbers: int) -> None:
        self.executor.perform(Reconfigure(job_id=job, generation=generation, target=target(*numbers)))

    def warnings(self) -> list[str]:
        return [event.message for event in self.listener.events if isinstance(event, JobWarned)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    platform = Platform(tmp_path_factory.mktemp("memory") / "state")
    yield platform
    platform.executor.shut_down()


@pytest.fixture
def platform(shared: Platform) -> Platform:
    shared.listener = Listener()
    return shared


def job(folder: Path, room: int, *args: str, steps: int = 200, **changes: object) -> JobSpec:
    set_room(folder, room)
    (folder / "passes").touch()
    fields = {"global_batch": BATCH, "end": EndCondition(steps=steps)} | changes
    return make_spec(entry=str(SCRIPT), workdir=str(folder), args=args, **fields)


def set_room(folder: Path, room: int, name: str = "room") -> None:
    """Readers see the old number or the new."""
    draft = folder / f".{name}"
    draft.write_text(str(room))
    draft.replace(folder / name)


def passes(folder: Path) -> list[tuple[int, int]]:
    """(steps before it, samples) of each pass that fitted."""
    lines = (folder / "passes").read_text().splitlines(keepends=True)
    return [(int(steps), int(samples)) for steps, samples in map(str.split, lines) if lines]


def samples_by_step(folder: Path) -> dict[int, int]:
    found: dict[int, int] = {}
    for steps, samples in passes(folder):
        found[steps] = found.get(steps, 0) + samples
    return found


@pytest.fixture(scope="module")
def weights(shared: Platform, tmp_path_factory: pytest.TempPathFactory) -> list[np.ndarray]:
    """Of one worker that has room for all."""
    folder = tmp_path_factory.mktemp("roomy")
    shared.listener = Listener()
    shared.launch("roomy", job(folder, BATCH), 1, 1)
    ended = shared.listener.wait(GangEnded)
    assert ended.outcome is Outcome.SUCCEEDED, ended.message
    assert {samples for _, samples in passes(folder)} == {BATCH}
    return read_weights(folder)


def read_weights(folder: Path) -> list[np.ndarray]:
    return [np.array(each) for each in json.loads((folder / "weights.json").read_text())]


def check_learned(folder: Path, weights: list[np.ndarray]) -> None:
    for found, wanted in zip(read_weights(folder), weights, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-7)


def test_a_trial_finds_what_fits_and_a_gang_keeps_to_it_at_every_size(
    weights: list[np.ndarray], platform: Platform, tmp_path: Path
) -> None:
    spec = job(tmp_path, 20)
    platform.profile("fits", spec)
    profile = platform.listener.wait(JobProfiled).profile
    assert profile.max_local_batch == 16
    assert sorted(profile.compute_s) == [16, 32, 64]  # what does not fit was measured in passes
    assert all(samples <= 16 for _, samples in passes(tmp_path))
    (tmp_path / "passes").write_text("")
    platform.launch("fits", spec, 1, 2, profile.max_local_batch)
    first = platform.listener.wait(GangStarted, 1)
    platform.resize("fits", 2, 0)
    assert platform.listener.wait(GangResized, 2).pids == first.pids[:1]
    ended = platform.listener.wait(GangEnded)
    assert (ended.outcome, ended.steps) == (Outcome.SUCCEEDED, 200), ended.message
    assert {samples for _, samples in passes(tmp_path)} == {16}
    assert samples_by_step(tmp_path) == dict.fromkeys(range(200), BATCH)
    check_learned(tmp_path, weights)
    assert not platform.warnings()


def test_a_worker_alone_that_runs_out_comes_again_from_where_it_was(
    weights: list[np.ndarray], platform: Platform, tmp_path: Path
) -> None:
    spec = job(tmp_path, BATCH)
    platform.launch("alone", spec, 1, 1)
    eventually(lambda: len(passes(tmp_path)) > 10)
    set_room(tmp_path, 20)
    lost = platform.listener.wait(GangEnded, 1)
    assert (lost.outcome, lost.steps) == (Outcome.LOST, len(passes(tmp_path))), lost.message
    assert lost.message == platform.warnings()[0]
    assert lost.message.endswith(
        "ran out of memory with 64 samples at once (torch.OutOfMemoryError: tried to allocate 64 of 20); "
        "from now on at most 32 go through the model together, and a worker does its part of a step in "
        "several passes"
    )
    platform.launch("alone", spec, 2, 1)
    assert platform.listener.wait(GangEnded, 2).steps == lost.steps
    platform.launch("alone", spec, 3, 1)
    ended = platform.listener.wait(GangEnded, 3)
    assert (ended.outcome, ended.steps) == (Outcome.SUCCEEDED, 200), ended.message
    assert samples_by_step(tmp_path) == dict.fromkeys(range(200), BATCH), "no step was lost or done twice"
    check_learned(tmp_path, weights)
    assert len(platform.warnings()) == 2


def test_others_go_on_where_one_ran_out_and_all_take_smaller_passes(
    weights: list[np.ndarray], platform: Platform, tmp_path: Path
) -> None:
    spec = job(tmp_path, BATCH)
    platform.launch("one-of-two", spec, 1, 2)
    first = platform.listener.wait(GangStarted, 1)
    set_room(tmp_path, 20, "room-1")
    lost = platform.listener.wait(WorkersLost)
    assert lost.devices == devices(1)
    assert "with 32 samples at once" in lost.message
    assert platform.warnings() == [lost.message]
    platform.resize("one-of-two", 2, 0)
    platform.listener.wait(GangResized, 2)
    platform.resize("one-of-two", 3, 0, 1)
    grown = platform.listener.wait(GangResized, 3)
    assert grown.pids[0] == first.pids[0]
    ended = platform.listener.wait(GangEnded)
    assert (ended.outcome, ended.steps) == (Outcome.SUCCEEDED, 200), ended.message
    assert {samples for step, samples in passes(tmp_path) if step > grown.steps} == {16}
    check_learned(tmp_path, weights)


def test_one_sample_that_does_not_fit_is_told(platform: Platform, tmp_path: Path) -> None:
    platform.profile("none-fits", job(tmp_path, 0, global_batch=4))
    failed = platform.listener.wait(ProfilingFailed)
    assert failed.message.startswith("one sample does not fit into the device's memory")
    assert "tried to allocate 1 of 0" in failed.message
    assert not platform.warnings()


def test_a_shard_is_never_cut(platform: Platform, tmp_path: Path) -> None:
    platform.profile("shards", job(tmp_path, 20, "shards=2"))
    failed = platform.listener.wait(ProfilingFailed)
    assert failed.message.startswith("a shard of 32 samples does not fit into the device's memory")
    assert "raise elastic()'s shards=2, to 4 for instance" in failed.message


def test_a_profile_has_the_number_of_shards_which_the_job_must_be_able_to_live_with(
    platform: Platform, tmp_path: Path
) -> None:
    platform.profile("two", job(tmp_path, BATCH, "shards=2"))
    profile = platform.listener.wait(JobProfiled).profile
    assert (profile.num_shards, profile.max_local_batch) == (2, None)
    platform.profile("too-few", job(tmp_path, BATCH, "shards=2", min_workers=3), sizes=(4,))
    failed = platform.listener.wait(ProfilingFailed)
    assert "2 shards, so it can use 2 workers at most, and the job is to have 4 or more" in failed.message


def test_memory_that_runs_out_between_two_steps_is_the_script_s_own_affair(
    platform: Platform, tmp_path: Path
) -> None:
    platform.launch("evaluates", job(tmp_path, BATCH, "evaluate=1"), 1, 1)
    ended = platform.listener.wait(GangEnded)
    assert (ended.outcome, platform.warnings()) == (Outcome.FAILED, [])
    assert ended.message.rstrip().endswith("tried to allocate 512 of 64")
