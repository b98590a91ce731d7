"""Addresses are told exactly what they asked for, signed, at least once, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import base64
import logging
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.live.parts import Hands, spec
from tests.live.test_platform import as_if_killed, running, until
from tests.live.turns import turn
from tests.live.webhooks.receiver import Receiver, receiving
from tests.store.fresh_journal import fresh_journal
from tests.store.views import job_view

from swell.assemble import webhooks_of
from swell.live import webhooks
from swell.live.news import Addresses, NewsFinder, NewsSource
from swell.live.platform import Platform
from swell.live.webhook_messages import WebhookMessage, message_id
from swell.live.webhooks import KEPT_S, MOST_OF_ADDRESS, PREFIX, Webhooks, key_of, signature
from swell.model.event import Outcome
from swell.model.job import JobClass, Phase
from swell.model.view import JobView
from swell.model.webhook import Webhook, WebhookEvent, fault_of, place_of
from swell.store.errors import StateError
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal

SECRET = PREFIX + base64.b64encode(bytes(range(32))).decode()
ALL = tuple(WebhookEvent)
OF_DEADLINES = (WebhookEvent.FINISHED, WebhookEvent.AT_RISK, WebhookEvent.MISSED)


# ---------------------------------------------------------------- signatures and addresses
def test_a_signature_is_that_of_the_published_example() -> None:
    """Of standardwebhooks.com."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    told = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert told == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org/hook",
        "ftp://example.org/hook",
        "file:///etc/passwd",
        "https:///hook",
        "https://example.org:0/",
        "https://example.org:99999/",
        "http://[::1",
        "https://example.org/a b",
        "https://example.org/\nhost:",
        "https://exämple.org/",
        "https://example.org/" + "a" * 2000,
    ],
)
def test_what_is_no_address_is_refused_without_being_shown(url: str) -> None:
    assert fault_of(url)
    assert not url or url not in fault_of(url)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://ada:sesame@example.org/T0/B0?token=sesame", "https://example.org"),
        ("http://127.0.0.1:8080/hook", "http://127.0.0.1:8080"),
        ("http://[::1]:9/x", "http://[::1]:9"),
    ],
)
def test_of_an_address_only_its_place_is_shown(url: str, place: str) -> None:
    assert fault_of(url) == ""
    assert place_of(url) == place


# ---------------------------------------------------------------- what is told
class Finder:
    """Looks at one job at a time, and sends nothing."""

    def __init__(self, *everywhere: Webhook, of_job: Webhook | None = None) -> None:
        self.journal = fresh_journal()
        self.of_job = of_job
        self.open_jobs: list[tuple[JobView, float | None]] = []
        self.now_s = 0.0
        own = lambda job_id: (self.of_job,) if self.of_job else ()  # noqa: E731
        self.finder = NewsFinder(Addresses(everywhere), own)
        self.finder.source = NewsSource(now_s=lambda: self.now_s, open_jobs=self._wanted)

    def _wanted(self, is_wanted: Callable[[JobView], bool]) -> Any:
        return [(view, at_s) for view, at_s in self.open_jobs if is_wanted(view)]

    def of_ends(self, *ended: JobView) -> list[WebhookMessage]:
        """What is new of them."""
        messages = self.finder.of_ends(turn(ended=ended).news)
        new = self._put(messages)
        return [message for message in messages if message.id in new]

    def _put(self, messages: Sequence[WebhookMessage]) -> set[str]:
        return self.journal.put_deliveries([message.delivery for message in messages])

    def look(self, now_s: float, view: JobView, expected_s: float | None) -> list[str]:
        before = len(self.journal.deliveries())
        self.now_s, self.open_jobs = now_s, [(view, expected_s)]
        self.finder.find_news(lambda messages: bool(self._put(messages)))
        return [
            msgspec.json.decode(message, type=WebhookMessage).event
            for message in self.journal.deliveries()[before:]
        ]


def finder(*everywhere: Webhook, of_job: Webhook | None = None) -> Finder:
    return Finder(*everywhere, of_job=of_job)


def hook(url: str, *on: WebhookEvent) -> Webhook:
    return Webhook(url=url, on=on or ALL)


def told(messages: Sequence[WebhookMessage]) -> list[tuple[str, str]]:
    return [(message.url, message.event) for message in messages]


ENDS = st.sampled_from([(Phase.SUCCEEDED, True), (Phase.SUCCEEDED, False), (Phase.FAILED, False)])
SUBSETS = st.sets(st.sampled_from(ALL), min_size=1)


