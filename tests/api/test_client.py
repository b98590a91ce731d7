from __future__ import annotations

import copy
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.api.fake_control import FakeControl
from tests.store.views import job_view

import swell
from swell.api import transport
from swell.api.client import Client, NoAnswer, NoPlatform, has_verdict
from swell.api.connections import ApiServer
from swell.api.server import create_app
from swell.api.times import parse_time
from swell.api.transport import Transport
from swell.api.unix_socket import listen
from swell.api.user_list import UserList
from swell.model.errors import InvalidJob, UnknownJob
from swell.model.job import Phase
from swell.store.curves import CurvePoint
from swell.store.folder import ApiAddress, StateFolder
from swell.tally import tally_of


@pytest.fixture
def client(folder: StateFolder) -> Iterator[Client]:
    with swell.connect(folder.path) as client:
        yield client


def test_a_job_goes_there_and_comes_back(client: Client, control: FakeControl, script: Path) -> None:
    job_id = client.submit(
        name="digits",
        script=script,
        global_batch=64,
        steps=10,
        workers="1:8",
        job_class="soft",
        deadline="now+9s",
    )
    assert client.job(job_id) == control.job(job_id)
    assert control.specs[job_id].entry == str(script)
    assert client.jobs() == control.jobs()
    assert client.stories(job_id) == control.stories(job_id)
    assert client.cluster().num_devices == 8
    client.cancel(job_id)
    assert client.wait(job_id).phase is Phase.CANCELLED


