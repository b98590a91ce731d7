"""The declarations hold together. That the figures come out is `swell repro elasticflow`'s own verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.model.errors import InvalidInput
from swell.policies.registry import POLICIES
from swell_papers.elasticflow import PAPER, PRODUCTION
from swell_papers.log_experiment import LogExperiment
from swell_papers.variants import VARIANTS

ON_LOGS = [experiment for experiment in PAPER.experiments if isinstance(experiment, LogExperiment)]


def test_the_figures_of_section_6_are_there() -> None:
    names = [experiment.name for experiment in PAPER.experiments]
    assert names == ["2", "6a", "6b", "7", "8a", "8b", "9", "10", "11", "12"]
    assert len(PRODUCTION) == 7


@pytest.mark.parametrize("experiment", ON_LOGS, ids=lambda experiment: experiment.name)
def test_policies_bars_and_measures_exist(experiment: LogExperiment) -> None:
    known = {measure.name for measure in experiment.measures}
    for case in experiment.cases:
        policies = [line.policy for line in case.lines]
        assert len(set(policies)) == len(policies)
        for line in case.lines:
            assert line.policy in {*POLICIES, *VARIANTS}
            assert set(line.paper) <= known
    places = {(line.policy, case.name) for case in experiment.cases for line in case.lines}
    assert {(bar.policy, case) for bar in experiment.bars for case in bar.cases} <= places
    assert set(experiment.why) <= {*POLICIES, *VARIANTS}


@pytest.mark.parametrize("experiment", ON_LOGS, ids=lambda experiment: experiment.name)
def test_every_line_that_is_compared_may_be_explained(experiment: LogExperiment) -> None:
    compared = {line.policy for case in experiment.cases for line in case.lines if line.is_compared}
    assert all(experiment.why[policy].endswith(".") for policy in compared if policy in experiment.why)


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    experiments = PAPER.chosen(["8a", "6b"])
    assert [experiment.name for experiment in experiments] == ["6b", "8a"]
    with pytest.raises(InvalidInput) as raised:
        PAPER.check(experiments, tmp_path)
    text = str(raised.value)
    for name in ("195job.csv", "elasticVpollux_e.csv", "throughputs_A100", "throughputs_T4", "--data"):
        assert name in text
    PAPER.check(PAPER.chosen(["12"]), tmp_path)


def test_an_unknown_figure_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        InvalidInput, match="no experiment '5'; choose of 2, 6a, 6b, 7, 8a, 8b, 9, 10, 11, 12"
    ):
        PAPER.chosen(["5"])
