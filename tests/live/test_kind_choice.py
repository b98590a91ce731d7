"""The kind of device that a job gets which names several, or any."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import spec
from tests.examples import pick

from swell.core.record import JobRecord
from swell.live.kind_choice import with_kind
from swell.model.errors import InvalidJob
from swell.model.job import JobSpec
from swell.model.kind import ANY
from swell.model.view import JobView

KINDS = ("a100", "h100", "v100")


def job(*kinds: str, **more: int) -> JobSpec:
    return msgspec.structs.replace(spec(1000), kinds=kinds, **more)


def view(kind: str, num_held: int, step_s: float | None = None, least: int = 1) -> JobView:
    """An open job with the same script."""
    made = JobRecord(id="other", spec=job(min_workers=least), submitted_s=0.0).view()
    devices = tuple(f"{kind}.{number}" for number in range(num_held))
    return msgspec.structs.replace(
        made, kind=kind, devices=devices, workers=num_held, step_s=step_s, batch=64, min_workers=least
    )


VIEWS = st.builds(view, pick(*KINDS), st.integers(0, 4), pick(None, 0.1, 0.2), st.integers(1, 4))


@given(st.lists(pick(*KINDS), min_size=2, max_size=3, unique=True), st.lists(VIEWS, max_size=5), st.data())
def test_it_is_one_that_the_job_names(kinds: list[str], views: list[JobView], data: st.DataObject) -> None:
    devices = {kind: data.draw(st.integers(0, 8)) for kind in KINDS}
    made = with_kind(job(*kinds), devices, views)
    assert made.kind in kinds and made.kinds == tuple(kinds), "what was named stays, for the next submission"
    assert with_kind(job(*kinds), devices, views) == made


@given(VIEWS, pick("", *KINDS))
def test_jobs_that_name_one_kind_or_none_get_what_they_got(other: JobView, kind: str) -> None:
    request = msgspec.structs.replace(spec(1000), kind=kind)
    devices = {kind or "a100": 4}
    assert with_kind(request, devices, [other]) == with_kind(request, devices) == request


def test_an_idle_kind_comes_before_a_busy_one() -> None:
    devices = {"a100": 4, "v100": 4}
    assert with_kind(job("a100", "v100"), devices).kind == "a100", "the first that it names"
    assert with_kind(job("a100", "v100"), devices, [view("a100", 4)]).kind == "v100"
    assert with_kind(job("a100", "v100", min_workers=2), devices, [view("a100", 3)]).kind == "v100"


def test_devices_that_a_waiting_job_needs_are_not_idle() -> None:
    devices = {"a100": 4, "v100": 4}
    assert with_kind(job("a100", "v100"), devices, [view("a100", 0, least=4)]).kind == "v100"


def test_of_idle_kinds_it_is_the_one_on_which_its_script_was_faster() -> None:
    devices = {"a100": 4, "v100": 4}
    views = [view("a100", 2, step_s=0.2), view("v100", 1, step_s=0.1)]
    assert with_kind(job("a100", "v100"), devices, views).kind == "v100", "640 samples a second, not 160"
    views = [view("v100", 1, step_s=0.1)]
    assert with_kind(job("a100", "v100"), devices, views).kind == "a100", "nothing is known of one of them"


def test_where_all_are_busy_it_is_the_one_with_the_shorter_queue() -> None:
    views = [view("a100", 4), view("a100", 0), view("v100", 2), view("v100", 0, least=2)]
    assert with_kind(job("a100", "v100"), {"a100": 4, "v100": 2}, views).kind == "a100"


def test_any_is_each_kind_that_there_is() -> None:
    request = msgspec.structs.replace(spec(1000), kind=ANY)
    made = with_kind(request, {"a100": 4, "v100": 4}, [view("a100", 4)])
    assert (made.kind, made.kinds) == ("v100", (ANY,))
    assert with_kind(request, {ANY: 2, "v100": 4}).kind == ANY, "a kind may be called so"
    assert with_kind(request, {"a100": 4}).kind == "a100"


def test_a_name_with_a_comma_is_still_one_kind() -> None:
    assert with_kind(job("big", "fast"), {"big,fast": 2, "other": 2}).kind == "big,fast"


def test_a_kind_that_there_never_was_is_refused() -> None:
    told = r"asks for devices of kind 'h100'; the platform has a100 \(4 devices\), v100 \(0 devices\)"
    with pytest.raises(InvalidJob, match=told):
        with_kind(job("a100", "h100"), {"a100": 4, "v100": 0})
