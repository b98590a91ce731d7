"""Files between machines: whole or not at all, whatever the order, whatever breaks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.executors.file_world import FileWorld, held, leftovers, write_checkpoint
from tests.executors.puppets import make_spec
from tests.full_disk import fill, mounted

from swell.executors.hosts import messages as h
from swell.executors.hosts.file_messages import PART_BYTES, CheckpointsHeld, FilePart, JobCheckpoint
from swell.executors.local.files import incoming, outgoing
from swell.executors.local.files.host_checkpoints import COPY
from swell.executors.local.logs.files import job_folder
from swell.model.event import Outcome
from swell.wire.checkpoint_files import order_in

PART = 16
JOB = "job-1"
CONTENTS = st.binary(max_size=5 * PART)


@contextmanager
def world(names: str = "ab", part_bytes: int = PART) -> Iterator[FileWorld]:
    """With parts so small that files have several."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for module in (incoming, outgoing):
            patch.setattr(module, "PART_BYTES", part_bytes)
        made = FileWorld(Path(folder), names)
        made.submit(JOB)
        yield made


def order(job_id: str = JOB, is_trial: bool = False, is_joining: bool = False, **changes: Any) -> h.OpenRun:
    """Of a script that is on every host."""
    spec = make_spec(**({"entry": __file__, "workdir": str(Path(__file__).parent)} | changes))
    run = f"trial:{job_id}" if is_trial else job_id
    return h.OpenRun(run=run, job_id=job_id, spec=spec, is_trial=is_trial, is_joining=is_joining)


# ---------------------------------------------------------------- laws
@settings(deadline=None)
@given(st.lists(CONTENTS, min_size=1, max_size=6, unique=True), st.data())
def test_the_newest_checkpoint_arrives_and_the_one_before_it_stays_until_then(
    contents: list[bytes], data: st.DataObject
) -> None:
    """A host saves while others of its are on their way, and pushes out what is being read."""
    choose = lambda num: data.draw(st.integers(0, num - 1))  # noqa: E731
    with world("a") as made:
        names, seen = [], 0
        for steps, content in enumerate(contents, 1):
            names.append(made.save("a", JOB, steps, content))
            for _ in range(data.draw(st.integers(0, 30))):
                made.turns.take(choose)
                newest = [names.index(name) for name in held(made.head_dir, JOB)]
                assert max(newest, default=-1) >= seen - 1
                seen = max([seen, *(number + 1 for number in newest)])
        made.settle(choose)
        assert held(made.head_dir, JOB)[0] == names[-1]
        assert len(held(made.head_dir, JOB)) <= 2
        assert not leftovers(made.head_dir)
        assert not made.hosts["a"].warnings


@settings(deadline=None)
@given(CONTENTS, CONTENTS, st.integers(0, 60), st.data())
def test_a_job_whose_host_is_lost_goes_on_from_what_was_whole(
    first: bytes, second: bytes, num_turns: int, data: st.DataObject
) -> None:
    """The host that opens it next has the newest that had come, and waits for nothing."""
    choose = lambda num: data.draw(st.integers(0, num - 1))  # noqa: E731
    with world() as made:
        one = made.save("a", JOB, 1, first)
        made.settle(choose)
        two = made.save("a", JOB, 2, second)
        made.turns.take(choose)  # the offer comes before anyone hears that the worker has left
        answer = made.open("b", order())
        for _ in range(num_turns):
            made.turns.take(choose)
        made.lose("a")
        made.settle(choose)
        assert answer.place is not None
        newest = held(made.head_dir, JOB)[0]
        assert newest in (one, two)
        assert held(made.hosts["b"].state_dir, JOB)[:1] == [newest]
        assert not leftovers(made.head_dir) and not leftovers(made.hosts["b"].state_dir)