def test_times_are_of_the_zone_of_who_asks(
    client: Client, control: FakeControl, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is sent with its offset: the platform may live in another zone."""
    sent: list[dict[str, str]] = []
    call = Transport.call

    def recorded(self: Transport, *words: Any, content: bytes | None = None, **more: Any) -> bytes:
        if content is not None:
            sent.append(msgspec.json.decode(content))
        return call(self, *words, content=content, **more)

    monkeypatch.setattr(Transport, "call", recorded)
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    text, moment = "2080-01-01T21:10:00", "2080-01-01T21:10:00+09:00"
    fields: dict[str, Any] = {"script": script, "global_batch": 8, "steps": 1}
    try:
        job_id = client.submit(**fields, deadline=text)
        client.submit(**fields, deadline=datetime(2080, 1, 1, 12, 10, tzinfo=UTC))
        client.promise(job_id, deadline=text, accept_until="2080-01-01T22:10")
        client.cancel(job_id)
        client.retry(job_id, deadline=text)
        client.continue_job(job_id, deadline=text)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [one["deadline"] for one in sent] == [moment, "2080-01-01T21:10:00+09:00", *[moment] * 3]
    assert sent[2]["accept_until"] == "2080-01-01T22:10:00+09:00"


def test_what_was_submitted_tells_whether_it_is_promised(
    client: Client, control: FakeControl, script: Path
) -> None:
    """The answer is the id as before, and an offer with which the job is taken."""
    fields: dict[str, Any] = {"script": script, "global_batch": 8, "steps": 1}
    refused = client.submit(**fields, deadline="now+5s", or_nothing=True)
    assert refused == control.job(refused).id == f"{refused}" == json.loads(json.dumps(refused))
    assert not refused.promised and 60.0 < parse_time(refused.offer, 0.0) - time.time() < 95.0
    taken = client.submit(**fields, deadline=refused.offer)
    assert (taken.promised, taken.offer) == (True, "")
    again = client.retry(refused, deadline="now+5m")
    assert again.promised
    assert not client.submit(**fields).promised


def test_a_submitted_job_is_an_id_wherever_one_is_wanted(
    client: Client, control: FakeControl, script: Path
) -> None:
    first = client.submit(script=script, global_batch=8, steps=1)
    assert control.specs[client.submit(script=script, global_batch=8, steps=1, after=first)].after == (first,)
    both = client.submit(script=script, global_batch=8, steps=1, after=[first, "other"])
    assert control.specs[both].after == (first, "other")
    assert type(copy.copy(first)) is str
    client.cancel(first)
    assert [one.job_id for one in client.prune(job_ids=[first])] == [first]


def test_metrics_come_in_columns_by_name_and_time(client: Client, control: FakeControl, script: Path) -> None:
    job_id = client.submit(script=script, global_batch=64, steps=10)
    tallies = [tally_of([(1, 2.0), (2, math.nan)], num_workers=2), tally_of([(3, math.inf)], num_workers=2)]
    points = [CurvePoint(float(at), 1, at, tally) for at, tally in enumerate(tallies, 5) if tally is not None]
    control.curves = {"<b>loss</b> ": points, "other": points[:1]}
    (series,) = client.metrics(job_id, ["<b>loss</b> "]).series
    assert (series.name, series.reduction) == ("<b>loss</b> ", "rank0")
    assert (series.first_step, series.last_step, series.num_workers) == ([1, 3], [2, 3], [2, 2])
    assert (series.count, series.not_finite) == ([1, 0], [1, 1])
    assert (series.mean, series.min, series.max, series.last) == ([2.0, None],) * 4
    assert [one.name for one in client.metrics(job_id).series] == ["<b>loss</b> ", "other"]
    assert series.at_s == [5.0, 6.0]
    (other,) = client.metrics(job_id, ["other", "none"], since_s=5.5).series
    assert (other.name, other.mean) == ("other", [])
    with pytest.raises(UnknownJob):
        client.metrics("nobody-1")


def test_a_file_is_submitted_whole_or_not_at_all(client: Client, control: FakeControl, script: Path) -> None:
    jobs = script.with_name("jobs.yaml")
    good = "- {name: a, script: train.py, global_batch: 8, steps: 1}\n"
    jobs.write_text(good + "- {name: b, script: train.py, steps: 0}\n")
    before = len(control.jobs())
    with pytest.raises(InvalidJob, match=r"jobs\.yaml, line 2: steps: "):
        client.submit_file(jobs)
    large = "- {name: b, command: sleep 1, time: 1m, devices: 9}\n"
    jobs.write_text(good + large)
    with pytest.raises(InvalidJob, match="job 'b' asks for 9 devices, and the platform has 8"):
        client.submit_file(jobs)
    assert len(control.jobs()) == before
    jobs.write_text(good)
    assert [client.job(job_id).name for job_id in client.submit_file(jobs)] == ["a"]


def test_what_is_wrong_comes_back_as_what_it_is(client: Client, script: Path) -> None:
    with pytest.raises(UnknownJob, match="'nobody'"):
        client.job("nobody")
    for none in ("../../v1/cluster", "", None, 5):
        with pytest.raises(UnknownJob, match=r"there is no job .*; `swell jobs` lists"):
            client.job(none)  # type: ignore[arg-type]
    with pytest.raises(InvalidJob, match="key: 5 is not a valid idempotency key"):
        client.submit(script=script, global_batch=8, steps=1, key=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidJob, match="epochz: no such field"):
        client.submit(script=script, global_batch=8, epochz=1)
    with pytest.raises(InvalidJob, match=r"'/\\udcff\.py' is not UTF-8"):
        client.submit(script="/\udcff.py", global_batch=8, steps=1)
    with pytest.raises(InvalidJob, match=r"deadline: .* past"):
        client.submit(script=script, global_batch=8, steps=1, deadline="2001-01-01")


def test_waiting_ends_when_it_is_true_or_time_is_up(client: Client, control: FakeControl) -> None:
    waiting = job_view(id="patient", phase=Phase.QUEUED, is_promised=False, reason_code="profiling")
    control.put(waiting)
    with pytest.raises(TimeoutError, match="'patient' is queued"):
        client.wait("patient", has_verdict, timeout_s=0.0)
    promise = threading.Timer(
        0.3, control.put, [msgspec.structs.replace(waiting, is_promised=True, phase=Phase.RUNNING)]
    )
    promise.start()
    with pytest.raises(TimeoutError, match="'patient' is queued"):
        client.wait_for_verdict("patient", timeout_s=0.0)
    assert client.wait_for_verdict("patient", timeout_s=30.0).is_promised
    promise.join()
    with pytest.raises(TimeoutError, match="'patient' is running"):
        client.wait("patient", timeout_s=0.0)


def dead_endpoint() -> ApiAddress:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return ApiAddress(pid=process.pid, started_ticks=1)


def another_endpoint() -> ApiAddress:
    """Of a process that had our pid before us."""
    return ApiAddress(pid=os.getpid(), started_ticks=1)


@pytest.mark.parametrize("endpoint", [dead_endpoint, another_endpoint, ApiAddress.of_this_process])
def test_no_platform_is_said_with_its_remedy(tmp_path: Path, endpoint: object) -> None:
    folder = StateFolder(tmp_path)
    expected = f"no platform is running for state folder {tmp_path}: start one with `swell up`"
    with pytest.raises(NoPlatform, match=expected):
        swell.connect(tmp_path)
    folder.write_endpoint(endpoint())  # type: ignore[operator]
    with pytest.raises(NoPlatform, match=expected):
        swell.connect(tmp_path)


def test_the_token_goes_to_the_daemon_only(tmp_path: Path) -> None:
    """A process that took the socket's place after the daemon's death has another pid."""
    folder = StateFolder(tmp_path)
    token = folder.ensure_token()
    with (
        listen(folder.socket) as stranger,
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as daemon,
    ):
        ours = ApiAddress.of_this_process()
        folder.write_endpoint(msgspec.structs.replace(ours, pid=daemon.pid, started_ticks=ticks(daemon.pid)))
        with pytest.raises(NoPlatform, match=f"process {os.getpid()} listens at .*; nothing was sent to it"):
            swell.connect(tmp_path)
        assert daemon.stdin is not None
        daemon.stdin.close()
        connection, _ = stranger.accept()
        with connection:
            assert token.encode() not in connection.recv(4096), "it hung up without a word"
            assert connection.recv(1) == b""


def ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_a_state_folder_may_have_a_long_path(tmp_path: Path, control: FakeControl) -> None:
    folder = StateFolder(tmp_path / ("long" * 30) / "state")
    folder.create()
    for _ in range(2):  # the second finds the file of the first, as after a kill
        server = ApiServer(
            create_app(control, folder.ensure_token(), UserList(folder.path)), listen(folder.socket)
        )
        server.start()
        folder.write_endpoint(ApiAddress.of_this_process())
        assert folder.socket.stat().st_mode & 0o777 == 0o600
        with swell.connect(folder.path) as client:
            assert client.cluster().num_devices == 8
        server.stop()


def test_a_platform_that_does_not_answer_is_not_called_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "HEALTH_WITHIN_S", 0.1)
    folder = StateFolder(tmp_path)
    folder.ensure_token()
    with listen(folder.socket):
        folder.write_endpoint(ApiAddress.of_this_process())
        expected = rf"\(pid {os.getpid()}\) has not answered for 0.1 s: .*`swell down --force`"
        with pytest.raises(NoAnswer, match=expected):
            swell.connect(tmp_path)


def test_a_stopped_platform_is_named_at_once(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        ours = ApiAddress.of_this_process()
        stopped = msgspec.structs.replace(ours, pid=process.pid, started_ticks=ticks(process.pid))
        folder.write_endpoint(stopped)
        with pytest.raises(NoAnswer, match=rf"was stopped by a signal.*`kill -CONT {process.pid}`"):
            swell.connect(tmp_path)
    finally:
        process.kill()
        process.wait()
    with pytest.raises(NoPlatform):
        swell.connect(folder.path)


def test_importing_swell_stays_light() -> None:
    heavy = "{'httpx', 'starlette', 'sqlite3', 'msgspec', 'yaml', 'rich', 'typer'}"
    code = f"import sys, swell; sys.exit(', '.join({heavy} & set(sys.modules)) or None)"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (swell.NoPlatform, swell.InvalidJob, swell.UnknownJob) == (NoPlatform, InvalidJob, UnknownJob)
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        swell.conect  # noqa: B018
