"""What forked processes tell of a model depends on its numbers only."""

from __future__ import annotations

import os
import pickle
import signal
import time

import pytest
import torch
from torch import nn

from swell.train.runtime.rehearsal import numbers_in
from swell.train.runtime.rehearsal_folder import RehearsalFolders
from swell.train.runtime.resume_check import _await, _ResumeCheck


def test_the_same_numbers_are_the_same_bytes_wherever_they_are_in_memory() -> None:
    one, other = (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)) for _ in range(2))
    other.load_state_dict(one.state_dict())
    elsewhere = [torch.empty(1000) for _ in range(3)]
    for parameter in other.parameters():
        parameter.data = torch.stack([parameter.data, *(0 * parameter.data for _ in elsewhere)], -1)[..., 0]
    assert numbers_in(one.state_dict()) == numbers_in(other.state_dict())
    with torch.no_grad():
        next(other.parameters()).view(-1)[0] += 1e-7
    assert numbers_in(one.state_dict()) != numbers_in(other.state_dict())


def test_a_child_that_is_killed_while_it_tells_has_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it is killed for its time, and a large state takes long to write."""

    def tell_half(_check: object, handle: int, *_: object) -> None:
        os.write(handle, pickle.dumps(b"state" * 100)[:50])
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(_ResumeCheck, "_become", tell_half)
    check = object.__new__(_ResumeCheck)
    check._left_s, check._end_s = 60.0, time.monotonic() + 60.0
    check._folders = RehearsalFolders()
    assert check._rehearse() is None


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="this kernel does not tell who waited")
def test_a_child_is_not_killed_for_the_time_that_others_have_its_processor() -> None:
    """It computes for a fifth of a second, and has a tenth of a processor."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(own)})
    children = []
    try:
        for is_other in (True, False):
            if (pid := os.fork()) == 0:
                os.nice(0 if is_other else 10)
                while is_other or time.process_time() < 0.2:
                    pass
                os._exit(0)
            children.append(pid)
        begun_s = time.monotonic()
        status, used_s = _await(children.pop(), 0.8, 60.0)
        assert status == 0 and used_s < 0.8 < time.monotonic() - begun_s
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os.sched_setaffinity(0, own)


def test_a_child_that_waits_is_killed_in_time() -> None:
    if (pid := os.fork()) == 0:
        time.sleep(60.0)
        os._exit(0)
    status, used_s = _await(pid, 0.05, 60.0)
    assert status == -signal.SIGKILL and used_s >= 0.05
