"""Lists of jobs come in pages, and a limit never hides what runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.api.fake_control import FakeControl
from tests.store.views import job_view

import swell
from swell.api import client as client_module
from swell.api.client import Client
from swell.cli.selection import BY_IMPORTANCE, select
from swell.model.job import Phase
from swell.model.view import JobView
from swell.store.folder import StateFolder

#: Several were submitted at the same time; ids tell them apart.
MANY = [
    job_view(id=f"j-{number}", name="j", submitted_s=float(number // 3), phase=phase, finished_s=None)
    for number, phase in enumerate(list(Phase) * 3)
]


@pytest.fixture
def client(folder: StateFolder, control: FakeControl) -> Iterator[Client]:
    for view in MANY:
        control.put(view)
    with swell.connect(folder.path) as client:
        yield client


@pytest.mark.parametrize("page", [1, 2, 7, 1000])
def test_pages_together_are_the_whole_list(
    client: Client, control: FakeControl, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MAX_JOBS", page)
    assert client.jobs() == control.jobs()
    assert client.jobs(limit=5) == control.jobs()[-5:]
    queued = [view for view in control.jobs() if view.phase is Phase.QUEUED]
    assert client.jobs([Phase.QUEUED]) == queued


@pytest.mark.parametrize("limit", [1, 4, 8, 11, 23])
def test_a_limit_is_spent_on_what_runs_first(client: Client, control: FakeControl, limit: int) -> None:
    chosen, left_out = select(client, frozenset(Phase), None, limit)
    groups = [[view for view in chosen if view.phase in group] for group in BY_IMPORTANCE]
    every = [[view for view in control.jobs() if view.phase in group] for group in BY_IMPORTANCE]
    assert len(chosen) == min(limit, len(control.jobs()))
    for at, (shown, there) in enumerate(zip(groups, every, strict=True)):
        assert shown == there[len(there) - len(shown) :], "the newest of a group"
        assert len(shown) == len(there) or not any(groups[at + 1 :])
    assert len(chosen) + sum(left_out.values()) == len(control.jobs())


def test_a_view_is_where_it_was_submitted(client: Client) -> None:
    views: list[JobView] = client.candidates("j-1")
    assert [view.id for view in views] == ["j-1"]
    assert {view.id for view in client.candidates("j-2")} == {"j-2"}
    assert client.candidates("nothing") == []
