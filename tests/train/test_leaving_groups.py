"""A group that is left ends while its worker goes on."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch._C._distributed_c10d import Store

from swell.train.collective import group as group_module
from swell.train.collective.group import Group


def test_a_group_of_gloo_ends_in_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end waits for threads of gloo: tens of milliseconds, of which a resize would take each."""
    ended_in: list[str] = []

    class World:
        def __del__(self) -> None:
            ended_in.append(threading.current_thread().name)

    def destroy() -> None:
        torch_distributed.group.WORLD = None

    torch_distributed: Any = SimpleNamespace(
        group=SimpleNamespace(WORLD=World()),
        init_process_group=lambda *_, **__: None,
        is_initialized=lambda: True,
        destroy_process_group=destroy,
    )
    monkeypatch.setattr(group_module, "dist", torch_distributed)
    made = Group(torch.device("cpu"))
    made._tether.begin(1)
    made._connect_all(cast(Store, None), rank=0, num_workers=1)
    made.close()
    assert made._leaving is not None
    made._leaving.join(10.0)
    assert ended_in == ["swell-leave"]
