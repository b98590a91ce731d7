"""Cores that a process may use, by the limits of its control groups."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from swell.executors.local.limits.allocation import available_cores, cpu_limit
from swell.wire.group_places import GroupFiles

V1, V2 = "v1", "v2"
#: As Slurm makes them: of the job, the step and the task.
GROUPS = ("slurm", "job_7", "step_0")


def machine(root: Path, version: str, limits: Mapping[str, Mapping[str, str]]) -> GroupFiles:
    """A process in the innermost of GROUPS, in which files have these texts, by group."""
    files = GroupFiles(root)
    own = "/" + "/".join(GROUPS)
    points = {"cpu": "/sys/fs/cgroup/cpu"}
    mounts = [f"1 0 0:1 / {at} rw - cgroup cgroup rw,{name}" for name, at in points.items()]
    lines = [f"1:{name}:{own}" for name in points]
    if version == V2:
        points = {"": "/sys/fs/cgroup"}
        mounts, lines = ["1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"], [f"0::{own}"]
    for path, told in (("/proc/self/mountinfo", mounts), ("/proc/self/cgroup", lines)):
        files.at(path).parent.mkdir(parents=True, exist_ok=True)
        files.at(path).write_text("\n".join(told))
    for point in points.values():
        files.at(point + own).mkdir(parents=True)
        for group, texts in limits.items():
            below = GROUPS[: GROUPS.index(group) + 1]
            for name, text in texts.items():
                files.at(point).joinpath(*below, name).write_text(text + "\n")
    return files


def cpu(version: str, quota_us: int | None) -> dict[str, str]:
    if version == V2:
        return {"cpu.max": f"{'max' if quota_us is None else quota_us} 100000"}
    return {"cpu.cfs_quota_us": str(-1 if quota_us is None else quota_us), "cpu.cfs_period_us": "100000"}


@pytest.mark.parametrize("version", [V1, V2])
def test_a_limit_of_cpu_time_counts_in_whole_cores_and_one_is_left(version: str, tmp_path: Path) -> None:
    all_cores = len(os.sched_getaffinity(0))
    for number, (quota_us, expected) in enumerate(
        ((None, all_cores), (50_000, 1), (199_999, 1), (100_000 * all_cores, all_cores), (10**9, all_cores))
    ):
        files = machine(tmp_path / str(number), version, {"job_7": cpu(version, quota_us)})
        assert available_cores(files) == expected


@pytest.mark.parametrize("version", [V1, V2])
def test_a_hard_limit_may_be_all_of_a_part_of_a_core(version: str, tmp_path: Path) -> None:
    files = machine(tmp_path, version, {"step_0": cpu(version, 150_000)})
    assert cpu_limit(files) == min(1.5, len(os.sched_getaffinity(0)))


def test_limits_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    files = machine(tmp_path, V2, {"job_7": {"cpu.max": ""}})
    files.at("/proc/self/cgroup").unlink()
    files.at("/proc/self/cgroup").mkdir()  # reading it is an unusual OSError
    assert available_cores(files) == len(os.sched_getaffinity(0))
    empty = machine(tmp_path / "empty", V2, {"job_7": {"cpu.max": ""}})
    assert available_cores(empty) == len(os.sched_getaffinity(0))


def test_without_groups_or_limits_it_is_the_machine_s(tmp_path: Path) -> None:
    for files in (GroupFiles(tmp_path / "none"), machine(tmp_path / "root", V2, {})):
        assert available_cores(files) == len(os.sched_getaffinity(0))
