"""What `swell doctor` says of Slurm, with programs that print what was recorded."""

from __future__ import annotations

from typing import Any

import pytest
from tests.executors.test_slurm_client import DOWN, SCONTROL, SINFO, Programs
from tests.executors.test_slurm_client import programs as programs

from swell.executors.slurm.engine import SlurmEngine
from swell.model.finding import Level


def found(**options: Any) -> list[tuple[Level, str, str]]:
    engine = SlurmEngine(**({"partition": "scav"} | options))
    return [(finding.level, finding.text, finding.remedy) for finding in engine.findings("")]


@pytest.fixture
def healthy(programs: Programs) -> Programs:
    programs.answer("scontrol", SCONTROL.splitlines()[1].replace("State=DOWN", "State=UP"))
    programs.answer("sinfo", SINFO)
    programs.answer("sbatch", err="sbatch: Job 11 to start at 2026-11-26T19:24:38 using 1 processors\n")
    for program in ("squeue", "scancel"):
        programs.answer(program)
    return programs


def test_a_partition_that_takes_a_slice_is_well(healthy: Programs) -> None:
    assert found() == [(Level.OK, "partition scav has 3 nodes, 1 idle; it takes a slice", "")]
    assert "sbatch --test-only " in " ".join(healthy.asked), "no job is submitted"


def test_a_slurmctld_that_is_down_is_told_with_its_words(healthy: Programs) -> None:
    healthy.answer("squeue", err=f"slurm_load_jobs error: {DOWN}\n", status=1)
    ((level, text, remedy),) = found()
    assert level is Level.BAD and DOWN in text and "`scontrol ping`" in remedy


def test_a_partition_without_a_grace_time_is_none_to_borrow_from(healthy: Programs) -> None:
    healthy.answer("scontrol", "PartitionName=scav GraceTime=0\n")
    _, (level, text, remedy) = found(is_borrowed=True)
    assert level is Level.WARN and "has no GraceTime" in text and remedy
