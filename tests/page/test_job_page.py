"""The page of one job, without a browser: what stands in it, and who is offered what."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.views import job_view

from swell.api.logs import LogOwner, read_tail_offsets
from swell.api.page.job_page import MOST_SHOWN_BYTES, read_checkpoints
from swell.api.page.rows import job_row
from swell.api.role import Role
from swell.api.user_list import OWNER, ApiUser
from swell.api.words import promise_words
from swell.model.code import CodeFile, CodeTree, decode_tree
from swell.model.job import Elasticity, FixedTerms, JobClass, Phase
from swell.model.resize import Resize, Verdict
from swell.model.view import JobView
from swell.store.code_store import CodeStore
from swell.wire.checkpoint_files import checkpoint_name

from .conftest import Served

WILD = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`$(rm -rf ~)"
NOW_S = 1_800_000_050.0

RESIZE = Resize(
    at_s=1_800_000_020.0,
    before=1,
    after=2,
    verdict=Verdict.PAID,
    reason_code="promised",
    reason="2 workers keep its promise",
    expected_cost_s=0.3,
    expected_gain_s=20.0,
    wait_s=1.2,
    cost_s=0.21,
    gain_s=14.0,
    held_s=30.0,
    is_held=True,
    rate_before_per_s=10.0,
    rate_after_per_s=19.0,
)


class Elements(HTMLParser):
    """Tags with their attributes, and all text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def having(self, name: str) -> list[str]:
        """Values of this attribute."""
        return [value for _, attrs in self.tags if (value := attrs.get(name))]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@contextmanager
def opened_by(served: Served, caller: ApiUser) -> Iterator[httpx.Client]:
    with served.browser() as client:
        assert client.get(served.page.link(caller)).status_code == 303
        yield client


def look(served: Served, job_id: str = "digits-1", caller: ApiUser = OWNER) -> Elements:
    with opened_by(served, caller) as client:
        answer = client.get(f"/jobs/{job_id}")
    assert answer.status_code == 200
    return Elements(answer.text)


def test_it_says_what_show_and_explain_say(served: Served) -> None:
    served.control.put(job_view(resize_history=(RESIZE,), warnings={"speed": "one worker is slow"}))
    text = look(served).text
    for told in (
        "digits",
        "/home/ada/train.py --lr 0.1",
        "2 workers keep its promise with 80 s to spare",
        "1 → 2",
        "0.21 s expected 0.3 s",
        "+14 s expected +20 s",
        "paid",
        "1, took 0.21 s from training.",
        "speed: one worker is slow",
        "64 samples a step, 1000 steps",
        "No checkpoint yet.",
        "It runs its files as they are",
    ):
        assert told in text, told


def test_markup_in_what_users_gave_is_text(served: Served) -> None:
    view = job_view(
        name=WILD,
        tenant=WILD,
        args=(WILD,),
        reason=WILD,
        message=WILD,
        warnings={WILD: WILD},
        resize_history=(RESIZE,),
        refusal=WILD,
        kind=WILD,
        links={WILD: (url := f"https://example.org/?{WILD}")},
    )
    served.control.put(view)
    found = look(served)
    assert [attrs.get("rel") for tag, attrs in found.tags if attrs.get("href") == url] == [
        "noopener noreferrer"
    ]
    assert "img" not in {tag for tag, _ in found.tags}
    scripts = [attrs for tag, attrs in found.tags if tag == "script"]
    assert all(attrs.get("src") or attrs.get("type") == "application/json" for attrs in scripts)
    assert not [name for _, attrs in found.tags for name in attrs if name.startswith("on") or name == "style"]
    assert WILD in found.texts


def test_the_state_of_a_page_can_be_read_whatever_a_job_is_called(served: Served) -> None:
    served.control.put(job_view(name=WILD, loss=math.nan, metrics={"a": math.inf, "b": -math.inf}))
    found = look(served)
    state = next(json.loads(text) for text in found.texts if text.startswith("{"))
    assert state["row"]["name"] == WILD
    assert state["row"]["loss"] is None


