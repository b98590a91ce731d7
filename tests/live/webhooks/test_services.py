"""Services that people read: what they are told, and that a user's address reaches nothing of the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.live.http_server import Reply, serving
from tests.live.test_platform import until
from tests.live.webhooks.test_webhooks import Finder, hook, put, sending
from tests.store.fresh_journal import fresh_journal
from tests.store.views import job_view

from swell.live import webhooks
from swell.live.board import TurnResult
from swell.live.news import GROUP_EVERY_S, NewsSource, node_news
from swell.live.webhook_messages import WebhookMessage, latest_run
from swell.model.event import NodeLost, NodeWarned
from swell.model.job import FixedTerms, Phase
from swell.model.usage import SlowDevice
from swell.model.view import JobView
from swell.model.webhook import OF_NODES, Webhook, WebhookEvent

SERVICE = Webhook(url="slack://a/b/c", is_service=True)


@pytest.fixture
def posts() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Address of a service of this machine, as Apprise has it, and what it was sent."""
    sent: list[dict[str, str]] = []

    def answer(_method: str, _path: str, _headers: Message, body: bytes) -> Reply:
        sent.append(json.loads(body))
        return Reply(200 if len(sent) > 1 else 503, {})

    with serving(answer) as address:
        yield address.replace("http", "json") + "/sesame", sent


def message(url: str, *, is_of_user: bool) -> WebhookMessage:
    event = WebhookEvent.FINISHED
    body = "digits has finished\nat noon"
    return WebhookMessage(
        id=f"msg_{is_of_user}",
        url=url,
        event=event,
        job_id="a",
        body=body,
        created_s=4e9,
        is_of_job=True,
        is_of_user=is_of_user,
        is_service=True,
    )


def test_a_text_is_delivered_until_it_is_taken_and_a_user_s_never_to_this_machine(
    posts: tuple[str, list[dict[str, str]]], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "FIRST_WAIT_S", 0.05)
    (url, sent), journal = posts, fresh_journal()
    with caplog.at_level("DEBUG"), sending(journal) as sender:
        for is_of_user in (True, False):
            for address in (url, url.replace("127.0.0.1", "localhost")) if is_of_user else (url,):
                told = message(address, is_of_user=is_of_user)
                put(sender, journal, msgspec.structs.replace(told, id=told.id + address[:12]))
        until(lambda: (sender.counts.num_delivered, sender.counts.num_dropped) == (1, 2))
    assert [(one["title"], one["message"]) for one in sent] == [("digits has finished", "at noon")] * 2
    text = caplog.text + "".join(story.text for story in journal.stories("a"))
    assert "sesame" not in text and "finished, to json: given up" in text
    assert "delivered after 1 failed try (the service did not take the text (status 503))" in text


