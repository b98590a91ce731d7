"""Real processes that act as those of workers, each with a mesh of its worker's own."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.eventually import PATIENCE_S
from tests.train.fake_agent import FORKING, preloading

from swell.wire import environ


@pytest.fixture(scope="module", autouse=True)
def fork_server_with_torch() -> Iterator[None]:
    """Of a module that imports it: what its processes would import one by one."""
    with preloading(["tests.train.divided_jobs", "swell.train.state.checkpoint_folder"]):
        yield


def begin_together(num: int, folder: Path, act: Callable[..., object], *args: Any) -> list[Any]:
    """Processes that do this as the positions of one worker. `act` gets its position, and the arguments."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "store").unlink(missing_ok=True)
    processes = [FORKING.Process(target=_act, args=(num, own, folder, act, args)) for own in range(num)]
    for process in processes:
        process.start()
    return processes


def await_ends(processes: Sequence[Any]) -> list[int | None]:
    """Their exit statuses."""
    for process in processes:
        process.join(PATIENCE_S)
    return [process.exitcode for process in processes]


def end_together(processes: Sequence[Any], folder: Path) -> list[Any]:
    """What each has returned."""
    statuses = await_ends(processes)
    told = "\n".join(path.read_text() for path in sorted(folder.glob("log-*")))
    assert statuses == [0] * len(processes), told
    return [torch.load(folder / f"result-{own}", weights_only=False) for own in range(len(processes))]


def together(num: int, folder: Path, act: Callable[..., object], *args: Any) -> list[Any]:
    """What each process of one worker returns."""
    return end_together(begin_together(num, folder, act, *args), folder)


def _act(num: int, own: int, folder: Path, act: Callable[..., object], args: tuple[Any, ...]) -> None:
    log = os.open(folder / f"log-{own}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update({environ.POSITION: str(own), environ.PROCESSES: str(num)})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/store", rank=own, world_size=num)
    try:
        torch.save(act(own, *args), folder / f"result-{own}")
    except BaseException:  # noqa: BLE001 - the test tells it
        traceback.print_exc()
        os._exit(1)
    dist.destroy_process_group()
