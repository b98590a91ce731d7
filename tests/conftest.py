"""How Hypothesis runs here: the same examples each time, and no time limit for one on a busy machine.

`pytest --hypothesis-profile=explore` looks for new ones. Laws of each of the policies, the slowest, have a
share of a profile's number (`tests/examples.py`), which is larger with `thorough`, in `make test-soak`, and
smaller with `quick`, in `make test-quick`.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from tests.plain_kernels import stale_kernels
from tests.workers import ProcessesFirst, give_way, is_computing, is_quick

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from xdist.remote import Producer

NO_CONSTANTS = providers._local_constants

settings.register_profile("explore", deadline=None, max_examples=1000)
settings.register_profile("thorough", deadline=None, derandomize=True, max_examples=400)
settings.register_profile("swell", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=6)
settings.load_profile("swell")

# Hypothesis draws numbers that stand in imported modules of ours more often than others: which examples a law
# has would depend on the files that a worker has run before, and on each constant of the code. Nor are a
# thousand modules read for it. There is no setting for that.
providers._get_local_constants = lambda: NO_CONSTANTS

#: Holds temporary files if it has room: thousands are written through to a disk, which takes 5 ms each.
MEMORY, ROOM_BYTES = Path("/dev/shm"), 4 << 30  # noqa: S108
if "TMPDIR" not in os.environ and MEMORY.is_dir():
    room_bytes = min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available)
    if room_bytes >= ROOM_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="the tests of `make test-quick`: tests/workers.py")


def pytest_configure(config: pytest.Config) -> None:
    if stale := stale_kernels():
        pytest.exit(f"{stale[0]} was compiled from another source: make loops", returncode=4)
    give_way()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # children of `make test &` would ignore it
    if config.getoption("--quick"):
        settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What `--quick` leaves out is not even imported."""
    path = collection_path.relative_to(config.rootpath).as_posix()
    return True if config.getoption("--quick") and not is_quick(path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: is_computing(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ProcessesFirst:
    return ProcessesFirst(config, log)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium, which ends with the module: while it lives, this thread is in an event loop."""
    from tests.web.chromium import chromium, why_no_chromium

    if (why := why_no_chromium()) is not None:
        pytest.skip(why)
    with chromium() as found:
        yield found
