"""What forked processes tell of a model depends on its numbers only."""

from __future__ import annotations

import os
import pickle
import signal
import time

import pytest
import torch
from torch import nn

from swell.train.runtime.fresh_check import NotTried
from swell.train.runtime.rehearsal import numbers_in
from swell.train.runtime.rehearsal_folder import RehearsalFolders
from swell.train.runtime.resume_check import _ResumeCheck


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


def check_of_no_script(left_s: float) -> _ResumeCheck:
    check = object.__new__(_ResumeCheck)
    check._left_s = left_s
    check._folders = RehearsalFolders()
    return check


def test_a_child_that_is_killed_while_it_tells_has_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it is killed for its time, and a large state takes long to write."""

    def tell_half(_check: object, handle: int, *_: object) -> None:
        os.write(handle, pickle.dumps(b"state" * 100)[:50])
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(_ResumeCheck, "_become", tell_half)
    with pytest.raises(NotTried, match="it takes more than"):
        check_of_no_script(60.0)._rehearse()


@pytest.mark.parametrize("waits", [True, False])
def test_a_child_that_takes_too_long_ends(waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def take_long(_check: object, *_: object) -> None:
        while True:
            time.sleep(60.0 if waits else 0.0)

    monkeypatch.setattr(_ResumeCheck, "_short", take_long)
    with pytest.raises(NotTried, match="it takes more than"):
        check_of_no_script(0.1)._rehearse()
