"""Addresses are told exactly what they asked for, signed, at least once, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.live.parts import NODE, Hands, new_core, spec
from tests.live.test_platform import as_if_killed, at_work, until
from tests.live.turns import turn
from tests.live.webhooks.receiver import Receiver, receiving
from tests.store.views import job_view

from swell.assemble import webhook_of
from swell.live import folding, turn_feed
from swell.live.platform import Platform
from swell.live.retention import PruneRequest
from swell.live.site import Site
from swell.live.webhooks import sender as sender_module
from swell.live.webhooks import webhook_events
from swell.live.webhooks.delivery_notes import FILE, DeliveryNotes
from swell.live.webhooks.message import WebhookMessage, message_id
from swell.live.webhooks.sender import FIRST_WAIT_S, KEPT_S, LONGEST_WAIT_S, Sender, wait_s
from swell.live.webhooks.signature import PREFIX, key_of, signature
from swell.live.webhooks.spool import MOST_OF_ADDRESS, Spool
from swell.live.webhooks.webhook_events import LOOK_EVERY_S, WebhookChoice, WebhookEvents
from swell.live.webhooks.webhooks import Webhooks
from swell.model.calendar import Calendar
from swell.model.errors import Unavailable
from swell.model.event import Outcome
from swell.model.job import JobClass, Phase
from swell.model.view import JobView
from swell.model.webhook import Webhook, WebhookEvent, fault_of, place_of
from swell.store.errors import StateError
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal

SECRET = PREFIX + base64.b64encode(bytes(range(32))).decode()
ALL = tuple(WebhookEvent)


# ---------------------------------------------------------------- signatures and addresses
def test_a_signature_is_that_of_the_published_example() -> None:
    """Of standardwebhooks.com."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    told = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert told == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.binary(max_size=50), st.binary(max_size=50), st.integers(0, 2**40), st.integers(0, 2**40))
def test_another_body_or_time_has_another_signature(one: bytes, other: bytes, at_s: int, then_s: int) -> None:
    key = key_of(SECRET)
    same = signature(key, "msg_1", at_s, one) == signature(key, "msg_1", then_s, other)
    assert same == ((one, at_s) == (other, then_s))


@pytest.mark.parametrize(
    "secret", ["", "sesame", PREFIX + "c2hvcnQ=", SECRET.removeprefix(PREFIX), PREFIX + "?"]
)
def test_what_can_be_guessed_is_no_secret(secret: str) -> None:
    with pytest.raises(ValueError):
        key_of(secret)


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
def finder(*hooks: Webhook, of_job: Webhook | None = None) -> WebhookEvents:
    return WebhookEvents(WebhookChoice(hooks, lambda job_id: of_job), lambda: 0.0)


def hook(url: str, *on: WebhookEvent) -> Webhook:
    return Webhook(url=url, on=on or ALL)


def told(messages: Sequence[WebhookMessage]) -> list[tuple[str, str]]:
    return [(message.url, message.event) for message in messages]


ENDS = st.sampled_from([(Phase.SUCCEEDED, True), (Phase.SUCCEEDED, False), (Phase.FAILED, False)])
SUBSETS = st.sets(st.sampled_from(ALL), min_size=1)


@given(ENDS, SUBSETS, SUBSETS)
def test_each_address_hears_exactly_what_it_asked_for(
    end: tuple[Phase, bool], everywhere: set[WebhookEvent], of_job: set[WebhookEvent]
) -> None:
    found = finder(hook("http://all", *everywhere), of_job=hook("http://own", *of_job))
    phase, kept = end
    view = job_view(phase=phase, kept=kept, webhook=True)
    happened = {WebhookEvent.FINISHED} | ({WebhookEvent.MISSED} - ({WebhookEvent.MISSED} if kept else set()))
    expected = {("http://all", event) for event in happened & everywhere}
    expected |= {("http://own", event) for event in happened & of_job}
    messages = found.of_ends(turn(ended=[view]))
    assert set(told(messages)) == expected
    assert len({message.id for message in messages}) == len(messages) == len(expected)