@settings(deadline=None)
@given(CONTENTS, CONTENTS, st.integers(0, 20), st.booleans(), st.data())
def test_a_host_that_comes_back_with_a_newer_checkpoint_brings_it(
    first: bytes, second: bytes, num_turns: int, is_told: bool, data: st.DataObject
) -> None:
    """Its lease was over before that one was copied: the job goes on elsewhere from it all the same."""
    choose = lambda num: data.draw(st.integers(0, num - 1))  # noqa: E731
    with world() as made:
        made.save("a", JOB, 1, first)
        made.settle(choose)
        made.save("a", JOB, 2, second)
        for _ in range(num_turns):
            made.turns.take(choose)
        if is_told:
            made.replace_controller()
        made.begin_term("a")
        made.settle(choose)
        answer = made.open("b", order())
        made.settle(choose)
        assert answer.place is not None
        assert order_in(Path(held(made.hosts["b"].state_dir, JOB)[0])) == (2, 2)
        assert not made.hosts["a"].warnings


def test_a_host_brings_no_checkpoint_of_a_job_that_it_has_not_had() -> None:
    with world() as made:
        made.submit("job-2")
        write_checkpoint(
            job_folder(made.hosts["a"].state_dir, "job-2") / "checkpoints", 9, b"of another platform"
        )
        made.note_open("a", "job-2", is_trial=True)
        made.begin_term("a")
        made.settle()
        assert any(isinstance(message, CheckpointsHeld) for _, message in made.told)
        assert not held(made.head_dir, "job-2") and not made.hosts["a"].warnings


@settings(deadline=None)
@given(CONTENTS, st.data())
def test_a_host_that_opens_a_run_waits_for_the_checkpoint_that_another_one_sends(
    content: bytes, data: st.DataObject
) -> None:
    choose = lambda num: data.draw(st.integers(0, num - 1))  # noqa: E731
    with world() as made:
        name = made.save("a", JOB, 7, content)
        for _ in range(data.draw(st.integers(1, 10))):
            made.turns.take(lambda num: 0)  # the offer is the first thing that is said
        answer = made.open("b", order())
        made.settle(choose)
        assert answer.place is not None
        assert held(made.hosts["b"].state_dir, JOB) == [name]


def test_a_host_that_a_gang_grows_to_waits_for_no_checkpoint() -> None:
    """Its workers take the state over from those that train."""
    with world() as made:
        made.save("a", JOB, 7, b"x" * 3 * PART)
        made.settle(lambda num: 0)
        made.save("a", JOB, 8, b"y" * 3 * PART)
        made.turns.take(lambda num: 0)  # one is at the head, another is offered
        answer = made.open("b", order(is_joining=True))
        made.settle(lambda num: 0)
        assert answer.place is not None
        assert held(made.hosts["b"].state_dir, JOB) == []


@settings(deadline=None)
@given(CONTENTS, CONTENTS, st.integers(0, 30), st.data())
def test_a_job_that_moves_while_its_former_checkpoint_is_copied_loses_no_step(
    periodic: bytes, last: bytes, num_turns: int, data: st.DataObject
) -> None:
    choose = lambda num: data.draw(st.integers(0, num - 1))  # noqa: E731
    with world() as made:
        made.save("a", JOB, 7, periodic)
        for _ in range(num_turns):
            made.turns.take(choose)
        name = made.save("a", JOB, 8, last)
        made.turns.empty("from a")  # it is offered before anyone hears that the worker has left
        answer = made.open("b", order())
        made.settle(choose)
        assert answer.place is not None
        assert held(made.hosts["b"].state_dir, JOB) == [name]


@settings(deadline=None)
@given(CONTENTS, CONTENTS, st.integers(0, 30), st.data())
def test_a_job_that_moves_to_the_heads_own_machine_loses_no_step(
    periodic: bytes, last: bytes, num_turns: int, data: st.DataObject
) -> None:
    choose = lambda num: data.draw(st.integers(0, num - 1))  # noqa: E731
    with world("a") as made:
        made.save("a", JOB, 7, periodic)
        for _ in range(num_turns):
            made.turns.take(choose)
        name = made.save("a", JOB, 8, last)
        made.turns.empty("from a")  # it is offered before anyone hears that the worker has left
        answer = made.open("local", order())
        trial = made.open("local", order(is_trial=True))
        assert answer.place is None and trial.place is not None
        while answer.place is None:
            assert made.turns.take(choose)
        assert held(made.head_dir, JOB)[0] == name


