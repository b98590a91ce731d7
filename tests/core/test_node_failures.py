"""A node at which different jobs fail, while jobs run elsewhere, is drained."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.bench import Bench
from tests.core.fakes import node, spec

from swell.core.node_failures import NUM_JOBS, WITHIN_S, failed_by_node
from swell.core.state import JobFailure
from swell.model.event import NodeCleared, NodeJoined, NodeLost, NodeWarned, Outcome, ProfilingFailed
from swell.model.job import JobSpec, Phase

PROGRAMS, NODES, TRIALS = st.sampled_from("pqrs"), st.sampled_from(["n0", "n1", "n2"]), st.booleans()
FAILURES = st.lists(st.tuples(PROGRAMS, NODES, TRIALS), max_size=12).map(
    lambda drawn: [JobFailure(0.0, f"job{place}", *one) for place, one in enumerate(drawn)]
)
RUNNING = st.dictionaries(PROGRAMS, st.integers(1, 9))


@given(FAILURES, RUNNING)
def test_only_jobs_that_failed_there_and_whose_program_fails_nowhere_else_speak_against_a_node(
    failures: list[JobFailure], running: dict[str, int]
) -> None:
    elsewhere = Counter(one.program for one in failures if one.node != "n0")
    found = failed_by_node(failures, "n0", running)
    by_id = {one.job_id: one for one in failures}
    assert len(set(found)) == len(found)
    assert all(by_id[job].node == "n0" and not elsewhere[by_id[job].program] for job in found)
    if elsewhere.total() >= sum(running.values()):
        assert not found, "jobs do no better on other nodes"
    counted = Counter(by_id[job].program for job in found)
    assert all(num == 1 or program in running for program, num in counted.items())
    assert all(by_id[job].program in running for job in found if by_id[job].is_of_trial)


@given(FAILURES, RUNNING, PROGRAMS)
def test_more_jobs_that_run_elsewhere_never_speak_for_a_node_and_failures_elsewhere_never_against_it(
    failures: list[JobFailure], running: dict[str, int], program: str
) -> None:
    before = set(failed_by_node(failures, "n0", running))
    more = {**running, program: running.get(program, 0) + 1}
    assert len(failed_by_node(failures, "n0", more)) >= len(before)
    failed = [*failures, JobFailure(0.0, "another", program, "n1")]
    assert before.issuperset(failed_by_node(failed, "n0", running))


class Lab(Bench):
    """Two nodes: jobs with two workers fill them from `n0.0` on, and two jobs run on each at most."""

    def __init__(self) -> None:
        super().__init__(4)
        self.say(NodeJoined(at_s=self.now_s, node=node("n1", 4)))

    def begin(self, job_id: str, entry: str, on: str) -> int:
        generation = self.run(job_id, 2, job_of(entry))
        assert {device.split(".")[0] for device in self.job(job_id).devices} == {on}
        return generation

    def fail(self, job_id: str, entry: str, on: str, outcome: Outcome = Outcome.FAILED) -> None:
        self.gone(self.begin(job_id, entry, on), outcome, job_id)
        self.drain()

    def drain(self) -> None:
        """As a platform does with suspects."""
        for name, why in self.core.suspects.items():
            self.say(NodeWarned(at_s=self.now_s, name=name, why=why, is_ill=True))
        assert not self.core.suspects

    @property
    def ill(self) -> list[str]:
        return [name for name, warned in self.core.warned.items() if warned.is_ill]


def job_of(entry: str) -> JobSpec:
    return spec(1000, entry=f"/jobs/{entry}.py", min_workers=2, max_workers=2)


def with_a_job_elsewhere() -> tuple[Lab, str, str]:
    """Jobs fail on the first of the nodes that are named, and one runs on the other."""
    lab = Lab()
    lab.run("well", 2, job_of("well"))
    home = lab.job("well").devices[0].split(".")[0]
    bad = "n1" if home == "n0" else "n0"
    lab.begin("neighbour", "neighbour", home)
    return lab, bad, home


def test_three_jobs_that_fail_on_one_node_within_an_hour_drain_it_and_its_jobs_move() -> None:
    lab, bad, _ = with_a_job_elsewhere()
    for number in range(NUM_JOBS):
        assert lab.ill == []
        lab.fail(f"job{number}", f"script{number}", bad)
    assert lab.ill == [bad]
    warned = lab.core.warned[bad]
    assert warned.until_s is None and "3 jobs failed on it within an hour (job0, job1, job2)" in warned.why
    reborn = lab.reborn()
    assert reborn.warned == lab.core.warned
    lab.say(NodeLost(at_s=lab.now_s, name=bad, cause="restarted"))
    lab.say(NodeJoined(at_s=lab.now_s, node=node(bad, 4)))
    assert lab.ill == [bad]
    lab.say(NodeCleared(at_s=lab.now_s, name=bad))
    lab.fail("later", "later", bad)
    assert lab.ill == [], "what was before an operator's word counts no more"


def test_a_head_that_is_replaced_in_between_decides_the_same() -> None:
    lab, bad, _ = with_a_job_elsewhere()
    for number in range(NUM_JOBS):
        lab.core = lab.reborn()
        lab.fail(f"job{number}", f"script{number}", bad)
    assert lab.ill == [bad]


@pytest.mark.parametrize("why", ["one script", "time", "success", "no other job"])
def test_failures_that_say_nothing_of_the_node_do_not_drain_it(why: str) -> None:
    lab, _, _ = with_a_job_elsewhere()
    for job_id in ("well", "neighbour") if why == "no other job" else ():
        lab.gone(1, Outcome.SUCCEEDED, job_id)
        assert lab.phase(job_id) is Phase.SUCCEEDED
    for number in range(2 * NUM_JOBS):
        job_id, entry = f"job{number}", "broken" if why == "one script" else f"script{number}"
        generation = lab.run(job_id, 2, job_of(entry))
        lab.gone(generation, Outcome.SUCCEEDED if why == "success" else Outcome.FAILED, job_id)
        lab.drain()
        lab.now_s += WITHIN_S / 2 if why == "time" else 0.0
    assert lab.ill == []


@pytest.mark.parametrize("runs_elsewhere", [True, False])
def test_failed_trial_runs_count_if_their_script_runs_on_another_node(runs_elsewhere: bool) -> None:
    lab, bad, _ = with_a_job_elsewhere()
    entry = "well" if runs_elsewhere else "untried"
    for number in range(NUM_JOBS):
        assert lab.ill == []
        lab.submit(job := f"job{number}", job_of(entry if runs_elsewhere else f"{entry}{number}"))
        failed = ProfilingFailed(at_s=lab.now_s, job_id=job, message="raised", devices=(f"{bad}.0",))
        lab.say(failed)
        assert lab.phase(job) is Phase.FAILED
        lab.drain()
    assert lab.ill == ([bad] if runs_elsewhere else [])


def test_a_failure_on_several_nodes_is_not_counted() -> None:
    lab, bad, _ = with_a_job_elsewhere()
    for number in range(NUM_JOBS - 1):
        lab.fail(f"job{number}", f"script{number}", bad)
    lab.say(NodeJoined(at_s=lab.now_s, node=node("n2", 4)))
    wide = lab.run("wide", 8, spec(1000, entry="/wide.py", min_workers=8, max_workers=8))
    assert {device.split(".")[0] for device in lab.job("wide").devices} == {bad, "n2"}
    lab.gone(wide, Outcome.FAILED, "wide")
    lab.drain()
    assert lab.ill == []
    lab.say(NodeLost(at_s=lab.now_s, name="n2"))
    lab.fail("last", "last", bad)
    assert lab.ill == [bad]
