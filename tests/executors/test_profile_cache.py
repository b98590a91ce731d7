"""What was measured of a script is known again by its sources."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.executors.puppets import make_spec

from swell.executors.controller.profile_cache import ProfileCache
from swell.model.code import CodeFile, CodeTree, tree_path
from swell.model.command import ProfileJob
from swell.model.findings import JobFinding
from swell.model.job import BetweenSteps, EndCondition, Profile

OTHER = JobFinding(name="sum-loss", text="the loss is a sum over samples")
PROFILE = Profile(
    device_kind="cpu",
    compute_s={12: 0.1, 6: 0.05},
    allreduce_s={1: 0.0, 2: 0.01},
    grad_bytes=100,
    state_bytes=300,
    samples_per_epoch=600,
    start_s=0.1,
    between=BetweenSteps(time_s=0.1, num_steps=50, num_epochs=1),
    findings=(OTHER,),
)


@pytest.fixture
def first(tmp_path: Path) -> ProfileJob:
    (tmp_path / "train.py").write_text("# a training script\n")
    return job_of(tmp_path, EndCondition(epochs=2000))


def job_of(folder: Path, end: EndCondition) -> ProfileJob:
    spec = make_spec(entry=str(folder / "train.py"), workdir=str(folder), global_batch=12)
    spec = msgspec.structs.replace(spec, end=end)
    return ProfileJob(job_id="job-1", spec=spec, sizes=(1, 2), device_kind="cpu")


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