def test_the_heads_own_machine_waits_for_no_host_that_is_lost_and_for_no_job_but_its_own() -> None:
    with world() as made:
        made.submit("other")
        made.save("a", JOB, 7, b"x" * 100)
        made.save("b", "other", 7, b"x" * 100)
        made.turns.empty("from a")
        made.turns.empty("from b")
        answer = made.open("local", order())
        made.lose("a")
        made.turns.empty("work 1")
        assert answer.place is not None


@pytest.mark.parametrize("host", ["local", "b"])
def test_a_job_that_grows_does_not_wait_for_what_is_saved_later(host: str) -> None:
    """Each save comes before the copy of the one before it is done."""
    with world() as made:
        made.save("a", JOB, 1, b"x" * 100)
        made.turns.empty("from a")
        answer = made.open(host, order())
        for steps in range(2, 40):
            made.save("a", JOB, steps, b"x" * (100 + steps))
            for _ in range(12):
                made.turns.take(lambda num: 0)
            if answer.place is not None:
                break
        assert answer.place is not None and made.turns.num_under_way


def test_of_checkpoints_that_wait_to_be_copied_only_the_latest_is_and_no_other_is_kept_open() -> None:
    num_open = len(os.listdir("/proc/self/fd"))
    with world("a") as made:
        names = [made.save("a", JOB, steps, b"x" * steps) for steps in range(1, 9)]
        made.settle()
        assert held(made.head_dir, JOB) == [names[-1], names[0]]
        assert not made.hosts["a"].warnings
        assert len(os.listdir("/proc/self/fd")) == num_open


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), CONTENTS), min_size=1, max_size=5), st.data())
def test_transfers_of_several_jobs_and_hosts_do_not_mix(
    saved: list[tuple[str, bytes]], data: st.DataObject
) -> None:
    choose = lambda num: data.draw(st.integers(0, num - 1))  # noqa: E731
    with world() as made:
        names = {}
        for number, (host, content) in enumerate(saved):
            made.submit(f"job-{number}")
            names[f"job-{number}"] = made.save(host, f"job-{number}", 3, content)
        made.settle(choose)
        for job_id, name in names.items():
            assert held(made.head_dir, job_id) == [name]
        answers = [made.open(host, order(job_id)) for host in "ab" for job_id in names]
        made.settle(choose)
        assert all(answer.place is not None for answer in answers)
        for host in "ab":
            for job_id, name in names.items():
                assert held(made.hosts[host].state_dir, job_id) == [name]


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=5 * PART), st.integers(0, 100), st.integers(0, 3), st.data())
def test_what_comes_damaged_is_never_taken(
    content: bytes, place: int, kind: int, data: st.DataObject
) -> None:
    """A flipped byte, a part that is too short, another size, another place."""
    choose = lambda num: data.draw(st.integers(0, num - 1))  # noqa: E731
    with world("a") as made:
        sound = made.save("a", JOB, 1, b"sound")
        made.settle(choose)

        def corrupt(part: FilePart) -> FilePart:
            at = place % max(1, len(part.content))
            flipped = bytes(byte ^ (number == at) for number, byte in enumerate(part.content))
            return [
                msgspec.structs.replace(part, content=flipped),
                msgspec.structs.replace(part, content=part.content[:-1]),
                msgspec.structs.replace(part, num_bytes=part.num_bytes + 1),
                msgspec.structs.replace(part, content=part.content + b"x"),
            ][kind]

        made.corrupt = corrupt
        made.save("a", JOB, 2, content)
        made.settle(choose)
        assert held(made.head_dir, JOB) == [sound]
        assert not leftovers(made.head_dir)
        (warning,) = made.hosts["a"].warnings
        assert warning.about == COPY and "came damaged" in warning.message
        made.corrupt = lambda part: part
        third = made.save("a", JOB, 3, b"third")
        made.settle(choose)
        assert held(made.head_dir, JOB)[0] == third
        assert made.hosts["a"].warnings[-1].message == ""