def test_an_unknown_job_is_said_to_be_unknown(served: Served) -> None:
    served.control.put(job_view())
    with served.opened() as client:
        for name in ("nothing", "%3Cb%3E", "%2E%2E%2Fx", "a" * 3000):
            answer = client.get(f"/jobs/{name}")
            assert answer.status_code == 404
            assert "<b>" not in answer.text
        answer = client.get("/jobs/nothing")
        assert answer.headers["content-type"].startswith("text/html")
        assert "There is no job nothing" in answer.text
        assert 'href="/jobs/digits-1"' in client.get("/jobs/digits").text
        assert client.get("/page/jobs/nothing/code?file=x").status_code == 404


@pytest.mark.parametrize(
    ("phase", "offered"),
    [
        (Phase.RUNNING, {"do-hold", "do-prioritize", "do-promise", "do-cancel"}),
        (Phase.QUEUED, {"do-hold", "do-prioritize", "do-promise", "do-cancel"}),
        (Phase.FAILED, {"do-retry", "do-continue"}),
        (Phase.CANCELLED, {"do-retry", "do-continue"}),
        (Phase.REJECTED, {"do-retry"}),
        (Phase.SUCCEEDED, set()),
    ],
)
def test_what_can_be_done_with_a_job_is_offered(served: Served, phase: Phase, offered: set[str]) -> None:
    ended = {"finished_s": NOW_S, "kept": None} if phase.is_end else {}
    served.control.put(job_view(phase=phase, tenant="vision", **ended))
    assert set(look(served).having("data-opens")) == offered
    ada = served.user("ada", Role.SUBMIT, "vision")
    assert set(look(served, caller=ada).having("data-opens")) == offered
    for caller in (served.user("bob", Role.SUBMIT, "speech"), served.user("eve", Role.VIEW)):
        found = look(served, caller=caller)
        assert not found.having("data-opens")
        assert not found.having("data-path")


def test_commands_beside_the_buttons_are_quoted(served: Served) -> None:
    served.control.put(job_view(id="it's $HOME"))
    commands = look(served, "it's%20$HOME").having("data-command")
    assert [command.split(" ")[1] for command in commands] == [
        *("hold", "resume", "accept-differences", "prioritize", "promise", "cancel", "continue"),
        *("retry", "retry"),
    ]
    for command in commands:
        assert "'it'\"'\"'s $HOME'" in command


# ---------------------------------------------------------------- files
def test_the_snapshot_of_its_code_can_be_read_and_nothing_else(served: Served, tmp_path: Path) -> None:
    job_dir = _job_folder(served)
    source = tmp_path / "source"
    (source / "parts").mkdir(parents=True)
    (source / "train.py").write_text(f"print({WILD!r})\n")
    (source / "parts" / "data.bin").write_bytes(b"\xff\xfe\x00")
    (source / "large.txt").write_text("x" * (MOST_SHOWN_BYTES + 1))
    store = CodeStore(job_dir.parent.parent)
    digest = store.take_snapshot(str(source), str(source / "train.py")).digest
    store.bind("digits-1", digest)
    planted = CodeTree(roots=(), files={"/x": CodeFile("../../../secret", 1)}, links={}, sources_digest="")
    (job_dir / "code.json").unlink()
    (job_dir / "code.json").write_bytes(msgspec.json.encode(planted))
    with pytest.raises(msgspec.ValidationError, match="matching regex"):
        decode_tree(msgspec.json.encode(planted))
    served.control.put(job_view(code=digest, entry=str(source / "train.py")))
    found = look(served)
    assert found.having("data-file") == [f"{source}/train.py", f"{source}/parts/data.bin"]
    assert "Snapshot of its code: 3 files, 262." in found.text
    with served.opened() as client:

        def ask(path: object) -> httpx.Response:
            return client.get("/page/jobs/digits-1/code", params={"file": str(path)})

        assert ask(source / "train.py").json()["text"] == f"print({WILD!r})\n"
        assert "is not a text" in ask(source / "parts" / "data.bin").json()["error"]
        assert "the page shows files up to" in ask(source / "large.txt").json()["error"]
        for path in ("/x", "/etc/passwd", f"{source}/../source/train.py", "", digest):
            assert ask(path).status_code == 404
            assert "not in the snapshot" in ask(path).json()["error"]
    eve = served.user("eve", Role.VIEW)
    assert not look(served, caller=eve).having("data-file")
    with opened_by(served, eve) as client:
        answer = client.get("/page/jobs/digits-1/code", params={"file": f"{source}/train.py"})
        assert answer.status_code == 403
        assert "users who may cancel it" in answer.json()["error"]


