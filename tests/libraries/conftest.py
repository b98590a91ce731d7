"""Workers that are forked from a process which has imported the libraries, as with `swell up --preload`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from multiprocessing import forkserver
from typing import Any

import pytest
from tests.train.fake_agent import FORKING


@pytest.fixture(scope="module", autouse=True)
def fork_server_with_libraries(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each would take seconds for its imports, of what its module names as `PRELOADED`."""
    server: Any = forkserver._forkserver
    others = server._preload_modules
    server._stop()
    FORKING.set_forkserver_preload([*others, *request.module.PRELOADED])
    first = FORKING.Process(target=time.time)
    first.start()
    first.join()  # it has imported them
    yield
    server._stop()
    FORKING.set_forkserver_preload(others)
