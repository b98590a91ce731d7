"""Real workers on hosts that have the storage in common with the machine where their job was submitted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.executors.agents import CALL
from tests.executors.forked_zygotes import fork_zygotes
from tests.executors.joined_engine import JoinedEngine
from tests.executors.puppets import JOB, make_spec

from swell.api.logs import LogOwner, read_chunks
from swell.executors.gang.job_context import GangSettings
from swell.executors.local.agent.options import DEFAULT_CALL, DEFAULT_PRELOAD
from swell.model.command import LaunchGang, StopGang
from swell.model.event import (
    GangEnded,
    GangStarted,
    HostRuledOut,
    Outcome,
)
from swell.model.job import JobSpec
from swell.model.target import Configuration, Target
from swell.store.code_store import CodeStore
from swell.wire.checkpoint_files import checkpoints_in, steps_in

NewEngine = Callable[..., JoinedEngine]
TINY = Path(__file__).with_name("train_tiny.py")


@pytest.fixture
def new_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewEngine]:
    fork_zygotes(monkeypatch)
    made = []

    def make(
        call: str = CALL, preload: tuple[str, ...] = ("msgspec",), interval_s: float = 30.0
    ) -> JoinedEngine:
        gang_settings = GangSettings(checkpoint_interval_s=interval_s)
        made.append(JoinedEngine(tmp_path, call, preload, gang_settings))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def launch(spec: JobSpec, *devices: str, generation: int = 1, total_steps: int = 1000) -> LaunchGang:
    return LaunchGang(
        job_id=JOB,
        generation=generation,
        target=Target(devices=devices, configuration=Configuration()),
        spec=spec,
        total_steps=total_steps,
    )


def submitted(engine: JoinedEngine, project: Path, script: str) -> JobSpec:
    """The job; its project is on no machine any more."""
    head = engine.state_dir("head")
    (head / "jobs" / JOB).mkdir(parents=True)
    digest = CodeStore(head).take_snapshot(str(project), str(project / script)).digest
    shutil.rmtree(project)
    return make_spec(entry=str(project / script), workdir=str(project), code=digest, args=("0.01",))


def held(engine: JoinedEngine) -> list[Path]:
    """Checkpoints of the job, the newest first."""
    return [path for _, path in checkpoints_in(engine.job_folder(JOB) / "checkpoints")]


def story(engine: JoinedEngine, whose: LogOwner = LogOwner.LEADER) -> str:
    """All that `swell logs` would print."""
    folder, text = engine.job_folder(JOB), ""
    offsets: dict[int | str, int] = {}
    while chunks := [chunk for chunk in read_chunks(folder, offsets, whose=whose) if chunk.text]:
        for chunk in chunks:
            text += chunk.text
            offsets[chunk.worker] = chunk.next_offset
    return text


@pytest.mark.slow
def test_a_job_whose_only_host_is_lost_goes_on_elsewhere_from_its_checkpoint(
    new_engine: NewEngine, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    project = tmp_path / "project"
    project.mkdir()
    text = TINY.read_text().replace(
        "run = train", "import helper\nprint(helper.WORD, flush=True)\nrun = train"
    )
    (project / "train.py").write_text(text)
    (project / "helper.py").write_text("WORD = 'of the snapshot'\n")
    engine = new_engine(DEFAULT_CALL, DEFAULT_PRELOAD, interval_s=0.5)
    spec = submitted(engine, project, "train.py")
    for name in ("b", "c"):
        engine.join(name)
    engine.perform(launch(spec, "b/0", "b/1", total_steps=100_000))
    engine.wait(GangStarted)
    engine.wait_until(lambda: len(held(engine)) == 2)
    newest = steps_in(held(engine)[0])
    engine.lose("b")
    ended = engine.wait(GangEnded)
    assert ended.outcome is Outcome.LOST
    engine.perform(launch(spec, "c/0", generation=2, total_steps=100_000))
    again = engine.wait(GangStarted, 2)
    assert again.steps >= newest > 0
    numbers = {chunk.worker for chunk in read_chunks(engine.job_folder(JOB), {})}
    assert numbers == {0, 1, 2}
    engine.perform(StopGang(job_id=JOB, generation=2))
    assert engine.wait(GangEnded, 2).outcome is Outcome.STOPPED
    assert story(engine).splitlines().count("of the snapshot") == 2, "of the two that were rank 0"


def test_output_of_a_joined_host_is_the_jobs_and_ends_with_its_last_words(
    new_engine: NewEngine, tmp_path: Path
) -> None:
    engine = new_engine()
    (engine.job_folder(JOB)).mkdir(parents=True)
    spec = make_spec(workdir=str(tmp_path), entry=__file__, args=("raise=3",))
    engine.join("b")
    engine.perform(launch(spec, "b/0", "b/1"))
    ended = engine.wait(GangEnded)
    assert ended.outcome is Outcome.FAILED
    assert story(engine, LogOwner.WORKERS).count("raised by the script") >= 1


def test_a_host_that_lacks_what_the_job_needs_does_not_start_it(
    new_engine: NewEngine, tmp_path: Path
) -> None:
    engine = new_engine()
    spec = make_spec(workdir=str(tmp_path), entry=__file__, needs=(str(tmp_path / "data"),))
    for name in ("head", "b"):
        engine.join(name)
    for generation, (name, shown) in enumerate((("head", "this machine"), ("b", "host 'b'")), 1):
        engine.perform(launch(spec, f"{name}/0", generation=generation))
        ended = engine.wait(GangEnded, generation)
        assert ended.outcome is Outcome.LOST
        assert f"{tmp_path / 'data'} is not on {shown}, and the job needs it" in ended.message
        ruled_out = engine.wait(HostRuledOut, generation)
        assert ruled_out.devices[0] == f"{name}/0" and ruled_out.message in ended.message
    (tmp_path / "data").touch()
    engine.perform(launch(spec, "b/0", generation=3))
    engine.wait(GangStarted)
