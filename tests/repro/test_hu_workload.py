"""The jobs that stand for those of Hu et al."""

from __future__ import annotations

import numpy as np
import pytest

from swell_papers.hu_workload import Disturbed, workload


@pytest.mark.parametrize("seed", [0, 1])
def test_every_statistic_of_the_paper_holds(seed: int) -> None:
    """Section 5.1: 1,252 jobs within 2 days and about 2 hours, 447 of 5 minutes or more, and the means."""
    every = list(workload(seed, is_all=True).jobs)
    minutes = np.array([job.duration_s for job in every]) / 60.0
    assert len(every) == 1252 and (minutes >= 5.0).sum() == 447
    assert minutes.mean() == pytest.approx(84.3, abs=0.05)
    assert minutes[minutes >= 5.0].mean() == pytest.approx(232.6, abs=0.05)
    assert minutes.min() >= 0.0
    times_s = [job.submit_s for job in every]
    assert times_s == sorted(times_s) and times_s[-1] - times_s[0] == 49 * 3600 + 41 * 60 + 38
    long = list(workload(seed).jobs)
    assert {job.id for job in long} == {job.id for job in every if job.duration_s >= 300.0}


def test_work_is_time_times_the_speed_of_the_nodes_that_it_was_measured_on() -> None:
    """A step is a second of one node, and two nodes are 2 * 0.8 times as fast."""
    for job in workload(0).jobs:
        assert job.num_steps == pytest.approx(2 * 0.8 * job.duration_s, abs=1)


def test_stated_work_is_wrong_by_up_to_the_share() -> None:
    """Section 5.4: a random sample from 9 to 11 node hours where it is 10."""
    plain, wrong = list(workload(0).jobs), list(workload(0, disturbed=Disturbed(eta_share=0.1)).jobs)
    shares = [(job.stated_steps or job.num_steps) / job.num_steps for job in wrong]
    assert min(shares) == pytest.approx(0.9, abs=0.01) and max(shares) == pytest.approx(1.1, abs=0.01)
    assert [job.num_steps for job in wrong] == [job.num_steps for job in plain]


def test_so_many_jobs_fail_within_five_minutes_or_are_given_up() -> None:
    jobs = list(workload(0, disturbed=Disturbed(buggy_share=0.15, cancelled_share=0.1)).jobs)
    buggy = [job for job in jobs if job.dies_at_step is not None]
    given_up = [job for job in jobs if job.cancel_s is not None]
    assert len(buggy) / len(jobs) == pytest.approx(0.15, abs=0.05)
    assert len(given_up) / len(jobs) == pytest.approx(0.1, abs=0.05)
    assert all(job.dies_at_step is not None and job.dies_at_step <= 2 * 300 for job in buggy)