@given(ENDS, SUBSETS, SUBSETS, st.sampled_from(["", "ana"]))
def test_each_address_hears_exactly_what_it_asked_for(
    end: tuple[Phase, bool], everywhere: set[WebhookEvent], of_job: set[WebhookEvent], user: str
) -> None:
    found = finder(hook("http://all", *everywhere), of_job=hook("http://own", *of_job))
    phase, kept = end
    view = job_view(phase=phase, kept=kept, webhook=True, user=user)
    happened = {WebhookEvent.FINISHED} | ({WebhookEvent.MISSED} - ({WebhookEvent.MISSED} if kept else set()))
    happened |= {WebhookEvent.FAILED} if phase is Phase.FAILED else set()
    expected = {("http://all", event) for event in happened & everywhere}
    expected |= {("http://own", event) for event in happened & of_job}
    messages = found.of_ends(view)
    assert set(told(messages)) == expected
    assert len({message.id for message in messages}) == len(messages) == len(expected)
    assert all(message.is_of_user == (user == "ana" and message.url == "http://own") for message in messages)


def test_of_a_deadline_it_is_told_once_that_it_is_at_risk_and_once_that_it_was_missed() -> None:
    found, view = finder(hook("http://all", *OF_DEADLINES)), job_view(deadline_s=100.0)
    times = [5.0 * number for number in range(30)]
    heard = [found.look(now_s, view, 101.0 if now_s > 20 else 99.0) for now_s in times]
    assert [event for events in heard for event in events] == ["at_risk", "missed"]
    assert told(found.of_ends(job_view(deadline_s=100.0, phase=Phase.SUCCEEDED, kept=False))) == [
        ("http://all", "finished")
    ]


@pytest.mark.parametrize("event", [WebhookEvent.STALLED, WebhookEvent.IDLE])
def test_a_job_that_stands_still_or_holds_idle_devices_is_told_of_once_each_time(event: WebhookEvent) -> None:
    found, times_s = finder(hook("http://all", event)), (None, 10.0, 10.0, None, 99.0)
    views = [job_view(deadline_s=None, **{f"{event}_since_s": since_s}) for since_s in times_s]
    heard = [found.look(now_s, view, None) for now_s, view in enumerate(views, 100)]
    assert heard == [[], [event], [], [], [event]]


def message(url: str, number: int = 0, created_s: float | None = None) -> WebhookMessage:
    return WebhookMessage(
        id=message_id("a", str(number), url),
        url=url,
        event=WebhookEvent.FINISHED,
        job_id=f"a-{number}",
        body='{"type":"job.finished","data":{"name":"a"}}',
        created_s=time.time() if created_s is None else created_s,
    )


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving(SECRET) as receiver:
        yield receiver


@pytest.fixture
def journal() -> SqlJournal:
    return fresh_journal()


@contextmanager
def sending(journal: Any, waits_s: list[float] | None = None) -> Iterator[Webhooks]:
    """A sender that notes for how long it would wait, and tries again at once."""

    async def sleep(seconds: float) -> None:
        if waits_s is not None:
            waits_s.append(seconds)
        await asyncio.sleep(0.001)

    sender = Webhooks(journal, key_of(SECRET), sleep=sleep)
    sender.start()
    try:
        yield sender
    finally:
        sender.stop()


def put(sender: Webhooks, journal: SqlJournal, message: WebhookMessage) -> None:
    journal.put_deliveries([message.delivery])
    sender.add(message)


