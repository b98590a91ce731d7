"""How much a host may say at once, and which numbers."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.executors.gang.job_context import DeviceBinding
from swell.executors.hosts import messages as h
from swell.executors.hosts.file_messages import CheckpointOffered, FilesKept, JobCheckpoint, LogPiece
from swell.executors.remote.bounds import (
    MOST_DEVICES,
    MOST_ENTRIES,
    MOST_LACK,
    MOST_LACKS,
    MOST_TEXT,
    OutOfBounds,
    bounded,
)
from swell.executors.remote.minute_limit import MinuteLimit
from swell.model.event import Outcome
from swell.model.node import Node
from swell.model.usage import GangUsage
from swell.tally import Tally
from swell.wire import messages as m
from swell.wire.metric_names import MOST_METRICS, MetricNames

TALLY = Tally(1, 2, 1, 2, 0, -1.5, -2.0, -1.0, -1.0)
PROGRESS = m.Progress(
    generation=1, steps=7, num_workers=2, step_s=0.1, loss=-3.5, metrics={"a": "nan"}, curves={"a": TALLY}
)
HONEST: list[h.FromHost] = [
    h.WorkerSaid(run="j", worker=0, message=PROGRESS),
    h.WorkerExited(run="j", worker=0, status=-9, log_tail="x" * 4000),
    h.UsageRead(run="j", usage=GangUsage(cpu_s=3.5, memory_bytes=1 << 40)),
    h.WorkersAlive(runs={"j": {0: m.Alive(steps=1, for_s=2.5)}}),
    h.RunPortFound(run="j", address="fe80::1%eth0", port=4711),
    LogPiece(job_id="j", worker=0, is_trial=False, content=b"\x1b" * 10**6),
]


@pytest.mark.parametrize("message", HONEST)
def test_what_an_honest_host_says_stays_as_it_is(message: h.FromHost) -> None:
    assert bounded(message) is message


def said(**changes: Any) -> h.WorkerSaid:
    return h.WorkerSaid(run="j", worker=0, message=msgspec.structs.replace(PROGRESS, **changes))


#: None of these fits into what is made of it: a step, a time, a size of a file, a number of cores.
IMPOSSIBLE: list[h.FromHost] = [
    said(steps=-1),
    said(steps=1 << 70),
    said(num_workers=1 << 53),
    said(step_s=math.nan),
    said(step_s=math.inf),
    said(pause_s=-1.0),
    h.WorkerSaid(run="j", worker=0, message=m.CheckpointSaved(steps=1 << 60, path="")),
    h.WorkerSaid(run="j", worker=0, message=m.Calibrated(allreduce_s={8: math.inf})),
    h.WorkersAlive(runs={"j": {0: m.Alive(for_s=math.nan)}}),
    h.UsageRead(run="j", usage=GangUsage(cpu_s=math.nan)),
    h.UsageRead(run="j", usage=GangUsage(cpu_s=1.0, memory_bytes=-1)),
    h.HostLeaving(within_s=math.inf, why=""),
    h.DevicesOffered(devices={}, num_cores=1 << 80),
    h.RunPortFound(run="j", address="10.9.0.1", port=-1),
    h.RunPortFound(run="j", address="10.9.0.1\x1b[2J", port=1),
    CheckpointOffered(job_id="j", name="c", num_bytes=-1),
    FilesKept(checkpoints=(JobCheckpoint(job_id="j", name="c"),) * (MOST_ENTRIES + 1), logs=()),
]


@pytest.mark.parametrize("message", IMPOSSIBLE)
def test_a_number_that_cannot_be_or_a_list_that_is_too_long_is_refused(message: h.FromHost) -> None:
    with pytest.raises(OutOfBounds) as refused:
        bounded(message)
    assert len(str(refused.value)) < 300


@given(st.text(max_size=50), st.integers(0, 3))
def test_texts_are_cut_and_nothing_else(text: str, times: int) -> None:
    long = text + "x" * (times * MOST_TEXT)
    message = h.WorkerSaid(run="j", worker=0, message=m.Failed(message=long, steps=3))
    cut = bounded(message)
    assert isinstance(cut.message, m.Failed)
    assert cut.message.message == long[:MOST_TEXT] and cut.message.steps == 3
    assert bounded(cut) is cut


@pytest.mark.parametrize(
    "message",
    [
        h.RunRefused(run="j", outcome=Outcome.LOST, why="x" * 10**6),
        h.RunPortRefused(run="j", why="x" * 10**6),
        h.ShareSet(run="j", generation=1, why_not="x" * 10**6),
        h.HostLeaving(within_s=1.0, why="x" * 10**6),
        h.WorkerExited(run="j", worker=0, status=1, log_tail="x" * 10**6),
        h.OwnerWarned(job_id="j", message="x" * 10**6, about="y" * 10**6),
        said(metrics={"x" * 10**6: 1.0} | {str(number): 1.0 for number in range(10**5)}),
        h.DevicesOffered(devices={}, num_cores=1, why_none="x" * 10**6),
    ],
)
def test_no_text_of_a_host_takes_much_memory(message: h.FromHost) -> None:
    assert len(msgspec.json.encode(bounded(message))) < 20_000


def test_of_too_many_metrics_enough_are_left_to_tell_their_owner() -> None:
    cut = bounded(said(metrics={f"metric-{number}": 1.0 for number in range(5000)}))
    assert isinstance(cut.message, m.Progress)
    names = MetricNames()
    assert len(names.admitted(cut.message.metrics)) == MOST_METRICS
    assert "reports more than 200 names" in names.take_refusal()


def offer(kind: str = "cpu", num: int = 1, **fields: Any) -> h.DevicesOffered:
    binding = DeviceBinding(torch_device="cpu", kind=kind)
    devices = {f"n1/{number}": binding for number in range(num)}
    node = Node(**({"name": "n1", "devices": tuple(devices), "kind": kind} | fields))
    return h.DevicesOffered(devices=devices, num_cores=1, nodes=(node,))


@pytest.mark.parametrize("kind", ["cpu", "cuda:NVIDIA H200", "paced@200", "Quadro RTX 6000/8000", "a_b-c.d"])
def test_kinds_of_devices_are_heard(kind: str) -> None:
    assert bounded(offer(kind)).nodes[0].kind == kind


@pytest.mark.parametrize(
    "kind", ["", " ", "<script>alert(1)</script>", "\x1b[31mh100", "h100\n", "é", "x" * 81]
)
def test_a_kind_is_plain_text(kind: str) -> None:
    with pytest.raises(OutOfBounds, match="a kind has at most 80 letters, digits"):
        bounded(offer(kind))


@pytest.mark.parametrize(
    "offered",
    [
        offer(num=MOST_DEVICES + 1),
        offer(rack="<b>"),
        offer(address="\x07"),
        offer(num=4, islands=((3, 3),)),
        offer(num=4, islands=((2, 2), (1, 3))),
        offer(cores=math.nan),
        offer(cores=-1.0),
    ],
)
def test_an_offer_that_cannot_be_is_refused(offered: h.DevicesOffered) -> None:
    with pytest.raises(OutOfBounds):
        bounded(offered)


def test_what_a_host_lacks_is_a_few_lines() -> None:
    (node,) = bounded(offer(lacks=("x" * 10_000,) * 1000)).nodes
    assert node.lacks == ("x" * MOST_LACK,) * MOST_LACKS


def test_a_minute_has_room_for_so_many_and_the_next_one_again() -> None:
    now_s = [0.0]
    limit = MinuteLimit(2, lambda: now_s[0])
    assert [limit.take() for _ in range(4)] == [True, True, False, False]
    now_s[0] = 59.9
    assert not limit.take()
    now_s[0] = 60.0
    assert limit.take()
