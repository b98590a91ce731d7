"""A job whose result depends on its sizes keeps its smallest one until its owner accepts that."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.bench import Bench
from tests.core.driven_world import DrivenWorld
from tests.core.fakes import core_of, node, profile, spec
from tests.core.head import Head
from tests.examples import share_of_examples

from swell.api import words
from swell.model.command import LaunchGang
from swell.model.event import DifferencesAccepted, JobProfiled, Outcome, ScriptVerified
from swell.model.job import DifferenceAction, EndCondition, JobSpec
from swell.script_facts import ScriptFinding, ScriptNumbers

TOKENS = ScriptFinding(name="weighted-mean", text="the loss is a mean over tokens", place="train.py:7")
CLIP = ScriptFinding(name="clip-in-loop", text="each worker clips its own")
DROPOUT = ScriptFinding(name="random-draws", text="dropout", holds=False)


def head_with(
    found: tuple[ScriptFinding, ...] | None, job: JobSpec, num_devices: int = 4
) -> tuple[Head, DrivenWorld]:
    world = DrivenWorld()
    world.findings["job"] = found
    head = Head(core_of, world)
    world.join(node("n0", num_devices))
    head.submit("job", job)
    head.run_until(lambda: bool(head.core.views()))
    head.run_until(lambda: head.job("job").workers > 0)
    return head, world


def accept(world: DrivenWorld, *names: str) -> None:
    world.say(DifferencesAccepted(at_s=world.now_s, job_id="job", names=names))


def sizes_of(head: Head) -> set[int]:
    return {workers for _, workers in head.job("job").sizes}


@settings(max_examples=share_of_examples(0.2), deadline=None)
@given(st.sampled_from([1, 2]), st.lists(st.sampled_from(["die", "fold", "run", "accept"]), max_size=6))
def test_a_job_is_never_larger_than_its_smallest_size_until_all_that_holds_it_is_accepted(
    least: int, acts: list[str]
) -> None:
    head, world = head_with((TOKENS, CLIP, DROPOUT), spec(2000, min_workers=least, max_workers=4))
    assert head.job("job").held_by == ("weighted-mean", "clip-in-loop")
    for act in acts:
        match act:
            case "die":
                head.die()
            case "fold":
                head.fold()
            case "run":
                head.run_for(1.0)
            case "accept":
                accept(world, "clip-in-loop")  # not all
        if head.job("job").phase.is_end:
            return
        assert sizes_of(head) <= {0, least}
    accept(world, "weighted-mean", "clip-in-loop")
    head.run_until(lambda: head.job("job").workers == 4)
    assert head.job("job").held_by == ()
    head.run()  # the twin, which has never died, has said the same at each turn


def test_what_was_accepted_at_submission_does_not_hold() -> None:
    head, _ = head_with((TOKENS, DROPOUT), spec(2000, accept_differences=("weighted-mean",)))
    head.run_until(lambda: head.job("job").workers == 4)
    assert (head.job("job").findings, head.job("job").held_by) == ((TOKENS, DROPOUT), ())


def test_why_a_job_is_held_and_what_its_owner_accepted_is_told() -> None:
    told = ""

    def is_grown() -> bool:
        nonlocal told
        told += "".join(f"{story.text}\n" for _, story in head.core.stories())
        return bool(head.core.views()) and head.job("job").workers == 4

    world = DrivenWorld()
    world.findings["job"] = (TOKENS, DROPOUT)
    head = Head(core_of, world)
    world.join(node("n0", 4))
    head.submit("job", spec(2000))
    world.say_at(3.0, DifferencesAccepted(at_s=3.0, job_id="job", names=("weighted-mean",)))
    head.run_until(is_grown)
    assert (
        "is limited to 1 worker: its trial run found weighted-mean (train.py:7): the loss is a mean" in told
    )
    assert "may have any size: its trial run found random-draws: dropout" in told
    assert "its owner accepts weighted-mean" in told


def test_jobs_that_share_a_profile_are_each_told_in_what_they_differ_from_their_script() -> None:
    own = ScriptNumbers(batch=64, epochs=10, num_steps=100)
    bench, measured = Bench(), msgspec.structs.replace(profile(), own=own)
    for job_id, end in {"longer": EndCondition(epochs=16), "own": EndCondition()}.items():
        bench.submit(job_id, spec(end=end))
        bench.say(JobProfiled(at_s=bench.now_s, job_id=job_id, profile=measured))
    found = {view.id: [one.text for one in view.findings] for view in bench.core.views()}
    assert found == {
        "longer": ["the job has 160 steps where its script has 100: the job's count"],
        "own": [],
    }


# ------------------------------------------------------------ found while it trains
LATE = ScriptFinding(name="other-step", text="its loss is 2 times as large", place="train.py:9")


def verified(bench: Bench, steps: int | None, *findings: ScriptFinding, why_not: str = "") -> str:
    """What the job's story tells of it."""
    bench.say(ScriptVerified(at_s=bench.now_s, job_id="a", steps=steps, findings=findings, why_not=why_not))
    return "".join(f"{story.text}\n" for _, story in bench.core.stories())