def test_checkpoints_are_listed_newest_first(served: Served) -> None:
    folder = _job_folder(served) / "checkpoints"
    folder.mkdir()
    names = [checkpoint_name(steps, steps, f"{steps:064x}") for steps in (100, 2000, 300)]
    for name in names:
        (folder / name).write_bytes(b"x" * 1500)
    (folder / "draft").write_bytes(b"x")
    served.control.put(job_view())
    found, number = read_checkpoints(folder.parent)
    assert ([checkpoint.steps for checkpoint in found], number) == ([2000, 300, 100], 3)
    text = look(served).text
    assert "1.5 kB" in text
    assert all(name in text for name in names)
    assert "final model" not in text
    served.control.put(job_view(phase=Phase.SUCCEEDED, finished_s=NOW_S, kept=True, steps=2000))
    page = look(served)
    assert "Download the final model" in page.text
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a" and attrs.get("class") == "button"]
    assert links == [f"/page/jobs/digits-1/checkpoint?file={names[1]}"]
    of_several = folder / checkpoint_name(3000, 3000, "f" * 64, suffix="")
    of_several.mkdir()
    for name in ("manifest.json", "__0_0.distcp"):
        (of_several / name).write_bytes(b"x" * 1000)
    text = look(served).text
    assert of_several.name in text and "2.0 kB" in text
    assert f"file={of_several.name}" not in text and "Download the final model" not in text


def test_who_may_cancel_a_job_may_keep_its_checkpoints_and_no_other_file(
    served: Served, tmp_path: Path
) -> None:
    folder = _job_folder(served) / "checkpoints"
    folder.mkdir()
    name, link = (checkpoint_name(steps, steps, f"{steps:064x}") for steps in (100, 200))
    (folder / name).write_bytes(b"weights \x00")
    (tmp_path / "secret").write_text("secret")
    (folder / link).symlink_to(tmp_path / "secret")
    os.mkfifo(folder / checkpoint_name(300, 300, "0" * 64))
    served.control.put(job_view(tenant="vision"))
    path = "/page/jobs/digits-1/checkpoint"
    for caller, is_given in (
        (OWNER, True),
        (served.user("ada", Role.SUBMIT, "vision"), True),
        (served.user("bob", Role.SUBMIT, "speech"), False),
        (served.user("eve", Role.VIEW), False),
    ):
        links = look(served, caller=caller).having("href")
        assert (f"{path}?file={name}" in links) is is_given
        with opened_by(served, caller) as client:
            answer = client.get(path, params={"file": name})
            assert answer.status_code == (200 if is_given else 403)
            assert (answer.content == b"weights \x00") is is_given
    with served.opened() as client:
        answer = client.get(path, params={"file": name})
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
        folder.rename(tmp_path / "of another tenant")
        folder.symlink_to(tmp_path / "of another tenant")
        for other in ("", "none", f"../checkpoints/{name}", name, link, "/etc/passwd"):
            assert client.get(path, params={"file": other}).status_code == 404
        assert client.get("/page/jobs/none/checkpoint", params={"file": name}).status_code == 404


def _job_folder(served: Served) -> Path:
    """As of a state folder: the fake platform keeps the folders of jobs beside each other."""
    served.control.folder = served.control.folder / "state" / "jobs"
    job_dir = served.control.folder / "digits-1"
    job_dir.mkdir(parents=True)
    return job_dir