def test_an_address_that_is_named_twice_is_told_once() -> None:
    found = finder(hook("http://all"), of_job=hook("http://all"))
    assert len(found.of_ends(turn(ended=[job_view(phase=Phase.CANCELLED, webhook=True)]))) == 1


def look(found: WebhookEvents, now_s: float, view: JobView, expected_s: float | None) -> list[str]:
    return [
        event
        for _, event in told(found.of_open_jobs(now_s, lambda _: (now_s, [(view, expected_s)]), Calendar()))
    ]


@pytest.mark.parametrize(("urls", "wanted"), [((), [3]), (("http://all",), [1, 3])])
def test_only_jobs_are_looked_at_of_whose_deadlines_somebody_is_to_be_told(
    urls: Sequence[str], wanted: list[int]
) -> None:
    views = [job_view(deadline_s=at_s, webhook=own) for own in (False, True) for at_s in (None, 9.0)]
    choice = WebhookChoice([hook(url) for url in urls], lambda job_id: None)
    assert [number for number, view in enumerate(views) if choice.may_have_news(view)] == wanted


def test_of_a_deadline_it_is_told_once_that_it_is_at_risk_and_once_that_it_was_missed() -> None:
    found, view = finder(hook("http://all")), job_view(deadline_s=100.0)
    times = [LOOK_EVERY_S * number for number in range(30)]
    heard = [look(found, now_s, view, 101.0 if now_s > 20 else 99.0) for now_s in times]
    assert [event for events in heard for event in events] == ["at_risk", "missed"]
    assert told(
        found.of_ends(turn(ended=[job_view(deadline_s=100.0, phase=Phase.SUCCEEDED, kept=False)]))
    ) == [("http://all", "finished")]


def test_another_deadline_is_news_again_and_a_look_too_soon_is_none() -> None:
    found, view = finder(hook("http://all")), job_view(deadline_s=100.0)
    assert look(found, 0.0, view, 101.0) == ["at_risk"]
    later = msgspec.structs.replace(view, deadline_s=200.0)
    assert look(found, LOOK_EVERY_S / 2, later, 201.0) == []
    assert look(found, LOOK_EVERY_S, later, 201.0) == ["at_risk"]


def test_what_was_told_of_an_open_job_is_not_told_again_after_a_restart() -> None:
    found, view = finder(hook("http://all")), job_view(deadline_s=100.0)
    look(found, 0.0, view, 101.0)
    again = finder(hook("http://all"))
    again.go_on(msgspec.json.decode(msgspec.json.encode(found.progress(3)), type=type(found.progress(3))))
    assert look(again, 0.0, view, 101.0) == []


def test_what_could_not_be_told_is_told_later() -> None:
    faults = [OSError("a defect")]

    def of_job(job_id: str) -> Webhook | None:
        if faults:
            raise faults.pop()
        return hook("http://own")

    found, view = (
        WebhookEvents(WebhookChoice((), of_job), lambda: 0.0),
        job_view(deadline_s=100.0, webhook=True),
    )
    with pytest.raises(OSError):
        look(found, 0.0, view, 101.0)
    assert look(found, LOOK_EVERY_S, view, 101.0) == ["at_risk"]


# ---------------------------------------------------------------- delivery
@given(st.integers(1, 200))
def test_waits_double_until_they_are_as_long_as_they_get(num_failures: int) -> None:
    assert wait_s(1) == FIRST_WAIT_S
    assert wait_s(num_failures + 1) == min(LONGEST_WAIT_S, 2 * wait_s(num_failures))


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


@contextmanager
def sending(folder: Path, waits_s: list[float] | None = None) -> Iterator[Sender]:
    """A sender that notes for how long it would wait, and tries again at once."""

    async def sleep(seconds: float) -> None:
        if waits_s is not None:
            waits_s.append(seconds)
        await asyncio.sleep(0.001)

    sender = Sender(Spool(folder), key_of(SECRET), sleep=sleep)
    sender.start()
    try:
        yield sender
    finally:
        sender.stop()


def put(sender: Sender, folder: Path, message: WebhookMessage) -> None:
    Spool(folder).put(message)
    sender.add(message)