def test_a_message_is_sent_until_it_is_taken(
    journal: SqlJournal, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    waits_s: list[float] = []
    receiver.statuses = [500, 302, 404]
    receiver.headers = {"location": receiver.url}
    with caplog.at_level(logging.DEBUG), sending(journal, waits_s) as sender:
        put(sender, journal, message(receiver.url))
        until(lambda: sender.counts.num_delivered == 1)
    assert waits_s == [5.0, 10.0, 20.0]
    assert (receiver.num_requests, receiver.num_gets, len(receiver.ids)) == (4, 0, 1)
    assert journal.deliveries() == []
    swells = [record.getMessage() for record in caplog.records if record.name.startswith(("swell", "httpx"))]
    assert "sesame" not in "\n".join(swells)
    assert "redirects are not followed" in "\n".join(swells)


def test_an_address_that_fails_keeps_no_other_waiting(journal: SqlJournal, receiver: Receiver) -> None:
    with sending(journal) as sender:
        put(sender, journal, message("http://127.0.0.1:1/refuses"))
        for number in range(3):
            put(sender, journal, message(receiver.url, number))
        until(lambda: len(receiver.ids) == 3)
        until(lambda: sender.counts.num_waiting == 1)
    (left,) = journal.deliveries()
    assert msgspec.json.decode(left)["url"] == "http://127.0.0.1:1/refuses"


def test_a_journal_that_was_damaged_ends_no_delivery(journal: SqlJournal, receiver: Receiver) -> None:
    with closing(sqlite3.connect(journal.path)) as damaging, sending(journal) as sender:
        damaging.execute("DROP TABLE deliveries")
        for number in range(3):
            sender.add(message(receiver.url, number))
        until(lambda: len(receiver.ids) == 3)
        until(lambda: sender.counts.num_waiting == 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_what_a_user_names_is_no_address_of_the_machine_or_its_network(
    journal: SqlJournal, receiver: Receiver, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "getproxies", dict)
    url = receiver.url.replace("127.0.0.1", host)
    with sending(journal) as sender:
        put(sender, journal, msgspec.structs.replace(message(url), is_of_user=True))
        until(lambda: sender.counts.num_dropped == 1)
        assert receiver.num_requests == 0
        put(sender, journal, message(url, 1))
        until(lambda: sender.counts.num_delivered == 1)


def test_messages_are_given_up_when_they_are_old_unwanted_or_too_many(
    journal: SqlJournal, receiver: Receiver
) -> None:
    receiver.statuses = [410, 500]
    with sending(journal) as sender:
        put(sender, journal, message(receiver.url))
        until(lambda: sender.counts.num_dropped == 1)
        put(sender, journal, message(receiver.url, 1, created_s=-KEPT_S))
        until(lambda: sender.counts.num_dropped == 2)
        for number in range(MOST_OF_ADDRESS + 5):
            sender.add(message("http://127.0.0.1:1/refuses", number))
        until(lambda: sender.counts.num_dropped >= 6)
        assert sender.counts.num_waiting <= MOST_OF_ADDRESS
    assert journal.deliveries() == []


# ---------------------------------------------------------------- a platform
def platform_with(folder: Path, hands: Hands, *everywhere: Webhook) -> AbstractContextManager[Platform]:
    journal = SqlJournal(folder / "journal.db")
    webhooks = Webhooks(journal, key_of(SECRET), Addresses(everywhere), partial(webhooks_of, journal))
    return running(folder, hands, journal, webhooks=webhooks)


def test_the_owner_of_a_job_hears_of_it_and_of_no_other(tmp_path: Path, receiver: Receiver) -> None:
    hands = Hands()
    with platform_with(tmp_path, hands) as platform:
        mine = platform.submit(spec("mine", webhook=hook(receiver.url))).id
        other = platform.submit(spec("other")).id
        until(lambda: platform.job(other).phase is Phase.RUNNING)
        for job_id in (other, mine):
            hands.deliver(hands.ended(job_id, Outcome.SUCCEEDED))
        until(lambda: receiver.told() == [("mine", "job.finished")])
        until(lambda: platform.measures().webhooks.num_delivered == 1)
    (body,) = receiver.bodies
    assert body["data"]["id"] == mine and body["data"]["phase"] == "succeeded"


def test_an_address_hears_of_a_deadline_that_passes_while_nothing_else_happens(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "LOOK_EVERY_S", 0.01)
    with platform_with(tmp_path, Hands(), hook(receiver.url, WebhookEvent.MISSED)) as platform:
        soon_s = platform.now_s() + 0.3
        platform.submit(spec("late", job_class=JobClass.SOFT, deadline_s=soon_s))
        platform.submit(spec("on-track", job_class=JobClass.SOFT, deadline_s=soon_s + 3600.0))
        until(lambda: receiver.told() == [("late", "job.missed")])
    assert receiver.bodies[0]["data"]["deadline_s"] == pytest.approx(soon_s)


def test_nothing_is_lost_and_little_is_doubled_by_a_kill(tmp_path: Path, receiver: Receiver) -> None:
    """Between the end of a job and the row that tells of it, and between that row and the delivery."""
    everywhere, hands = hook(receiver.url), Hands()
    (tmp_path / "site").mkdir()
    with platform_with(tmp_path / "site", hands, everywhere) as platform:
        ids = [platform.submit(spec(name)).id for name in "ab"]
        until(lambda: platform.job(ids[-1]).phase is Phase.RUNNING)
        receiver.statuses = [503] * 1000
        hands.deliver(hands.ended(ids[0], Outcome.SUCCEEDED))
        until(lambda: receiver.num_requests > 0)
        left, survivors = as_if_killed(tmp_path / "site", hands)
    shutil.copytree(left, unfinished := tmp_path / "unfinished")
    with closing(sqlite3.connect(unfinished / "journal.db")) as database, database:
        of_end = "UPDATE batches SET digest = NULL WHERE events LIKE '%GangEnded%'"
        assert database.execute(of_end).rowcount == 1
        assert database.execute("DELETE FROM deliveries").rowcount == 1
        database.execute("UPDATE jobs SET view = NULL")
    receiver.statuses = []
    for folder in (left, unfinished):
        receiver.bodies.clear()
        with platform_with(folder, survivors.survivors(), everywhere) as platform:
            until(lambda: receiver.told() == [("a", "job.finished")])
            until(lambda: deliveries(platform, ids[0]) != [])
            assert deliveries(platform, ids[0]) == [
                "finished, to an address of webhooks.yaml: delivered after a restart of the platform"
            ]
            assert platform.job(ids[0]).phase is Phase.SUCCEEDED
    assert len(set(receiver.ids)) == 1, "the receiver can tell that both are the same"


def is_running(platform: Platform, job_id: str) -> bool:
    return platform.job(job_id).phase is Phase.RUNNING


def has_sent(platform: Platform, number: int) -> bool:
    """So many messages, and what is noted of them is noted."""
    counts = platform.measures().webhooks
    return counts.num_delivered + counts.num_dropped == number and counts.num_waiting == 0


def deliveries(platform: Platform, job_id: str) -> list[str]:
    """What the job's story says of them."""
    return [story.text for story in platform.stories(job_id) if story.code == "webhook"]


def test_a_job_s_story_tells_of_deliveries_that_failed_and_of_no_other(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "FIRST_WAIT_S", 0.001)
    hands = Hands()
    with platform_with(tmp_path, hands) as platform:
        names = ("late", "unwanted", "at-once")
        ids = {name: platform.submit(spec(name, webhook=hook(receiver.url))).id for name in names}
        for number, (name, statuses) in enumerate(zip(names, ([503, 503], [410], []), strict=True), 1):
            until(partial(is_running, platform, ids[name]))
            receiver.statuses = statuses
            hands.deliver(hands.ended(ids[name], Outcome.SUCCEEDED))
            until(partial(has_sent, platform, number))
        place = place_of(receiver.url)
        assert deliveries(platform, ids["late"]) == [
            f"finished, to {place}: delivered after 2 failed tries (status 503)"
        ]
        assert deliveries(platform, ids["unwanted"]) == [
            f"finished, to {place}: given up: the address answered 410"
        ]
        assert deliveries(platform, ids["at-once"]) == []
        at_s = [story.at_s for story in platform.stories(ids["late"])]
        assert at_s == sorted(at_s)


def test_an_address_of_the_operator_is_not_shown_to_a_job_s_owner(
    journal: SqlJournal, receiver: Receiver
) -> None:
    receiver.statuses = [410, 410]
    with sending(journal) as sender:
        for is_of_job in (False, True):
            sent = message(receiver.url, int(is_of_job))
            put(sender, journal, msgspec.structs.replace(sent, job_id="a", is_of_job=is_of_job))
        until(lambda: sender.counts.num_dropped == 2)
    gone = "given up: the address answered 410"
    assert [story.text for story in journal.stories("a")] == [
        f"finished, to an address of webhooks.yaml: {gone}",
        f"finished, to {place_of(receiver.url)}: {gone}",
    ]


def test_who_begins_to_listen_hears_of_nothing_that_was_before(tmp_path: Path, receiver: Receiver) -> None:
    hands = Hands()
    with platform_with(tmp_path, hands) as platform:
        old = platform.submit(spec("old")).id
        until(lambda: platform.job(old).phase is Phase.RUNNING)
        hands.deliver(hands.ended(old, Outcome.SUCCEEDED))
        until(lambda: platform.job(old).phase is Phase.SUCCEEDED)
    with platform_with(tmp_path, hands, hook(receiver.url, WebhookEvent.FINISHED)) as platform:
        new = platform.submit(spec("new")).id
        until(lambda: platform.job(new).phase is Phase.RUNNING)
        hands.deliver(hands.ended(new, Outcome.FAILED))
        until(lambda: receiver.told() == [("new", "job.finished")])


def test_a_secret_that_others_could_have_read_is_not_replaced(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.webhook_secret.write_text(SECRET)
    folder.webhook_secret.chmod(0o644)
    with pytest.raises(StateError, match="chmod 600"):
        folder.ensure_webhook_secret()
    folder.webhook_secret.chmod(0o600)
    assert folder.ensure_webhook_secret() == SECRET