def shown(bench: Bench) -> str:
    return dict(words.facts(bench.job()))["verified"]


def test_a_difference_that_is_found_while_it_trains_holds_the_job_from_then_on() -> None:
    bench = Bench()
    generation = bench.run(workers=4)
    verified(bench, None, why_not="it had no checkpoint")
    assert shown(bench) == "not yet: it had no checkpoint"
    assert "a new worker has computed step 41 again: the same" in verified(bench, 40)
    assert shown(bench) == "up to step 40"
    verified(bench, None, why_not="the disk is full")
    assert shown(bench) == "up to step 40; not since then: the disk is full"
    told = verified(bench, 90, LATE, DROPOUT)
    assert "is limited to 1 worker: a new worker found other-step (train.py:9): its loss is" in told
    assert told.count("results may differ since step 40\n") == 1, "dropout makes no difference"
    bench.core = bench.reborn()
    job = bench.job()
    assert (job.held_by, job.findings, job.verified_steps) == (("other-step",), (LATE, DROPOUT), 40)
    assert "other-step" not in verified(bench, 120, LATE), "it is known"
    bench.want(a=1)
    launch = bench.gone(generation, Outcome.STOPPED, steps=90)[-1]
    assert isinstance(launch, LaunchGang)
    assert (launch.done_steps, set(launch.known_findings)) == (90, {"other-step", "random-draws"})


@pytest.mark.parametrize("steps", [None, 40])
@pytest.mark.parametrize("action", [*DifferenceAction, None])
def test_a_gang_begins_once_where_its_job_was_verified_if_its_owner_wants_that(
    action: DifferenceAction | None, steps: int | None
) -> None:
    bench = Bench()
    generation = bench.run(job=spec(1000, on_difference=action), workers=4)
    verified(bench, steps)
    verified(bench, 90, LATE)
    bench.core = bench.reborn()
    bench.want(a=1)
    launch = bench.gone(generation, Outcome.STOPPED, steps=90)[-1]
    assert isinstance(launch, LaunchGang)
    rolls_back = action is DifferenceAction.ROLL_BACK
    assert launch.rolls_back == (rolls_back and steps is not None)
    assert launch.verified_steps == (steps if rolls_back else None)
    bench.started(launch.generation, steps=40)
    again = bench.gone(launch.generation, Outcome.STOPPED, steps=60)[-1]
    assert isinstance(again, LaunchGang) and not again.rolls_back


def test_a_job_that_is_held_shrinks_to_its_smallest_size_and_grows_when_that_is_accepted() -> None:
    head, world = head_with((DROPOUT,), spec(2000))
    head.run_until(lambda: head.job("job").workers == 4)
    world.say(ScriptVerified(at_s=world.now_s, job_id="job", steps=9, findings=(LATE,)))
    head.run_until(lambda: head.job("job").workers == 1)
    head.die()
    head.run_for(5.0)
    assert head.job("job").workers == 1
    accept(world, "other-step")
    head.run_until(lambda: head.job("job").workers == 4)
    assert (head.job("job").held_by, head.job("job").verified_steps) == ((), None)
