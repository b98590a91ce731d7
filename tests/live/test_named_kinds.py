"""The kinds of device that a request names."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from tests.core.fakes import spec
from tests.examples import pick

from swell.live.job_checks import with_named_kinds
from swell.model.errors import InvalidJob
from swell.model.job import JobSpec
from swell.model.kind import ANY

KINDS = ("a100", "h100", "v100")


def job(*kinds: str) -> JobSpec:
    return msgspec.structs.replace(spec(1000), kinds=kinds)


@given(pick("", *KINDS))
def test_jobs_that_name_one_kind_or_none_stay_as_they_are(kind: str) -> None:
    request = msgspec.structs.replace(spec(1000), kind=kind)
    assert with_named_kinds(request, {kind or "a100": 4}) == request


def test_of_several_kinds_the_head_chooses() -> None:
    assert with_named_kinds(job("a100", "v100"), {"a100": 4, "v100": 0}) == job("a100", "v100")


def test_any_is_left_to_the_head_unless_a_kind_is_called_so() -> None:
    request = msgspec.structs.replace(spec(1000), kind=ANY)
    assert with_named_kinds(request, {"a100": 4, "v100": 4}) == job(ANY)
    assert with_named_kinds(request, {ANY: 2, "v100": 4}).kind == ANY


def test_a_name_with_a_comma_is_still_one_kind() -> None:
    assert with_named_kinds(job("big", "fast"), {"big,fast": 2, "other": 2}).kind == "big,fast"


def test_a_kind_that_there_never_was_is_refused() -> None:
    told = r"asks for devices of kind 'h100'; the platform has a100 \(4 devices\), v100 \(0 devices\)"
    with pytest.raises(InvalidJob, match=told):
        with_named_kinds(job("a100", "h100"), {"a100": 4, "v100": 0})
