"""What becomes of a loader's processes: as many as asked for through resizes, and none is left behind."""

from __future__ import annotations

from collections import UserDict, defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil
import pytest
import torch
from tests.eventually import PATIENCE_S
from tests.train.fake_agent import FakeAgent, until

from swell.train.data.loader import to_device
from swell.wire import messages

LOADS = Path(__file__).parent / "scripts" / "loads.py"


def loaders(agent: FakeAgent, worker: int) -> set[psutil.Process]:
    return set(psutil.Process(agent.processes[worker].pid).children())


def has_both_loaders(agent: FakeAgent, worker: int) -> bool:
    return len(loaders(agent, worker)) == 2


def is_of(num_workers: int, message: messages.Progress) -> bool:
    return message.num_workers == num_workers


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["map", "stream"])
def test_a_resize_leaves_as_many_as_were_asked_for_and_the_end_none(
    start_agent: Callable[..., FakeAgent], kind: str
) -> None:
    agent = start_agent(total_steps=10**6, global_batch=8, checkpoint_interval_s=1e9)
    agent.start_ready([0, 1, 2], LOADS, kind)
    agent.join([0], source=None)
    agent.wait_steps(0, 1)
    before = loaders(agent, 0)
    assert len(before) == 2
    for members in ([0, 1, 2], [0, 2]):
        leavers = {process for worker in {1, 2} - set(members) for process in loaders(agent, worker)}
        agent.join(members, source=0)
        agent.wait(0, messages.Progress, partial(is_of, len(members)))
        for worker in members:
            until(partial(has_both_loaders, agent, worker))
        gone, _ = psutil.wait_procs(leavers, timeout=PATIENCE_S)
        assert len(gone) == len(leavers)
    now = loaders(agent, 0)
    assert now == before, "what they have read of a stream is kept"
    all_loaders = now | before | loaders(agent, 2)
    agent.suspend()
    for worker in (0, 2):
        assert agent.exit_status(worker) == 143
    _, alive = psutil.wait_procs(all_loaders, timeout=PATIENCE_S)
    assert not alive


@pytest.mark.parametrize("kind", ["map", "stream"])
def test_the_last_lines_of_a_script_run_without_them(
    start_agent: Callable[..., FakeAgent], kind: str
) -> None:
    agent = start_agent(total_steps=10, global_batch=8)
    agent.start_ready([0], LOADS, kind)
    agent.join([0], source=None)
    agent.wait(0, messages.Finished)
    until(lambda: "out of the loop" in agent.log(0).read_text())
    until(lambda: not loaders(agent, 0))


@pytest.mark.parametrize("kind", [dict, UserDict, partial(defaultdict, list), MappingProxyType])
def test_tensors_of_any_mapping_go_to_the_device_and_its_attributes_stay(
    kind: Callable[[dict[str, Any]], Mapping[str, Any]],
) -> None:
    batch = kind({"ids": torch.ones(2), "parts": [torch.ones(1)], "name": "a"})
    if isinstance(batch, UserDict):
        batch.encodings = "of a tokenizer"  # type: ignore[attr-defined]
    moved = to_device(batch, torch.device("meta"))
    assert type(moved) is type(batch) and getattr(moved, "encodings", "") == getattr(batch, "encodings", "")
    assert moved["ids"].is_meta and moved["parts"][0].is_meta and moved["name"] == "a"
    assert not batch["ids"].is_meta, "the script's own batch is as it was"
