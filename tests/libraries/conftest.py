"""Workers that are forked from a process which has imported the libraries, as with `swell up --preload`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.train.fake_agent import preloading


@pytest.fixture(scope="module", autouse=True)
def fork_server_with_libraries(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each would take seconds for its imports, of what its module names as `PRELOADED`."""
    with preloading(request.module.PRELOADED):
        yield
