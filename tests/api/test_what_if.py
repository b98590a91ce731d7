"""What-if against a platform that is up, and one that is down."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.stage import Stage, journal_bytes, on_stage
from tests.live.test_platform import until

from swell.api.errors import NoPlatform
from swell.api.what_if import WhatIfQuery, what_if
from swell.model.errors import InvalidInput, InvalidJob
from swell.model.event import KindAllowed, NodeJoined, NodeLost
from swell.model.job import JobClass, Phase
from swell.model.node import Node

ONE = {"workers": "1"}  #: such a job wants no more than it has: the head has nothing to wake for


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with on_stage(tmp_path / "state") as stage:
        yield stage


def job_file(folder: Path, script: Path, **fields: object) -> Path:
    known = {"script": str(script), "global_batch": 8, "steps": 100} | fields
    path = folder / "job.yaml"
    path.write_text("".join(f"{name}: {value}\n" for name, value in known.items()))
    return path


def test_the_state_and_the_journal_stay_as_they_are(stage: Stage, script: Path, tmp_path: Path) -> None:
    for _ in range(2):
        stage.run(script, **ONE)
    state, written = stage.client.head_state(), stage.written()
    file = job_file(tmp_path, script, deadline="now+10m")
    found = what_if(stage.folder.path, WhatIfQuery(policy="srtf", add_nodes=2, submit=file))
    assert len(found.jobs) == 3 and found.num_devices_then == 6
    assert stage.client.head_state() == state
    assert stage.written() == written
    assert stage.hands.performed == stage.hands.performed[:4]  # two trials, two launches


def test_jobs_end_when_their_steps_are_done(
    stage: Stage, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWELL_TOKEN", "x")  # of another platform
    job_id = stage.run(script, **ONE)
    (job,) = what_if(stage.folder.path, WhatIfQuery(policy="fifo")).jobs
    submitted_s = stage.client.job(job_id).submitted_s  # the hands start it at once
    assert job.id == job_id and job.now is not None and job.now.finish_s is not None
    assert job.now.finish_s - submitted_s == pytest.approx(10.0, abs=0.01)  # 100 steps of 0.1 s
    assert job.then == job.now


def test_a_job_that_waits_runs_at_once_on_another_node(stage: Stage, script: Path) -> None:
    for _ in range(2):
        stage.run(script, **ONE)
    stage.client.submit(script=script, global_batch=8, steps=100, **ONE)
    *_, waiting = what_if(stage.folder.path, WhatIfQuery(add_nodes=1)).jobs
    assert waiting.now is not None and waiting.now.finish_s is not None and waiting.then.finish_s is not None
    assert waiting.then.finish_s < waiting.now.finish_s - 5.0


def test_a_hypothetical_job_is_judged_as_a_real_one_would_be(
    stage: Stage, script: Path, tmp_path: Path
) -> None:
    stage.run(script, **ONE)
    hasty = what_if(
        stage.folder.path,
        WhatIfQuery(submit=job_file(tmp_path, script, deadline="now+2s", or_nothing="true")),
    ).jobs[-1]
    assert hasty.is_hypothetical and hasty.now is None and hasty.id == "train-new"
    assert hasty.then.phase is Phase.REJECTED and hasty.then.counter_offer_s is not None
    (elsewhere := tmp_path / "elsewhere").mkdir()
    same = Path(shutil.copy(script, elsewhere))
    calm = what_if(stage.folder.path, WhatIfQuery(submit=job_file(elsewhere, same, deadline="now+60s"))).jobs[
        -1
    ]
    assert calm.job_class is JobClass.STRICT and calm.then.is_promised and calm.then.kept


def test_each_kind_of_device_is_asked_about_on_its_own(stage: Stage, script: Path, tmp_path: Path) -> None:
    far = Node(name="far", kind="a100", devices=("far/0",))
    first = stage.run(script, **ONE)
    stage.hands.deliver(KindAllowed(at_s=0.0, kind="a100"))
    stage.hands.deliver(NodeJoined(at_s=0.0, node=far))
    until(lambda: stage.client.cluster().num_devices == 3)
    second = stage.run(script, kind="a100", **ONE)
    waiting = stage.client.submit(script=script, global_batch=8, steps=100, kind="a100", **ONE)
    ask, file = stage.folder.path, job_file(tmp_path, script, kind="cpu")
    found = what_if(ask, WhatIfQuery(add_nodes=1, kind="a100", submit=file))
    assert (found.num_devices_now, found.num_devices_then) == (3, 4)
    jobs = {job.id: job for job in found.jobs}
    assert list(jobs) == [first, second, waiting, "train-new"] and found.left_out == ()
    assert jobs[first].then == jobs[first].now and jobs[second].then == jobs[second].now
    helped = jobs[waiting]
    assert helped.now is not None and helped.now.finish_s is not None and helped.then.finish_s is not None
    assert helped.then.finish_s < helped.now.finish_s - 5.0
    with pytest.raises(InvalidInput, match="several kinds; name one of these with --kind: cpu, a100"):
        what_if(ask, WhatIfQuery(add_nodes=1))
    with pytest.raises(InvalidInput, match="no node has devices of kind 'h100'"):
        what_if(ask, WhatIfQuery(add_nodes=1, kind="h100"))
    with pytest.raises(InvalidJob, match="names no kind of device"):
        what_if(ask, WhatIfQuery(submit=job_file(tmp_path, script)))


def test_a_platform_that_is_down_is_asked_too(tmp_path: Path, script: Path) -> None:
    with on_stage(tmp_path / "state") as stage:
        job_id = stage.run(script, **ONE)
    before = journal_bytes(stage.folder)
    found = what_if(stage.folder.path, WhatIfQuery(policy="srtf"))
    assert not found.is_up and [job.id for job in found.jobs] == [job_id]
    assert found.jobs[0].then.phase is Phase.SUCCEEDED
    assert journal_bytes(stage.folder) == before


def test_what_cannot_be_is_named_with_the_remedy(stage: Stage, script: Path, tmp_path: Path) -> None:
    ask = stage.folder.path
    with pytest.raises(InvalidInput, match="there is no policy 'best'; choose one of"):
        what_if(ask, WhatIfQuery(policy="best"))
    with pytest.raises(InvalidJob, match="was never measured here; submit it once"):
        what_if(ask, WhatIfQuery(submit=job_file(tmp_path, script)))
    with pytest.raises(InvalidJob, match="at least 16 devices but the cluster has 4"):
        what_if(
            ask, WhatIfQuery(submit=job_file(tmp_path, script, workers='"16"', global_batch=16), add_nodes=1)
        )
    with pytest.raises(InvalidJob, match=r"job\.yaml, line 4: deadline"):
        what_if(ask, WhatIfQuery(submit=job_file(tmp_path, script, deadline="soon")))
    with pytest.raises(NoPlatform, match="no platform is running"):
        what_if(tmp_path / "nowhere", WhatIfQuery(policy="fifo"))
    assert not (tmp_path / "nowhere").exists()


def test_a_job_that_no_longer_fits_is_left_out_until_it_would_fit(stage: Stage, script: Path) -> None:
    stage.hands.deliver(NodeJoined(at_s=0.0, node=Node(name="far", kind="cpu", devices=("far/0", "far/1"))))
    until(lambda: stage.client.cluster().num_devices == 4)
    job_id = stage.run(script, workers="4")
    stage.hands.deliver(NodeLost(at_s=0.0, name="far"))
    until(lambda: stage.client.cluster().num_devices == 2)
    (left_out,) = what_if(stage.folder.path, WhatIfQuery(policy="fifo")).left_out
    assert (left_out.id, "no size that fits in 2 devices" in left_out.why) == (job_id, True)
    found = what_if(stage.folder.path, WhatIfQuery(add_nodes=1))
    assert not found.left_out and [job.id for job in found.jobs] == [job_id]


def test_jobs_leave_a_node_that_would_be_drained(stage: Stage, script: Path) -> None:
    stage.hands.deliver(NodeJoined(at_s=0.0, node=Node(name="far", kind="cpu", devices=("far/0",))))
    until(lambda: stage.client.cluster().num_devices == 3)
    jobs = [stage.run(script, **ONE) for _ in range(3)]
    found = what_if(stage.folder.path, WhatIfQuery(drain=("far",)))
    assert (found.num_devices_now, found.num_devices_then) == (3, 2)
    assert [job.id for job in found.jobs] == jobs
    ends_now = [job.now.finish_s for job in found.jobs if job.now is not None and job.now.finish_s]
    ends_then = [job.then.finish_s for job in found.jobs if job.then.finish_s]
    assert len(ends_now) == len(ends_then) == 3 and max(ends_then) > max(ends_now) + 5.0
    with pytest.raises(InvalidInput, match="there is no node 'moon'; choose from node0, far"):
        what_if(stage.folder.path, WhatIfQuery(drain=("moon",)))


def test_fixed_jobs_end_as_others_of_their_name_did_or_at_their_limit(stage: Stage, tmp_path: Path) -> None:
    """A node of two devices: one command runs, one waits for both devices, one is asked about."""
    command: dict[str, Any] = {"command": ["sleep", "9"], "workdir": tmp_path}
    running = stage.client.submit(**command, time="20000d", name="a")  # the hands began when the machine did
    until(lambda: stage.client.job(running).phase is Phase.RUNNING)
    waiting = stage.client.submit(**command, time="5m", devices=2, name="b")
    file = tmp_path / "job.yaml"
    file.write_text("command: sleep 9\ntime: 1m\nname: c\npriority: 1\n")
    found = what_if(stage.folder.path, WhatIfQuery(add_nodes=1, submit=file))
    first, second, new = found.jobs
    assert [job.id for job in found.jobs] == [running, waiting, "c-new"] and not found.left_out
    assert first.now and second.now and first.now.finish_s and second.now.finish_s
    began_s = stage.client.job(running).started_s or 0.0
    assert first.now.finish_s - began_s == pytest.approx(20000 * 86400, rel=0.01)
    assert second.now.finish_s - first.now.finish_s == pytest.approx(300, rel=0.1)
    assert second.then.finish_s and new.then.finish_s
    assert second.then.finish_s - found.at_s == pytest.approx(300, rel=0.1), "the node that is added has two"
    assert new.then.finish_s - found.at_s == pytest.approx(60, rel=0.4)
    assert {one.then.phase for one in found.jobs} == {Phase.SUCCEEDED}
    file.write_text("command: sleep 9\ntime: 1m\ndevices: 3\n")
    with pytest.raises(InvalidJob, match="3 devices, and the platform has 2"):
        what_if(stage.folder.path, WhatIfQuery(submit=file))


def test_a_booking_counts_in_what_is_foretold(stage: Stage, script: Path, tmp_path: Path) -> None:
    """A command that both devices are needed for, for longer than until the booking begins."""
    begin_s = stage.client.cluster().now_s + 3600
    stage.client.book([(begin_s, begin_s + 3600)], devices=2)
    file = tmp_path / "job.yaml"
    file.write_text("command: sleep 9\ntime: 2h\ndevices: 2\n")
    (long,) = what_if(stage.folder.path, WhatIfQuery(submit=file)).jobs
    assert long.then.finish_s and long.then.finish_s - begin_s == pytest.approx(3 * 3600, rel=0.02)
    file.write_text("command: sleep 9\ntime: 30m\ndevices: 2\n")
    (short,) = what_if(stage.folder.path, WhatIfQuery(submit=file)).jobs
    assert short.then.finish_s and short.then.finish_s < begin_s
