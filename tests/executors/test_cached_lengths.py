"""What a script takes for its end is compared with each job of it, also where that needs no trial run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.executors.puppets import make_spec

from swell.executors.controller.profile_cache import ProfileCache
from swell.model.code import CodeFile, CodeTree, tree_path
from swell.model.command import ProfileJob
from swell.model.findings import JobFinding
from swell.model.job import BetweenSteps, EndCondition, MetricTarget, Profile
from swell.wire.job_lengths import JobLength

OTHER = JobFinding(name="sum-loss", text="the loss is a sum over samples")
OF_FIRST = JobFinding(name="job-differs", text="the job says epochs 2000", holds=False)
PROFILE = Profile(
    device_kind="cpu",
    compute_s={12: 0.1, 6: 0.05},
    allreduce_s={1: 0.0, 2: 0.01},
    grad_bytes=100,
    state_bytes=300,
    samples_per_epoch=600,
    start_s=0.1,
    between=BetweenSteps(time_s=0.1, num_steps=50, num_epochs=1),
    findings=(OTHER, OF_FIRST),
)
#: The script's own numbers: 8 epochs of 50 steps, and a schedule for as many.
SCRIPT = JobLength(batch=12, epochs=8, steps=None, schedules=[("OneCycleLR", 400)])


@pytest.fixture
def first(tmp_path: Path) -> ProfileJob:
    (tmp_path / "train.py").write_text("# a training script\n")
    return job_of(tmp_path, EndCondition(epochs=2000))


def job_of(folder: Path, end: EndCondition) -> ProfileJob:
    spec = make_spec(entry=str(folder / "train.py"), workdir=str(folder), global_batch=12)
    spec = msgspec.structs.replace(spec, end=end)
    return ProfileJob(job_id="job-1", spec=spec, sizes=(1, 2), device_kind="cpu")


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ({"epochs": 8}, []),
        ({"epochs": 8, "target": MetricTarget(name="accuracy", value=0.9, at_least=True)}, []),
        ({"samples": 4800}, []),
        (
            {"epochs": 3},
            [
                "the job says epochs 3, and the script 8; what was submitted counts",
                "a OneCycleLR, is made for 400 steps, and the job has 150, of 12 samples",
            ],
        ),
    ],
)
def test_a_job_is_told_of_its_own_numbers(
    tmp_path: Path, first: ProfileJob, end: dict[str, Any], told: list[str]
) -> None:
    cache = ProfileCache(tmp_path / "state")
    cache.keep_profile(first, PROFILE, SCRIPT)
    known = cache.profile(job_of(tmp_path, EndCondition(**end)))
    assert known is not None and known.findings is not None and known.findings[0] == OTHER
    assert [
        part for part, found in zip(told, known.findings[1:], strict=True) if part not in found.text
    ] == []


def test_a_job_that_would_fail_for_its_end_is_tried_out(tmp_path: Path, first: ProfileJob) -> None:
    cache = ProfileCache(tmp_path / "state")
    cache.keep_profile(first, PROFILE, SCRIPT)
    assert cache.profile(job_of(tmp_path, EndCondition(steps=400))) is not None
    assert cache.profile(job_of(tmp_path, EndCondition(steps=401))) is None


def test_numbers_of_another_job_are_not_told_where_the_scripts_are_not_known(
    tmp_path: Path, first: ProfileJob
) -> None:
    cache = ProfileCache(tmp_path / "state")
    cache.keep_profile(first, PROFILE)
    known = cache.profile(job_of(tmp_path, EndCondition(steps=30)))
    assert known is not None and known.findings == (OTHER,)


def test_a_snapshot_is_known_by_its_manifest_and_none_of_its_files_is_read(
    tmp_path: Path, first: ProfileJob
) -> None:
    """However large it is: the cache is asked on the event loop of the agent."""
    state = tmp_path / "state"
    file = CodeFile(digest="0" * 64, num_bytes=1 << 40)
    tree = CodeTree(roots=("/lib",), files={"/lib/train.py": file}, links={}, sources_digest="of all")
    for digest in ("one", "moved"):
        tree_path(state, digest).parent.mkdir(parents=True, exist_ok=True)
        tree_path(state, digest).write_bytes(msgspec.json.encode(tree))
    cache = ProfileCache(state)
    of_one = msgspec.structs.replace(first, spec=msgspec.structs.replace(first.spec, code="one"))
    cache.keep_profile(of_one, PROFILE)
    tree_path(state, "one").unlink()
    assert cache.profile(of_one) is not None, "its manifest was read before"
    moved = msgspec.structs.replace(first, spec=msgspec.structs.replace(first.spec, code="moved"))
    assert cache.profile(moved) is not None, "equal code has equal sources, wherever it lies"