# ---------------------------------------------------------------- logs
@given(st.lists(st.text("abcé\n", max_size=30), max_size=40), st.integers(1, 200))
def test_the_tail_of_a_log_begins_with_a_line(pieces: list[str], num_bytes: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        content = "".join(pieces).encode()
        (Path(name) / "worker-0.log").write_bytes(content)
        (offset,) = read_tail_offsets(Path(name), LogOwner.WORKERS, num_bytes).values()
        assert len(content) - offset <= num_bytes
        is_in_long_line = b"\n" not in content[len(content) - num_bytes :]
        assert offset == 0 or content[offset - 1 : offset] == b"\n" or is_in_long_line


# ---------------------------------------------------------------- words
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Swell has promised that it ends before its deadline. It is on track."),
        ({"estimated_finish_s": NOW_S + 200}, "The promise is at risk"),
        ({"deadline_s": None, "is_promised": False, "job_class": JobClass.BEST_EFFORT}, "It has no deadline"),
        (
            {"deadline_s": None, "is_promised": False, "reason_code": "quota"},
            "it gets what promises to other jobs leave, within its tenant's quota.",
        ),
        ({"is_promised": False, "job_class": JobClass.SOFT}, "Its deadline is soft"),
        (
            {"is_promised": False, "job_class": JobClass.SOFT, "estimated_finish_s": NOW_S + 200},
            "It is expected to be late.",
        ),
        (
            {"is_promised": False, "job_class": JobClass.SOFT, "estimated_finish_s": None},
            "Nothing that is there can run it, so no end can be named.",
        ),
        ({"is_promised": False}, "Policy edf makes no promises."),
        (
            {"is_promised": False, "is_unpromised": True, "refusal": "8 are busy"},
            "could not be promised: 8 are busy",
        ),
        ({"asked_deadline_s": NOW_S + 10}, "Another deadline is asked for"),
        ({"refusal": "8 are busy"}, "Another deadline was refused: 8 are busy The job keeps what it had."),
        ({"phase": Phase.SUCCEEDED, "finished_s": 1_800_000_150.0, "kept": True}, "it ended 30 s before"),
        (
            {"phase": Phase.SUCCEEDED, "finished_s": 1_800_000_240.0, "kept": False},
            "was missed: it ended 60 s after",
        ),
        ({"phase": Phase.CANCELLED, "finished_s": NOW_S}, "It was cancelled."),
        ({"phase": Phase.FAILED, "finished_s": NOW_S, "kept": False}, "was not kept: it failed"),
        ({"stalled_since_s": NOW_S - 90.0}, "The promise is at risk: the job makes no steps."),
    ],
)
def test_a_promise_is_told_in_words(changes: dict[str, Any], said: str) -> None:
    view = job_view(**changes)
    assert said in " ".join(promise_words(view, "edf", job_row(view, NOW_S).standing))


def test_a_command_is_shown_by_its_devices_and_is_not_offered_what_it_cannot_do(served: Served) -> None:
    sizes = {"global_batch": 1, "min_workers": 1, "max_workers": 1, "workers": 1, "devices_per_worker": 2}
    terms = {"elasticity": Elasticity.FIXED, "fixed": FixedTerms(time_s=21600.0), "booking": "b-7f2k"}
    view = job_view(args=("torchrun", "train.py"), **sizes, **terms)

    def shown(view: JobView) -> tuple[Elements, set[str]]:
        served.control.put(view)
        page = look(served)
        return page, set(page.having("data-opens"))

    page, actions = shown(view)
    assert "Devices 2" in page.text and "torchrun train.py" in page.text and "booking b-7f2k" in page.text
    hidden = {
        attrs.get("aria-labelledby") for tag, attrs in page.tags if tag == "section" and "hidden" in attrs
    }
    assert {"curves-title", "resizes-title", "files-title"} <= hidden
    assert "do-cancel" in actions and "do-hold" not in actions
    assert (
        "do-hold" in shown(msgspec.structs.replace(view, fixed=FixedTerms(time_s=9.0, may_suspend=True)))[1]
    )
    ended = msgspec.structs.replace(view, phase=Phase.TIMED_OUT, finished_s=NOW_S, devices=())
    page, actions = shown(ended)
    assert "timed-out" in page.text and "do-retry" in actions and "do-continue" not in actions
