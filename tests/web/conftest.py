from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser
from tests.web.chromium import chromium, why_no_chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if (why := why_no_chromium()) is not None:
        pytest.skip(why)
    with chromium() as found:
        yield found
