"""The pages of `make bench-pages` hear what a page in a browser hears."""

from __future__ import annotations

import multiprocessing

import pytest
from benchmarks.open_pages import read
from tests.page.conftest import Served, served
from tests.store.views import job_view

__all__ = ["served"]


@pytest.mark.parametrize("num_pages", [0, 2])
def test_pages_of_a_job_hear_its_log_and_its_steps(served: Served, num_pages: int) -> None:
    served.control.put(job_view(steps=7))
    log = served.control.log_dir("digits-1") / "worker-0.log"
    log.parent.mkdir()
    log.write_text("step 1\n" * 1000)
    with served.opened() as browser:
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    ours, theirs = multiprocessing.Pipe()
    read(theirs, served.port, cookie, num_pages, 0.5, ["digits-1"])
    assert ours.recv() == "connected"
    came_s, num_bytes = ours.recv()
    assert set(came_s) == ({"7"} if num_pages else set())
    assert (num_bytes > num_pages * 7000) == bool(num_pages)
