"""What was measured of a script is known again by its sources."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.executors.puppets import make_spec

from swell.executors.controller.profile_store import ProfileStore
from swell.model.code import CodeFile, CodeTree, tree_path
from swell.model.command import ProfileJob
from swell.model.job import EndCondition, Profile
from swell.script_facts import BetweenSteps, ScriptFinding

PROFILE = Profile(
    device_kind="cpu",
    compute_s={12: 0.1, 6: 0.05},
    allreduce_s={1: 0.0, 2: 0.01},
    grad_bytes=100,
    state_bytes=300,
    samples_per_epoch=600,
    start_s=0.1,
    between=BetweenSteps(time_s=0.1, num_steps=50, num_epochs=1),
    findings=(ScriptFinding(name="sum-loss", text="the loss is a sum over samples"),),
)


def job_of(code: str) -> ProfileJob:
    """One whose code is this snapshot."""
    spec = make_spec(code=code, global_batch=12, end=EndCondition(epochs=2000))
    return ProfileJob(job_id="job-1", spec=spec, sizes=(1, 2), device_kind="cpu")


def snapshot(state_dir: Path, code: str = "0" * 64, num_bytes: int = 9) -> str:
    """The digest of a snapshot of which the manifest is there, and no file."""
    file = CodeFile(digest="0" * 64, num_bytes=num_bytes)
    tree = CodeTree(roots=("/lib",), files={"/lib/train.py": file}, links={}, sources_digest="of all")
    tree_path(state_dir, code).parent.mkdir(parents=True, exist_ok=True)
    tree_path(state_dir, code).write_bytes(msgspec.json.encode(tree))
    return code


def test_a_snapshot_is_known_by_its_manifest_and_none_of_its_files_is_read(tmp_path: Path) -> None:
    """However large it is: the cache is asked on the event loop of the agent."""
    state = tmp_path / "state"
    for digest in ("one", "moved"):
        snapshot(state, digest, num_bytes=1 << 40)
    cache = ProfileStore(state)
    cache.keep_profile(job_of("one"), PROFILE)
    tree_path(state, "one").unlink()
    assert cache.profile(job_of("one")) is not None, "its manifest was read before"
    assert cache.profile(job_of("moved")) is not None, "equal code has equal sources, wherever it lies"


def test_what_is_known_of_other_sizes_stays(tmp_path: Path) -> None:
    """Jobs of one script take turns, each with a range of workers of its own."""
    store, small = ProfileStore(tmp_path), job_of(snapshot(tmp_path))
    large = msgspec.structs.replace(small, sizes=(4,))
    store.keep_profile(small, PROFILE)
    assert store.profile(large) is None
    measured = msgspec.structs.replace(PROFILE, compute_s={3: 0.03}, allreduce_s={4: 0.02}, findings=())
    store.keep_profile(large, measured)
    for asked in (small, large):
        found = store.profile(asked)
        assert found is not None and found.allreduce_s == {1: 0.0, 2: 0.01, 4: 0.02}
        assert found.compute_s == {12: 0.1, 6: 0.05, 3: 0.03} and found.findings == ()
