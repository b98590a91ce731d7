"""A job of which only the environment is another one is measured again only if that may make a difference."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from swell.executors.controller import profile_cache
from swell.executors.controller.profile_cache import ProfileCache
from swell.model.command import ProfileJob
from swell.model.job import EndCondition, JobSpec, Profile
from swell.store.code_store import CodeStore

SCRIPT = """
import os
width = int(os.environ["WIDTH"])

class Settings:
    env_prefix = "APP_"
    hidden: int = 3
"""
PROFILE = Profile(
    device_kind="cpu",
    compute_s={8: 0.1},
    allreduce_s={1: 0.0},
    grad_bytes=8,
    state_bytes=8,
    samples_per_epoch=0,
    start_s=0.1,
)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProfileJob:
    monkeypatch.setattr(CodeStore, "collect", lambda *_: None)  # its thread could outlive the test's folder
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(SCRIPT)
    code = CodeStore(tmp_path / "state").take(str(project), str(project / "train.py"))
    spec = JobSpec(
        name="a",
        entry=str(project / "train.py"),
        workdir=str(project),
        global_batch=8,
        end=EndCondition(steps=5),
        code=code,
    )
    return ProfileJob(job_id="a", spec=spec, sizes=(1,), device_kind="cpu")


def with_env(command: ProfileJob, *env: tuple[str, str], **more: str) -> ProfileJob:
    return msgspec.structs.replace(command, spec=msgspec.structs.replace(command.spec, env=env, **more))


@pytest.mark.parametrize(
    ("variable", "is_known"),
    [
        (("WANDB_RUN_ID", "2"), True),
        (("NOTE", "second try"), True),
        (("WIDTH", "128"), False),
        (("APP_HIDDEN", "4"), False),
        (("CUDA_LAUNCH_BLOCKING", "1"), False),
        (("OMP_WAIT_POLICY", "active"), False),
    ],
)
def test_a_variable_that_the_code_does_not_name_makes_no_new_trial_run(
    tmp_path: Path, command: ProfileJob, variable: tuple[str, str], is_known: bool
) -> None:
    cache, width = ProfileCache(tmp_path / "state"), ("WIDTH", "64")
    cache.keep_profile(with_env(command, width), PROFILE)
    assert cache.profile(with_env(command, width)) == PROFILE
    other = with_env(command, *([] if variable[0] == "WIDTH" else [width]), variable)
    assert (cache.profile(other) is not None) is is_known


def test_where_the_code_is_no_snapshot_every_variable_counts(tmp_path: Path, command: ProfileJob) -> None:
    cache = ProfileCache(tmp_path / "state")
    cache.keep_profile(with_env(command, ("NOTE", "1"), code=""), PROFILE)
    assert cache.profile(with_env(command, ("NOTE", "1"), code="")) == PROFILE
    assert cache.profile(with_env(command, ("NOTE", "2"), code="")) is None


def test_code_that_was_read_is_not_read_again(command: ProfileJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """What asks then may be in a hurry."""
    cache = ProfileCache(Path(command.spec.workdir).parent / "state")
    changed = with_env(command, ("WIDTH", "3"))
    cache.read_code(changed.spec)

    def read(*_: object) -> None:
        raise AssertionError("reads it")

    monkeypatch.setattr(profile_cache, "speed_variables", read)
    cache.keep_profile(changed, PROFILE)
    assert cache.profile(changed) == PROFILE