def test_a_file_that_is_longer_than_it_was_offered_is_not_written() -> None:
    """It could fill the disk of the head."""
    with world("a") as made:
        made.corrupt = lambda part: msgspec.structs.replace(part, num_bytes=10**15, content=b"x" * PART)
        made.save("a", JOB, 1, b"short")
        made.settle(lambda num: 0)
        assert held(made.head_dir, JOB) == [] and not leftovers(made.head_dir)
        assert "came damaged" in made.hosts["a"].warnings[-1].message


# ---------------------------------------------------------------- flow
def test_few_parts_are_on_their_way_at_a_time() -> None:
    with world("a") as made:
        made.save("a", JOB, 1, b"x" * 100 * PART)
        most = 0
        while made.turns.take(lambda num: num - 1):
            most = max(most, made.turns.num_under_way)
        assert most <= 2 * incoming.WINDOW
        assert len(held(made.head_dir, JOB)) == 1


def test_the_longest_message_is_short_enough_for_a_line() -> None:
    from swell.executors.remote.conversation import MAX_BODY_BYTES
    from swell.model.coding import encode

    name = JobCheckpoint(job_id="j" * 100, name="n" * 100)
    content = b"\xcb\x7f\xff" * (PART_BYTES // 3)  # looks like no number in MessagePack
    part = FilePart(file=name, offset=2**40, content=content, num_bytes=2**41)
    text = encode(part)
    assert len(text) < MAX_BODY_BYTES / 2
    assert msgspec.json.decode(text, type=h.FromHost) == part


# ---------------------------------------------------------------- runs
def test_a_host_with_a_newer_checkpoint_than_the_head_keeps_its_own() -> None:
    with world("a") as made:
        folder = made.hosts["a"].state_dir / "jobs" / JOB / "checkpoints"
        own = write_checkpoint(folder, 9, b"own")
        write_checkpoint(made.head_dir / "jobs" / JOB / "checkpoints", 5, b"head's")
        answer = made.open("a", order())
        made.settle()
        assert answer.place is not None and held(made.hosts["a"].state_dir, JOB) == [own]


def test_a_checkpoint_that_is_damaged_at_the_head_is_passed_over() -> None:
    with world("a") as made:
        folder = made.head_dir / "jobs" / JOB / "checkpoints"
        sound = write_checkpoint(folder, 5, b"sound")
        (folder / write_checkpoint(folder, 6, b"damaged")).write_bytes(b"dAmaged")
        answer = made.open("a", order())
        made.settle()
        assert answer.place is not None and held(made.hosts["a"].state_dir, JOB) == [sound]


def test_a_trial_run_needs_no_checkpoint_and_numbers_go_on_where_the_head_knows_of_them() -> None:
    with world("a") as made:
        write_checkpoint(made.head_dir / "jobs" / JOB / "checkpoints", 5, b"x")
        (made.head_dir / "jobs" / JOB / "worker-4.log").write_text("of another host")
        (made.head_dir / "jobs" / JOB / "trial-6.log").write_text("likewise")
        trial, run = made.open("a", order(is_trial=True)), made.open("a", order())
        made.settle()
        assert trial.place is not None and run.place is not None
        assert (trial.place.first_worker, run.place.first_worker) == (7, 5)


def test_a_run_that_is_opened_again_is_answered_once() -> None:
    with world("a") as made:
        first, second = made.open("a", order()), made.open("a", order())
        made.settle()
        assert first.place is None and first.refusal is None and second.place is not None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"needs": ("/no/such/data",)}, "/no/such/data is not on host 'a', and the job needs it"),
        ({"entry": "/no/train.py"}, "/no/train.py is not on host 'a'; with `code: live`"),
        ({"workdir": "/no/such"}, "/no/such is not on host 'a'; with `code: live`"),
        ({"python": "/no/python"}, "its interpreter /no/python (`python`) is no program on host 'a'"),
    ],
)
def test_a_host_that_lacks_what_a_job_has_elsewhere_refuses_it(changes: dict[str, Any], said: str) -> None:
    with world("a") as made:
        answer = made.open("a", order(**changes))
        made.settle()
        assert answer.refusal is not None and answer.refusal[0] is Outcome.LOST
        assert said in answer.refusal[1]


