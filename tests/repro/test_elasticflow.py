"""The declarations hold together. That the figures come out is `swell repro elasticflow`'s own verdict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import swell_papers
from swell.model.errors import InvalidInput
from swell.policies.registry import POLICIES
from swell_papers.elasticflow import LOG_CASES, PAPER, PRODUCTION
from swell_papers.log_experiment import LogCase
from swell_papers.variants import VARIANTS


def test_the_figures_of_section_6_are_there() -> None:
    names = [experiment.name for experiment in PAPER.experiments]
    assert names == ["6a", "6b", "7", "8a", "8b", "9", "10", "11", "12"]
    assert len(PRODUCTION) == 8


@pytest.mark.parametrize("case", [case for cases in LOG_CASES.values() for case in cases], ids=str)
def test_policies_exist_and_stand_once_in_a_case(case: LogCase) -> None:
    policies = [line.policy for line in case.lines]
    assert len(set(policies)) == len(policies) and set(policies) <= {*POLICIES, *VARIANTS}


def test_every_remark_is_a_sentence_on_a_figure() -> None:
    page = Path(swell_papers.__file__).parent / "pages/elasticflow.md"
    sections = re.findall("^## (.+)$", page.read_text(), re.MULTILINE)
    assert sections == [one.name for one in PAPER.experiments if one.remarks]
    assert all(text.endswith((".", ")")) for one in PAPER.experiments for text in one.remarks)


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    experiments = PAPER.chosen(["8a", "6b"])
    assert [experiment.name for experiment in experiments] == ["6b", "8a"]
    with pytest.raises(InvalidInput) as raised:
        PAPER.check_files((name for one in experiments for name in one.needs), tmp_path)
    text = str(raised.value)
    for name in ("195job.csv", "elasticVpollux_e.csv", "throughputs_A100", "throughputs_T4", "--data"):
        assert name in text
    assert PAPER.chosen(["12"])[0].needs == ()


def test_an_unknown_figure_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match="no experiment '5'; choose of 6a, 6b, 7, 8a, 8b, 9, 10, 11, 12"):
        PAPER.chosen(["5"])
