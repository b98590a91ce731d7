"""A group that is left ends while its worker goes on."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from swell.train.collective import group as group_module
from swell.train.collective.group import Group
from swell.train.collective.process_groups import make_default, make_group

CPU = torch.device("cpu")


def test_a_group_of_gloo_ends_in_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end waits for threads of gloo: tens of milliseconds, of which a resize would take each."""
    ended_in: list[str] = []

    def let_go(groups: list[dist.ProcessGroup], *what: object) -> None:
        assert len(groups) == 2, "that of the script, too"
        groups.clear()
        ended_in.append(threading.current_thread().name)

    monkeypatch.setattr(group_module, "_let_go", let_go)
    store, group = HashStore(), Group(CPU)
    make_default(make_group(store, 0, 1, CPU, timedelta(seconds=10)), store, CPU)
    assert dist.get_backend() == "gloo"
    assert dist.get_world_size() == 1
    dist.new_group([0])
    group.close()
    assert not dist.is_initialized()
    assert group._leaving is not None
    group._leaving.join(10.0)
    assert ended_in == ["swell-leave"]
