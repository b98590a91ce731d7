"""How Hypothesis runs here: the same examples each time, and no time limit for one on a busy machine.

`pytest --hypothesis-profile=explore` looks for new ones. Laws of each of the policies, the slowest, have a
share of a profile's number (`tests/examples.py`), which is larger with `thorough`, in `make test-soak`.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

settings.register_profile("explore", deadline=None, max_examples=1000)
settings.register_profile("thorough", deadline=None, derandomize=True, max_examples=250)
settings.register_profile("swell", deadline=None, derandomize=True)
settings.load_profile("swell")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Garbage is looked for in what tests make, not in what is imported for all of them: seconds less."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium, which ends with the module: while it lives, this thread is in an event loop."""
    from tests.web.chromium import chromium, why_no_chromium

    if (why := why_no_chromium()) is not None:
        pytest.skip(why)
    with chromium() as found:
        yield found
