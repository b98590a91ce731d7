"""What is read off a journal while no platform runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from tests.live.parts import NODE, PROFILE, spec

from swell.assemble import (
    _fold_under_last_settings,
    _webhooks,
    open_platform,
    prune_left_behind,
    replay_journal,
    unended_jobs,
)
from swell.core.platform_core import PlatformCore
from swell.executors.local.devices import DeviceError
from swell.live.news import Addresses
from swell.live.pruning import PruneRequest
from swell.live.recovery import digest
from swell.live.webhook_messages import WebhookMessage
from swell.model.command import AnyCommand, LaunchGang, Reconfigure
from swell.model.event import (
    AnyEvent,
    DrainRequested,
    GangEnded,
    GangStarted,
    GangSuspended,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    Opened,
    Outcome,
)
from swell.model.job import Phase
from swell.model.webhook import Webhook
from swell.platform_options import PlatformOptions
from swell.scheduler import new_core
from swell.settings import Settings
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal


def take(
    core: PlatformCore, journal: SqlJournal, *batches: Sequence[AnyEvent], is_finished: bool = True
) -> list[AnyCommand]:
    """As the daemon does; returns what was commanded. `is_finished`: else it is killed then."""
    told: list[AnyCommand] = []
    for batch in batches:
        journal.append(batch)
        commands = core.handle(batch)
        if is_finished:
            journal.finish(journal.last_seq, digest(commands), core.ended_views(), core.stories())
        told += commands
    return told


def two_jobs(core: PlatformCore, journal: SqlJournal, **changes: int) -> None:
    """`a` (pid 7) and `b` (pid 8) have a device each from second 3 on."""
    arrivals = [JobSubmitted(at_s=1.0, job_id=name, spec=spec(name, **changes)) for name in "ab"]
    trials = [JobProfiled(at_s=2.0, job_id=name, profile=PROFILE) for name in "ab"]
    commands = take(
        core,
        journal,
        [Opened(at_s=1.0, policy="elasticflow")],
        [NodeJoined(at_s=1.0, node=NODE)],
        arrivals,
        trials,
    )
    assert {command.job_id for command in commands if isinstance(command, LaunchGang)} == {"a", "b"}
    pids = {"a": 7, "b": 8}
    started = [GangStarted(at_s=3.0, job_id=name, generation=1, steps=0, pids=(pids[name],)) for name in pids]
    take(core, journal, started)


@pytest.mark.parametrize("is_folded", [False, True])
def test_who_was_not_suspended_is_in_the_journal(tmp_path: Path, is_folded: bool) -> None:
    core, journal = new_core(), SqlJournal(StateFolder(tmp_path).journal)
    two_jobs(core, journal, max_workers=1)
    suspended = [GangSuspended(at_s=5.0, job_id="b", generation=1, steps=3)]
    take(core, journal, [DrainRequested(at_s=4.0)], suspended)
    if is_folded:
        journal.fold(core.save())
    journal.close()

    jobs = unended_jobs(tmp_path)
    assert [(job.id, job.phase.holds_devices, job.live_pids) for job in jobs] == [
        ("a", True, (7,)),
        ("b", False, ()),
    ]
    assert jobs[1].phase is Phase.QUEUED
    assert replay_journal(tmp_path).num_batches == (0 if is_folded else 7)


RESTLESS = Settings(given={"min_hold_s": 0.0})
EVERYWHERE = Addresses((Webhook(url="http://127.0.0.1:1/"),))


def to_be_told(folder: StateFolder) -> list[str]:
    """Jobs of which the next platform tells."""
    with closing(SqlJournal(folder.journal)) as journal:
        messages = journal.deliveries()
    return [msgspec.json.decode(message, type=WebhookMessage).job_id for message in messages]


@pytest.fixture
def restless(tmp_path: Path) -> tuple[StateFolder, PlatformCore]:
    """A journal that leads elsewhere under default settings, and the head that handled it.

    Its platform was killed before it wrote what came of the last batch.
    """
    folder = StateFolder(tmp_path)
    folder.write_options(
        PlatformOptions(devices="cpu:2", policy="elasticflow", preload=(), settings=RESTLESS.changed)
    )
    core, journal = new_core(settings=RESTLESS), SqlJournal(folder.journal)
    two_jobs(core, journal, max_workers=2)
    ended = GangEnded(at_s=3.5, job_id="b", generation=1, outcome=Outcome.SUCCEEDED, steps=100, message="")
    commands = take(core, journal, [ended], is_finished=False)
    assert [type(command) for command in commands].count(Reconfigure) == 1, "after half a second"
    journal.close()
    return folder, core


def take_next(folder: StateFolder, core: PlatformCore) -> None:
    """One more batch, which is answered otherwise under default settings."""
    ended = GangEnded(at_s=4.0, job_id="a", generation=2, outcome=Outcome.LOST, steps=10, message="")
    with closing(SqlJournal(folder.journal)) as journal:
        assert take(core, journal, [ended])


def test_a_journal_is_replayed_under_its_own_settings(restless: tuple[StateFolder, PlatformCore]) -> None:
    folder, core = restless
    take_next(folder, core)
    assert replay_journal(folder.path).is_equal
    folder.options.unlink()
    assert not replay_journal(folder.path).is_equal, "the settings made the difference"


def test_other_settings_begin_with_what_came_of_the_last(restless: tuple[StateFolder, PlatformCore]) -> None:
    folder, core = restless
    journal = SqlJournal(folder.journal)
    webhooks = _webhooks(folder, journal, EVERYWHERE)
    _fold_under_last_settings(folder, journal, RESTLESS, webhooks)
    assert len(list(journal.history().entries)) == 6, "nothing changed"
    _fold_under_last_settings(folder, journal, Settings(), webhooks)
    webhooks.stop()
    assert to_be_told(folder) == ["b"]
    history = journal.history()
    assert list(history.entries) == []
    found = new_core()
    assert history.state is not None
    found.load(history.state)
    assert [(view.id, view.generation, view.devices) for view in found.views()] == [
        (view.id, view.generation, view.devices) for view in core.views() if not view.phase.is_end
    ]
    assert [view.id for view in journal.archived_jobs()] == ["b"]
    journal.close()


@pytest.mark.parametrize("told", [["b"], []])
def test_what_a_killed_platform_has_not_told_is_told_though_its_jobs_are_pruned(
    restless: tuple[StateFolder, PlatformCore], told: list[str]
) -> None:
    folder, core = restless
    if not told:  # it was killed a moment later
        with closing(SqlJournal(folder.journal)) as journal:
            journal.finish(6, "", core.ended_views(), core.stories())
    pruned = prune_left_behind(folder.path, PruneRequest(job_ids=("b",)), lambda ended: (), EVERYWHERE)
    assert [job.job_id for job in pruned] == ["b"]
    assert to_be_told(folder) == told


def test_a_new_folder_has_nothing_to_fold(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    journal = SqlJournal(folder.journal)
    webhooks = _webhooks(folder, journal, EVERYWHERE)
    _fold_under_last_settings(folder, journal, RESTLESS, webhooks)
    webhooks.stop()
    assert (journal.last_seq, journal.history().state) == (0, None)
    journal.close()


def test_a_platform_without_devices_needs_hosts_that_can_join(tmp_path: Path) -> None:
    folder, options = StateFolder(tmp_path / "state"), PlatformOptions(devices="none")
    with pytest.raises(DeviceError, match="add `--listen ADDRESS`"), open_platform(folder, options):
        raise AssertionError("it was opened")
    assert not folder.path.exists()
