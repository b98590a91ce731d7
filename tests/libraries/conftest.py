"""Workers that are forked from a process which has imported the libraries, as with `swell up --preload`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from multiprocessing import forkserver
from typing import Any

import pytest
from tests.train.fake_agent import FORKING

LIBRARIES = ["accelerate", "transformers.trainer", "trl.trainer.sft_trainer"]


@pytest.fixture(scope="package", autouse=True)
def fork_server_with_libraries() -> Iterator[None]:
    """Each would take seconds for its imports."""
    server: Any = forkserver._forkserver
    others = server._preload_modules
    server._stop()
    FORKING.set_forkserver_preload([*others, *LIBRARIES])
    first = FORKING.Process(target=time.time)
    first.start()
    first.join()  # it has imported them
    yield
    server._stop()
    FORKING.set_forkserver_preload(others)