def test_a_folder_that_no_job_can_have_is_refused_for_good() -> None:
    with world("a") as made:
        answer = made.open("a", order("../x"))
        made.settle()
        assert answer.refusal is not None and answer.refusal[0] is Outcome.FAILED


def test_another_controller_is_offered_what_the_former_one_had_not_taken() -> None:
    with world("a") as made:
        name = made.save("a", JOB, 1, b"x" * 3 * PART)
        made.turns.take(lambda num: 0)
        made.replace_controller()
        made.settle()
        assert held(made.head_dir, JOB) == [name]


@pytest.mark.parametrize("is_oldest_last", [False, True])
@pytest.mark.parametrize("num_turns", range(25))
def test_another_controller_opens_a_run_whatever_was_under_way_to_the_former_one(
    num_turns: int, is_oldest_last: bool
) -> None:
    """A part may be written meanwhile, and until the other one is asked for the file."""
    with world("a") as made:
        name = write_checkpoint(made.submit(JOB) / "checkpoints", 1, b"x" * 3 * PART)
        made.open("a", order())
        for _ in range(num_turns):
            made.turns.take(lambda num: 0)
        made.replace_controller()
        answer = made.open("a", order())
        made.settle(lambda num: num - 1 if is_oldest_last else 0)
        assert answer.place is not None
        assert held(made.hosts["a"].state_dir, JOB) == [name]
        assert not leftovers(made.hosts["a"].state_dir)


# ---------------------------------------------------------------- full disks
def test_a_full_disk_at_the_head_is_told_and_the_last_good_state_is_kept(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", 2**20) as small:
        made = FileWorld(tmp_path, "a")
        made.head_dir.symlink_to(small)
        made.submit(JOB)
        first = made.save("a", JOB, 1, b"x" * 1000)
        made.settle()
        ballast = fill(small)
        made.save("a", JOB, 2, b"y" * 100_000)
        made.settle()
        (warning,) = made.hosts["a"].warnings
        assert "does not fit on the disk" in warning.message and "make room there" in warning.message
        assert held(made.head_dir, JOB) == [first] and not leftovers(small)
        ballast.unlink()
        third = made.save("a", JOB, 3, b"z" * 1000)
        made.settle()
        assert held(made.head_dir, JOB)[0] == third
        assert made.hosts["a"].warnings[-1].message == ""


def test_a_full_disk_on_the_host_refuses_the_run_for_now(tmp_path: Path) -> None:
    with mounted(tmp_path / "a", 2**20) as small:
        made = FileWorld(tmp_path, "a")
        write_checkpoint(made.submit(JOB) / "checkpoints", 1, b"x" * 100_000)
        (small / "jobs" / JOB / "checkpoints").mkdir(parents=True)
        ballast = fill(small)
        answer = made.open("a", order())
        made.settle()
        assert answer.refusal is not None and answer.refusal[0] is Outcome.LOST
        assert "No space left on device; make room there" in answer.refusal[1]
        assert not leftovers(small)
        ballast.unlink()
        again = made.open("a", order())
        made.settle()
        assert again.place is not None and len(held(small, JOB)) == 1
