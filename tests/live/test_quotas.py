"""A tenant never has more open jobs than it may, however many submissions come at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick

from swell.live.platform import Platform
from swell.model.errors import TooManyOpenJobs
from swell.model.job import Origin

from .parts import Hands, spec
from .test_platform import running


def submit(platform: Platform, tenant: str, key: str = "", max_open: int | None = None) -> str:
    wanted = msgspec.structs.replace(spec(), tenant=tenant)
    try:
        return platform.submit(wanted, Origin(key=key, fingerprint=tenant), max_open).id
    except TooManyOpenJobs:
        return ""


@settings(deadline=None, max_examples=fewer_if_quick(6))
@given(
    st.lists(st.sampled_from(["vision", "speech"]), min_size=1, max_size=16),
    st.integers(0, 5),
)
def test_at_no_moment_there_are_more_open_jobs_than_the_quota(
    tmp_path_factory: pytest.TempPathFactory, tenants: list[str], max_open: int
) -> None:
    with running(tmp_path_factory.mktemp("state"), Hands()) as platform:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda tenant: submit(platform, tenant, max_open=max_open), tenants))
        for tenant in set(tenants):
            taken = [
                job_id for job_id, whose in zip(found, tenants, strict=True) if whose == tenant and job_id
            ]
            assert len(taken) == min(max_open, tenants.count(tenant))


def test_a_repeated_request_is_answered_with_its_job_at_a_full_quota(tmp_path: Path) -> None:
    with running(tmp_path, Hands()) as platform:
        first = submit(platform, "vision", "k", 1)
        assert first
        assert submit(platform, "vision", "", 1) == ""
        assert submit(platform, "vision", "k", 1) == first
