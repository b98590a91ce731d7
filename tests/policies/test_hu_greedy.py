"""The greedy allocator that Hu et al. compare with: its four scenarios."""

from __future__ import annotations

from tests.policies.asked import Asked
from tests.policies.test_hu import job

from swell_papers.policies.hu_greedy import HuGreedy

PERIOD_S = 300.0


def test_scenario_1_the_queue_has_as_many_as_possible_in_order() -> None:
    jobs = [job(f"j{row}", 100.0, submitted=float(row)) for row in range(3)]
    assert Asked(HuGreedy(), 20).at(10.0, jobs) == [16, 4, 0]


def test_figure_4_half_of_the_job_that_has_trained_longest_goes_to_the_queue() -> None:
    """Scenario 3: no idle node, job 8 waits, and job 5 has the longest training time."""
    asked = Asked(HuGreedy(most_workers=4), 8)
    five, six = job("job-5", 1000.0), job("job-6", 1000.0, submitted=1.0)
    assert asked.at(1.0, [five, six]) == [4, 4]
    eight = job("job-8", 1000.0, submitted=100.0)
    assert asked.at(100.0, [five, six, eight]) == [4, 4, 0]
    assert asked.at(PERIOD_S, [five, six, eight]) == [2, 4, 2]