ATTEMPTS = {
    "socket.create_connection(('127.0.0.1', PORT))": "private network",
    "socket.create_connection(('localhost', PORT))": "private network",
    "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))": "private network",
    "socket.socket(socket.AF_UNIX).connect('/run/x.sock')": "private network",
    "socket.socket().connect(('localhost', PORT))": "private network",
    "open(SECRET).read()": "open is refused",
    "open(LINK).read()": "open is refused",
    "os.open(SECRET, os.O_RDONLY)": "open is refused",
    "open('/etc/passwd').read()": "open is refused",
    "open(SECRET, 'w')": "open is refused",
    "subprocess.run(['/bin/true'])": "is refused",
    "os.system('true')": "os.system is refused",
    "syslog.openlog('x')": "syslog.openlog is refused",
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_the_process_for_a_user_s_address_reaches_neither_files_nor_the_machine(
    attempt: str, tmp_path: Path
) -> None:
    secret, link = tmp_path / "token", tmp_path / "link"
    secret.write_text("sesame")
    link.symlink_to(secret)
    program = f"""
import os, socket, subprocess, sys, syslog
from swell.live.service_process import Border
SECRET, LINK, PORT = {str(secret)!r}, {str(link)!r}, 9
sys.addaudithook(Border())
open(socket.__file__).close()
try:
    {attempt}
except PermissionError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, check=True)
    assert ATTEMPTS[attempt] in done.stdout
    assert secret.read_text() == "sesame"


# ---------------------------------------------------------------- what is told
def ended(number: int, phase: Phase = Phase.SUCCEEDED, submitted_s: float = 0.0) -> JobView:
    return job_view(
        id=f"lr-{number}",
        name=f"lr-{number}",
        group="lr",
        phase=phase,
        submitted_s=submitted_s,
        finished_s=9.0,
    )


class Group(Finder):
    """A group of which jobs end one after the other, with an archive."""

    def __init__(self) -> None:
        super().__init__(SERVICE)
        self.archive: list[JobView] = []
        source = self.finder.source
        self.finder.source = NewsSource(
            now_s=source.now_s, open_jobs=source.open_jobs, ended_jobs=lambda query: self.archive
        )

    def end(self, now_s: float, view: JobView | None, still_open: list[JobView]) -> list[str]:
        """The first lines of what is told by then."""
        before = len(self.journal.deliveries())
        self.now_s, self.open_jobs = now_s, [(one, None) for one in still_open]
        if view is not None:
            assert self.of_ends(view) == []
            self.archive.append(view)
        self.finder.find_news(lambda messages: bool(self._put(messages)))
        told = self.journal.deliveries()[before:]
        return [msgspec.json.decode(one, type=WebhookMessage).body.split("\n")[0] for one in told]


def test_a_group_is_told_of_at_its_end_and_once_in_a_while_of_failures() -> None:
    group = Group()
    jobs = [job_view(id=f"lr-{number}", group="lr", submitted_s=0.0, deadline_s=None) for number in range(9)]
    at_s = 10 * GROUP_EVERY_S
    assert group.end(at_s, ended(0), jobs[1:]) == []
    assert group.end(at_s + 1, ended(1, Phase.FAILED), jobs[2:]) == ["lr: 1 of 9 jobs failed"]
    assert group.end(at_s + 2, ended(2, Phase.TIMED_OUT), jobs[3:]) == []
    assert group.end(at_s + 3, None, jobs[3:]) == []
    assert group.end(at_s + 1 + GROUP_EVERY_S, None, jobs[3:]) == ["lr: 2 of 9 jobs failed"]
    assert group.end(at_s + 2 * GROUP_EVERY_S, None, jobs[3:]) == []
    for number in range(3, 8):
        assert group.end(at_s + 3 * GROUP_EVERY_S, ended(number), jobs[number + 1 :]) == []
    assert group.end(at_s + 3 * GROUP_EVERY_S, ended(8), []) == ["lr: all 9 jobs have ended"]
    body = msgspec.json.decode(group.journal.deliveries()[-1], type=WebhookMessage).body
    assert "7 succeeded, 1 failed, 1 timed-out" in body and "failed: lr-1, lr-2" in body
    assert group.end(at_s + 9 * GROUP_EVERY_S, None, []) == []


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50) | st.none()), min_size=1))
def test_the_latest_use_of_a_group_begins_once_all_jobs_before_have_ended(
    times: list[tuple[int, int | None]],
) -> None:
    jobs = [
        job_view(submitted_s=float(begin), finished_s=None if took is None else float(begin + took))
        for begin, took in times
    ]
    latest = latest_run(jobs)
    first_s = min(view.submitted_s for view in latest)
    older = [view for view in jobs if view.submitted_s < first_s]
    assert all(view.finished_s is not None and view.finished_s < first_s for view in older)
    assert len(older) + len(latest) == len(jobs)
    last_s = first_s
    for view in latest:
        assert view.submitted_s <= last_s
        last_s = max(last_s, 1e9 if view.finished_s is None else view.finished_s)


def test_a_service_that_wants_no_ends_is_told_of_a_group_s_job_that_ends_without_its_promise() -> None:
    missed = Webhook(url=SERVICE.url, on=(WebhookEvent.MISSED,), is_service=True)
    view = job_view(group="lr", phase=Phase.FAILED, kept=False)
    assert [one.event for one in Finder(missed).of_ends(view)] == ["missed"]
    assert Finder(SERVICE).of_ends(view) == []


def test_of_one_end_a_service_is_told_the_gravest_news_alone() -> None:
    found = Finder(SERVICE, hook("http://all"))
    view = job_view(phase=Phase.FAILED, kept=False, message="Traceback\nValueError: no", user="ana")
    texts = [one.body for one in found.of_ends(view) if one.is_service]
    assert [text.split("\n")[0] for text in texts] == ["digits has failed"] and "ValueError: no" in texts[0]
    assert len(found.journal.deliveries()) == 1 + 3


def test_the_end_of_a_session_is_told_with_its_reason() -> None:
    view = job_view(phase=Phase.SUCCEEDED, reason="was idle for 20 s")
    (told,) = Finder(SERVICE).of_ends(view)
    assert told.body.split("\n")[-1] == "was idle for 20 s"


def test_a_start_and_the_end_of_a_session_are_told_once_and_no_start_of_long_ago() -> None:
    found = Finder(SERVICE)
    terms = FixedTerms(time_s=3600.0, is_session=True)
    view = job_view(started_s=100.0, deadline_s=None, fixed=terms)
    heard = [found.look(now_s, view, None) for now_s in (101.0, 102.0, 3000.0, 3101.0, 3102.0)]
    assert heard == [["started"], [], [], ["session_ending"], []]
    assert Finder(SERVICE).look(1000.0, view, None) == []


def test_a_lost_an_ill_and_a_slow_node_are_told_to_the_platform_s_addresses_alone() -> None:
    found = Finder(SERVICE, hook("http://all"), of_job=hook("http://own"))
    lost = NodeLost(at_s=5.0, name="node1", cause="gave no sign of life")
    ill = NodeWarned(at_s=6.0, name="node2", why="device node2/0: Xid 79", is_ill=True)
    drained = NodeWarned(at_s=6.0, name="node3", why="drained")
    slow = [SlowDevice(device=one, node="node4", since_s=7.0, why="takes long") for one in ("n/0", "n/1")]
    latest = TurnResult(
        lost_nodes=[lost], warned={one.name: one for one in (ill, drained)}, slow_devices=slow
    )
    found.finder.source = NewsSource(now_s=lambda: 9.0, node_news=lambda: node_news(latest))
    for _ in range(2):
        found.finder.find_news(lambda messages: bool(found._put(messages)))
    told = [msgspec.json.decode(one, type=WebhookMessage) for one in found.journal.deliveries()]
    expected = [(url, str(event)) for event in OF_NODES for url in (SERVICE.url, "http://all")]
    assert [(one.url, str(one.event)) for one in told] == expected
    assert told[2].body.startswith("node node2 is ill") and "node2/0: Xid 79" in told[2].body
    assert '"type":"node.ill"' in told[3].body
    assert "node node4 has a slow device" in told[4].body and "n/0 takes long; device n/1" in told[4].body
    assert told[0].body.startswith("node node1 was lost") and '"type":"node.lost"' in told[1].body
