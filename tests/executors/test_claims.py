"""What a host can prove to a controller that is new."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.puppets import make_spec

from swell.executors.gang.records import write_record
from swell.executors.gang.replies import Replies
from swell.executors.gang.restart_gang import RestartGang
from swell.executors.gang.step_tally import StepTally
from swell.executors.hosts import messages as h
from swell.executors.hosts.file_messages import FilesKept, JobCheckpoint, WorkerLog
from swell.executors.hosts.kept_runs import KeptRuns
from swell.executors.remote.claims import Claimant, Claims
from swell.model.coding import decoder, encode
from swell.model.event import GangEnded, Outcome

JOB, HOST = "job-1", Claimant("n1", "machine")
TO_HOST: msgspec.json.Decoder[h.ToHost] = decoder(h.ToHost)
FROM_HOST: msgspec.json.Decoder[h.FromHost] = decoder(h.FromHost)


def record(end: GangEnded | None = None, steps: int = 7) -> h.RunSnapshot:
    """Numbers as code writes them: a share that is a whole one, steps of a loss that is none."""
    replies = Replies(generation=3, asked=("LaunchGang", 3), end=end, warnings={"a": "b"})
    gang = RestartGang(
        replies=replies,
        running=3,
        wanted_slots=(("n1/0",),),
        slots_by_worker={0: ("n1/0",)},
        num_starts=1,
        next_worker=1,
        tally=StepTally(steps=steps, is_new=False),
    )
    return h.RunSnapshot(
        launch=3,
        version=1,
        hosts=("n1",),
        workers={0: "n1"},
        total_steps=None,
        gang=write_record(gang),
    )


def kept_by(claims: Claims, end: GangEnded | None = None) -> list[h.FromHost]:
    """What an honest host says to the next controller, as it arrives there."""
    kept = KeptRuns()
    told: list[h.ToHost] = [
        h.OpenRun(run=JOB, job_id=JOB, spec=make_spec(), share=1),
        h.KeepRecord(run=JOB, record=record(end)),
        *([h.CloseRun(run=JOB)] if end else []),
    ]
    for message in told:
        kept.note_told(TO_HOST.decode(encode(claims.sealed(HOST, message))))
        kept.note_answered(h.RunOpened(run=JOB, first_worker=0, checkpoint_dir="/c"))
    return [FROM_HOST.decode(encode(message)) for message in kept.kept()]


END = GangEnded(at_s=5, job_id=JOB, generation=3, outcome=Outcome.LOST, steps=7)


def test_what_a_controller_has_told_the_next_one_believes(tmp_path: Path) -> None:
    (run,) = kept_by(Claims(tmp_path))
    (end,) = kept_by(Claims(tmp_path), END)
    assert isinstance(run, h.RunKept) and run.record is not None
    assert isinstance(end, h.EndKept) and end.end == END
    for kept in (run, end):
        assert Claims(tmp_path).why_not(HOST, kept) == ""
        for other in (Claimant("n2", "machine"), Claimant("n1", "another")):
            assert "no earlier agent told it that" in Claims(tmp_path).why_not(other, kept)


LIES: st.SearchStrategy[dict[str, object]] = st.one_of(
    st.fixed_dictionaries({"outcome": st.sampled_from([o for o in Outcome if o is not END.outcome])}),
    st.fixed_dictionaries({"steps": st.integers(0, 99).filter(lambda steps: steps != END.steps)}),
    st.fixed_dictionaries({"job_id": st.text(max_size=5)}),
    st.fixed_dictionaries({"generation": st.integers(0, 99).filter(lambda number: number != END.generation)}),
)


@given(LIES)
def test_no_end_is_believed_that_was_changed(
    tmp_path_factory: pytest.TempPathFactory, lie: dict[str, object]
) -> None:
    claims = Claims(tmp_path_factory.getbasetemp())
    (kept,) = kept_by(claims, END)
    assert isinstance(kept, h.EndKept)
    false = msgspec.structs.replace(kept, end=msgspec.structs.replace(kept.end, **lie))
    assert claims.why_not(HOST, false)


def test_no_run_is_believed_that_was_changed(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    (kept,) = kept_by(claims)
    assert isinstance(kept, h.RunKept)
    replace = msgspec.structs.replace
    lies = [
        replace(kept, record=record(steps=10**6)),
        replace(kept, record=record(END), seal=kept.order.seal),
        replace(kept, seal=""),
        replace(kept, order=replace(kept.order, job_id="victim")),
        replace(kept, order=replace(kept.order, run="victim", job_id="victim")),
        replace(kept, order=replace(kept.order, spec=make_spec(env=(("X", "y"),)))),
    ]
    assert all(claims.why_not(HOST, lie) for lie in lies)


def test_files_are_believed_of_jobs_that_the_host_had_and_of_no_others(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    kept_by(claims)
    said = FilesKept(
        checkpoints=tuple(JobCheckpoint(job_id=job, name="c") for job in (JOB, "victim", "../job-1")),
        logs=tuple(WorkerLog(job_id=job, worker=0, is_trial=False) for job in ("victim", JOB)),
    )
    true = FilesKept(checkpoints=said.checkpoints[:1], logs=said.logs[1:])
    assert Claims(tmp_path).true_part(HOST, said) == true
    assert Claims(tmp_path).true_part(Claimant("n2", "machine"), said) == FilesKept(checkpoints=(), logs=())


def test_the_key_is_its_owners_own(tmp_path: Path) -> None:
    Claims(tmp_path)
    assert (tmp_path / "seal-key").stat().st_mode & 0o777 == 0o600
