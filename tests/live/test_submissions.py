"""A submission is one job, with an id of its own, and is answered once the journal has it."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick

from swell.live import submitter
from swell.live.clock import HeadClock
from swell.live.head_queue import HeadQueue
from swell.live.submitter import JobFiles, Submitter
from swell.model.errors import InvalidJob, KeyInUse, Unavailable, WrongPhase
from swell.model.event import CancelRequested, JobSubmitted, Outcome, Woke
from swell.model.job import Elasticity, EndCondition, FixedTerms, JobSpec, Origin, Phase
from swell.store.errors import StateError
from swell.store.journal import SqlJournal
from swell.wire.job_inputs import FILE, JobInputs, read_inputs

from .parts import Hands, new_platform, spec
from .test_platform import PATIENCE_S, as_if_killed, at_work, running, until


def keyed(key: str, content: str = "same") -> Origin:
    return Origin(key=key, fingerprint=content)


class Known(SqlJournal):
    """A journal's submissions, without a file."""

    def __init__(self) -> None:
        self.events: dict[str, JobSubmitted] = {}

    def submission(self, job_id: str) -> JobSubmitted | None:
        return self.events.get(job_id)

    def submission_of_key(self, key: str) -> JobSubmitted | None:
        return next((event for event in self.events.values() if event.origin.key == key), None)

    def knows(self, job_id: str) -> bool:
        return job_id in self.events