def test_a_message_is_sent_until_it_is_taken(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    waits_s: list[float] = []
    receiver.statuses = [500, 302, 404]
    receiver.headers = {"location": receiver.url}
    with caplog.at_level(logging.DEBUG), sending(tmp_path, waits_s) as sender:
        put(sender, tmp_path, message(receiver.url))
        until(lambda: sender.counts.num_delivered == 1)
    assert waits_s == [5.0, 10.0, 20.0]
    assert (receiver.num_requests, receiver.num_gets, len(receiver.ids)) == (4, 0, 1)
    assert Spool(tmp_path).messages() == []
    swells = [record.getMessage() for record in caplog.records if record.name.startswith(("swell", "httpx"))]
    assert "sesame" not in "\n".join(swells)
    assert "redirects are not followed" in "\n".join(swells)


def test_an_address_that_fails_keeps_no_other_waiting(tmp_path: Path, receiver: Receiver) -> None:
    with sending(tmp_path) as sender:
        put(sender, tmp_path, message("http://127.0.0.1:1/refuses"))
        for number in range(3):
            put(sender, tmp_path, message(receiver.url, number))
        until(lambda: len(receiver.ids) == 3)
        until(lambda: sender.counts.num_waiting == 1)
    assert [one.url for one in Spool(tmp_path).messages()] == ["http://127.0.0.1:1/refuses"]


def test_the_next_daemon_sends_what_one_has_left(tmp_path: Path, receiver: Receiver) -> None:
    for number in range(3):
        Spool(tmp_path).put(message(receiver.url, number))
    (tmp_path / "pending" / "msg_torn.json").write_text('{"id": "msg')
    (tmp_path / "pending" / "msg_garbled.json").write_bytes(b'{"id": "\xff"}')
    with sending(tmp_path) as sender:
        until(lambda: sender.counts.num_delivered == 3)
    assert len(set(receiver.ids)) == 3


def test_messages_are_given_up_when_they_are_old_unwanted_or_too_many(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.statuses = [410, 500]
    with sending(tmp_path) as sender:
        put(sender, tmp_path, message(receiver.url))
        until(lambda: sender.counts.num_dropped == 1)
        put(sender, tmp_path, message(receiver.url, 1, created_s=-KEPT_S))
        until(lambda: sender.counts.num_dropped == 2)
        for number in range(MOST_OF_ADDRESS + 5):
            sender.add(message("http://127.0.0.1:1/refuses", number))
        until(lambda: sender.counts.num_dropped >= 6)
        assert sender.counts.num_waiting <= MOST_OF_ADDRESS
    assert Spool(tmp_path).messages() == []


def test_a_message_that_cannot_be_removed_keeps_no_other_waiting(tmp_path: Path, receiver: Receiver) -> None:
    receiver.statuses = [204, 410]
    with sending(tmp_path) as sender:
        for number in range(3):
            stuck = tmp_path / "pending" / f"{message(receiver.url, number).id}.json"
            stuck.mkdir(parents=True)  # and no file, so it cannot be unlinked
            sender.add(message(receiver.url, number))
        until(lambda: (sender.counts.num_delivered, sender.counts.num_dropped) == (2, 1))
        until(lambda: sender.counts.num_waiting == 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("all_proxy", "gopher://ada:sesame@127.0.0.1:1"),
        ("all_proxy", "http://127.0.0.1:sesame"),
        ("SSL_CERT_FILE", "/sesame"),
    ],
)
def test_without_what_can_be_used_of_the_environment_it_goes_on_without(
    tmp_path: Path,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    value: str,
) -> None:
    for exception in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(exception, raising=False)
    monkeypatch.setenv(name, value)  # before one in capitals
    with sending(tmp_path) as sender:
        put(sender, tmp_path, message(receiver.url))
        until(lambda: sender.counts.num_delivered == 1)
    assert name.upper() in caplog.text and "sesame" not in caplog.text


def test_how_far_it_was_is_not_known_where_the_file_is_garbled(tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_bytes(b'{"seq": 1, "told": {"\xff": []}}')
    assert Spool(tmp_path).read_progress() is None


# ---------------------------------------------------------------- a platform
@contextmanager
def platform_with(folder: Path, hands: Hands, *everywhere: Webhook) -> Iterator[Platform]:
    journal = SqlJournal(folder / "journal.db")
    note = DeliveryNotes(folder / "jobs").note
    webhooks = Webhooks(folder / "webhooks", key_of(SECRET), everywhere, partial(webhook_of, journal), note)
    site = Site(jobs_dir=folder / "jobs", policy="one", nodes=(NODE,))
    platform = Platform(site, new_core(), journal, hands, webhooks=webhooks)
    platform.recover(journal.history())
    with at_work(platform, journal):
        yield platform


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


def test_a_job_whose_address_cannot_be_read_hides_no_other(tmp_path: Path, receiver: Receiver) -> None:
    hands = Hands()
    with platform_with(tmp_path, hands, hook(receiver.url)) as platform:
        jobs = [platform.submit(spec(name, webhook=hook(receiver.url))).id for name in "ab"]
        until(lambda: platform.job(jobs[-1]).phase is Phase.RUNNING)
        with closing(sqlite3.connect(tmp_path / "journal.db")) as database, database:
            database.execute("UPDATE submissions SET event = 'torn' WHERE job_id = ?", jobs[:1])
        for job_id in jobs:
            hands.deliver(hands.ended(job_id, Outcome.SUCCEEDED))
        until(lambda: sorted(receiver.told()) == [("a", "job.finished"), ("b", "job.finished")])


def test_an_address_hears_of_a_deadline_that_passes_while_nothing_else_happens(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_events, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(turn_feed, "LOOK_EVERY_S", 0.01)
    with platform_with(tmp_path, Hands(), hook(receiver.url, WebhookEvent.MISSED)) as platform:
        soon_s = platform.now_s() + 0.3
        platform.submit(spec("late", job_class=JobClass.SOFT, deadline_s=soon_s))
        platform.submit(spec("on-track", job_class=JobClass.SOFT, deadline_s=soon_s + 3600.0))
        until(lambda: receiver.told() == [("late", "job.missed")])
    assert receiver.bodies[0]["data"]["deadline_s"] == pytest.approx(soon_s)


def test_nothing_is_lost_and_little_is_doubled_by_a_kill(tmp_path: Path, receiver: Receiver) -> None:
    """Between the end of a job and the file that tells of it, and between that file and the delivery."""
    everywhere, hands = hook(receiver.url), Hands()
    (tmp_path / "site").mkdir()
    with platform_with(tmp_path / "site", hands, everywhere) as platform:
        ids = [platform.submit(spec(name)).id for name in "ab"]
        until(lambda: platform.job(ids[-1]).phase is Phase.RUNNING)
        shutil.copytree(tmp_path / "site" / "webhooks", early := tmp_path / "early")
        receiver.statuses = [503] * 1000
        hands.deliver(hands.ended(ids[0], Outcome.SUCCEEDED))
        until(lambda: receiver.num_requests > 0)
        left, survivors = as_if_killed(tmp_path / "site", hands)
        shutil.copytree(tmp_path / "site" / "webhooks", left / "webhooks")
        (left / "jobs" / ids[0]).mkdir(parents=True)
    unspooled = tmp_path / "unspooled"
    shutil.copytree(left, unspooled)
    shutil.rmtree(unspooled / "webhooks")
    shutil.copytree(early, unspooled / "webhooks")
    receiver.statuses = []
    for folder in (left, unspooled):
        receiver.bodies.clear()
        with platform_with(folder, survivors.survivors(), everywhere) as platform:
            until(lambda: receiver.told() == [("a", "job.finished")])
            until(lambda: deliveries(platform, ids[0]) != [])
            assert deliveries(platform, ids[0]) == [
                "finished, to an address of webhooks.yaml: delivered after a restart of the platform"
            ]
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
    monkeypatch.setattr(sender_module, "FIRST_WAIT_S", 0.001)
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
        platform.prune(PruneRequest(ended_before_s=2.0**40))
    assert not list((tmp_path / "jobs").rglob(FILE))


def test_a_note_of_a_delivery_that_was_cut_off_is_left_out_and_makes_no_folder(tmp_path: Path) -> None:
    notes, sent = DeliveryNotes(tmp_path), message("http://ada:sesame@own/?token=sesame")
    notes.note(sent, "given up", 1.0)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / sent.job_id).mkdir()
    notes.note(sent, "given up", 1.0)
    notes.note(msgspec.structs.replace(sent, is_of_job=True), "given up", 2.0)
    file = tmp_path / sent.job_id / FILE
    file.write_bytes(file.read_bytes() + b'{"at_s": 3.0, "co')
    assert [story.text for story in notes.of(sent.job_id)] == [
        "finished, to an address of webhooks.yaml: given up",
        "finished, to http://own: given up",
    ]


def test_notes_of_deliveries_are_their_owner_s_only(tmp_path: Path) -> None:
    notes, sent = DeliveryNotes(tmp_path), message("http://own/")
    file = tmp_path / sent.job_id / FILE
    file.parent.mkdir()
    notes.note(sent, "given up", 1.0)
    assert file.stat().st_mode & 0o777 == 0o600 and len(notes.of(sent.job_id)) == 1


def test_who_begins_to_listen_hears_of_nothing_that_was_before(tmp_path: Path, receiver: Receiver) -> None:
    hands = Hands()
    with platform_with(tmp_path, hands) as platform:
        old = platform.submit(spec("old")).id
        until(lambda: platform.job(old).phase is Phase.RUNNING)
        hands.deliver(hands.ended(old, Outcome.SUCCEEDED))
        until(lambda: platform.job(old).phase is Phase.SUCCEEDED)
    with platform_with(tmp_path, hands, hook(receiver.url)) as platform:
        new = platform.submit(spec("new")).id
        until(lambda: platform.job(new).phase is Phase.RUNNING)
        hands.deliver(hands.ended(new, Outcome.FAILED))
        until(lambda: receiver.told() == [("new", "job.finished")])


def test_a_look_before_the_first_turn_tells_times_of_the_calendar(tmp_path: Path) -> None:
    webhooks = Webhooks(tmp_path, key_of(SECRET), [hook("http://127.0.0.1:1/")], lambda job_id: None)
    late, calendar = job_view(deadline_s=100.0), Calendar(offsets=((0.0, 1e9),))
    webhooks.begin(lambda _: (200.0, [(late, None)]), lambda: 200.0, lambda: calendar, 0)
    webhooks.look()
    (message,) = Spool(tmp_path).messages()
    assert msgspec.json.decode(message.body)["data"]["deadline_s"] == 1e9 + 100.0
    webhooks.stop()


def test_what_is_not_heard_yet_is_not_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hands, is_heard, request = Hands(), threading.Event(), PruneRequest(ended_before_s=2.0**40)
    monkeypatch.setattr(Webhooks, "hear", lambda self, turn: is_heard.wait())
    with platform_with(tmp_path, hands) as platform, ThreadPoolExecutor() as threads:
        job_id = platform.submit(spec()).id
        try:
            until(lambda: platform.job(job_id).phase is Phase.RUNNING)
            hands.deliver(hands.ended(job_id, Outcome.SUCCEEDED))
            until(lambda: platform.job(job_id).phase is Phase.SUCCEEDED)
            with monkeypatch.context() as hurried:
                hurried.setattr(folding, "PRUNABLE_WITHIN_S", 0.01)
                with pytest.raises(Unavailable, match="try again"):
                    platform.prune(request)
            pruned = threads.submit(platform.prune, request)
        finally:
            is_heard.set()
        assert [job.job_id for job in pruned.result(20)] == [job_id]


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.create()
    secret = folder.ensure_webhook_secret()
    assert len(key_of(secret)) == 32 and folder.ensure_webhook_secret() == secret
    assert folder.webhook_secret.stat().st_mode & 0o777 == 0o600
    assert secrets.compare_digest(secret, folder.webhook_secret.read_text())


def test_a_secret_that_others_could_have_read_is_not_replaced(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.webhook_secret.write_text(SECRET)
    folder.webhook_secret.chmod(0o644)
    with pytest.raises(StateError, match="chmod 600"):
        folder.ensure_webhook_secret()
    folder.webhook_secret.chmod(0o600)
    assert folder.ensure_webhook_secret() == SECRET