@given(data=st.data())
@settings(deadline=None, max_examples=fewer_if_quick(30))
def test_no_id_is_given_twice_and_no_key_makes_two_jobs(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With few possible ids, folders of strangers, and four threads."""
    folders, known = JobFiles(tmp_path_factory.mktemp("jobs")), Known()
    names = data.draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=8))
    keys = data.draw(st.lists(st.sampled_from(["", "k", "l"]), min_size=len(names), max_size=len(names)))
    strangers = data.draw(
        st.sets(st.sampled_from([f"{name}-{letter}" for name in "abcd" for letter in "xy"]))
    )
    for stranger in strangers:
        folders.reserve(stranger)
    inbox, has_ended = HeadQueue(HeadClock()), threading.Event()
    head = threading.Thread(target=_play_head, args=(inbox, known, has_ended))
    head.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(submitter, "ALPHABET", "xyzuvwst01234567")
            patch.setattr(submitter, "NUM_RANDOM", 1)
            one = Submitter(inbox, HeadClock().now_s, known, folders)
            with ThreadPoolExecutor(4) as pool:
                found = list(
                    pool.map(
                        lambda pair: one.submit(spec(pair[0]), keyed(pair[1])), zip(names, keys, strict=True)
                    )
                )
    finally:
        has_ended.set()
        inbox.put_event(Woke(at_s=0.0))
        head.join(PATIENCE_S)
    assert not strangers & {result.id for result in found}
    new = [result.id for result in found if result.is_new]
    assert len(set(new)) == len(new) == keys.count("") + len(set(keys) - {""})
    for key in set(keys) - {""}:
        assert len({result.id for result, mine in zip(found, keys, strict=True) if mine == key}) == 1


def _play_head(inbox: HeadQueue, known: Known, has_ended: threading.Event) -> None:
    while not has_ended.is_set():
        for event in inbox.take_batch(None):
            if isinstance(event, JobSubmitted):
                known.events[event.job_id] = event
        inbox.answer_requests([])


def test_the_same_key_is_the_same_job_for_ever(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as platform:
        first = platform.submit(spec(), keyed("k"))
        assert first.is_new
        again = platform.submit(spec(), keyed("k"))
        assert (again.id, again.is_new) == (first.id, False)
        with pytest.raises(KeyInUse, match=rf"'k' was used before, for job '{first.id}', with another"):
            platform.submit(spec("b"), keyed("k", "other"))
        assert len(platform.jobs()) == 1
        until(lambda: platform.job(first.id).phase is Phase.RUNNING)
        hands.deliver(hands.ended(first.id, Outcome.SUCCEEDED))
        until(lambda: platform.job(first.id).phase is Phase.SUCCEEDED)
    with running(tmp_path, hands) as platform:  # a fold has archived the job
        again = platform.submit(spec(), keyed("k"))
        assert (again.id, again.is_new) == (first.id, False)
        assert platform.submission(first.id).spec == spec()


def test_sessions_that_are_submitted_at_once_have_names_and_room_as_one_after_another(tmp_path: Path) -> None:
    def session(name: str) -> JobSpec:
        terms = FixedTerms(time_s=60.0, is_session=True)
        size = {"min_workers": 1, "max_workers": 1}
        return spec(name, elasticity=Elasticity.FIXED, end=EndCondition(), fixed=terms, **size)

    platform, journal = new_platform(tmp_path, Hands(), session_devices=1)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(platform.submit, session("dev"))
        until(lambda: any((tmp_path / "jobs").iterdir()))  # its head does not run: it is on its way
        with pytest.raises(InvalidJob, match=r"session 'dev' is open \(dev-"):
            platform.submit(session("dev"))
        with pytest.raises(InvalidJob, match="may have 1 device together, and yours have 1 already"):
            platform.submit(session("web"))
        with at_work(platform, journal):
            assert first.result(PATIENCE_S).is_new


def test_an_answer_to_a_request_means_that_it_is_in_the_journal(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as platform:
        jobs = [platform.submit(spec(name)).id for name in "abcdefgh"]
        for job_id in jobs:
            platform.cancel(job_id)
        left, _ = as_if_killed(tmp_path, hands)
    history = SqlJournal(left / "journal.db").history()
    events = [event for entry in history.entries for event in entry.batch]
    for kind in (JobSubmitted, CancelRequested):
        assert sorted(event.job_id for event in events if isinstance(event, kind)) == sorted(jobs)


def refuse(batch: object) -> None:
    """As a journal on a full disk does."""
    raise StateError("make room")


@pytest.mark.parametrize(
    "ask",
    [
        lambda platform, job: platform.submit(spec("b")),
        lambda platform, job: platform.cancel(job),
        lambda platform, job: platform.stop(),
    ],
)
def test_whoever_waits_when_the_head_dies_is_told(
    tmp_path: Path, ask: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, journal = new_platform(tmp_path, Hands())
    died: list[BaseException] = []

    def run() -> None:
        try:
            platform.run()
        except StateError as error:
            died.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    job_id = platform.submit(spec()).id
    monkeypatch.setattr(journal, "append", refuse)
    for _ in range(2):  # while it dies, and when it is dead
        with pytest.raises(Unavailable, match=r"takes no more requests.*swell up"):
            ask(platform, job_id)
    thread.join(PATIENCE_S)
    assert len(died) == 1
    journal.close()


# ------------------------------------------------------------ going on from a checkpoint
def checkpoint(folders: JobFiles, job_id: str, steps: int, content: bytes = b"state") -> Path:
    folder = folders.checkpoints(job_id)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{steps:012d}.{hashlib.sha256(content).hexdigest()}.pt"
    path.write_bytes(content)
    return path


def test_a_job_that_continues_another_has_its_newest_sound_checkpoint(tmp_path: Path) -> None:
    hands, folders = Hands(), JobFiles(tmp_path / "jobs")
    with running(tmp_path, hands) as platform:
        old = platform.submit(spec()).id
        sound = checkpoint(folders, old, 40)
        checkpoint(folders, old, 60).write_bytes(b"damaged")
        hands.is_obedient = False  # a gang of theirs would start at step 0
        result = platform.submit(spec(), Origin(continues=old))
        assert (result.continues, result.steps) == (old, 40)
        (given,) = folders.checkpoints(result.id).iterdir()
        assert given.read_bytes() == sound.read_bytes() and not given.samefile(sound), "each job has its own"
        assert platform.job(result.id).continues == old
        assert platform.job(result.id).steps == 40
        told = platform.stories(result.id)[0].text
        assert told == f"was submitted as best_effort, to continue {old} from step 40"
        hands.obey_again(result.id)


@pytest.mark.parametrize("is_folder", [True, False])
@pytest.mark.parametrize("plant", [os.symlink, lambda _, path: os.mkfifo(path)])
def test_no_job_goes_on_from_what_another_has_planted(
    tmp_path: Path, plant: Callable[[Path, Path], None], is_folder: bool
) -> None:
    folders = JobFiles(tmp_path)
    target = checkpoint(folders, "other", 40)
    planted = tmp_path / "mine" / target.relative_to(tmp_path / "other")
    (planted.parent.parent if is_folder else planted.parent).mkdir(parents=True)
    plant(*((target.parent, planted.parent) if is_folder else (target, planted)))
    with pytest.raises(WrongPhase, match="no sound checkpoint"):
        folders.hand_over("mine", "new")


def test_without_a_checkpoint_there_is_nothing_to_continue(tmp_path: Path) -> None:
    with running(tmp_path, Hands()) as platform:
        old = platform.submit(spec()).id
        before = JobFiles(tmp_path / "jobs").ids()
        with pytest.raises(WrongPhase, match=rf"no sound checkpoint .*swell retry {old}"):
            platform.submit(spec(), Origin(continues=old))
        assert JobFiles(tmp_path / "jobs").ids() == before
        restart = spec("r", elasticity=Elasticity.RESTART)
        assert platform.submit(restart, Origin(continues=old)).steps == 0


def test_a_job_that_is_submitted_again_has_the_inputs_of_the_earlier_one(tmp_path: Path) -> None:
    inputs, wanted = JobInputs(variables={"KEY": "s3cret"}), spec(secrets=("KEY",))
    with running(tmp_path, Hands()) as platform:
        old = platform.submit(wanted, inputs=inputs).id
        again = platform.submit(wanted, Origin(retries=old)).id
        assert read_inputs(tmp_path / "jobs" / again) == inputs
        before = JobFiles(tmp_path / "jobs").ids()
        (tmp_path / "jobs" / old / FILE).unlink()
        with pytest.raises(WrongPhase, match="submit it again"):
            platform.submit(wanted, Origin(retries=old))
        assert JobFiles(tmp_path / "jobs").ids() == before
        plain = platform.submit(spec("b"), Origin(retries=old)).id
        assert not (tmp_path / "jobs" / plain / FILE).exists()
