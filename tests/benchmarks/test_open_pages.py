"""The pages of jobs of `make bench-pages --job` fetch what a page in a browser fetches."""

from __future__ import annotations

import multiprocessing
import time

import pytest
from benchmarks.job_page_reader import read_job_pages
from tests.page.conftest import Served, served
from tests.store.views import job_view

__all__ = ["served"]


@pytest.mark.parametrize("num_pages", [0, 1])
def test_a_page_of_a_job_follows_events_and_fetches_page_metrics_and_log(
    served: Served, num_pages: int
) -> None:
    served.control.put(job_view())
    log = served.control.log_dir("digits-1") / "worker-0.log"
    log.parent.mkdir()
    log.write_text("step 1\n" * 1000)
    with served.opened() as browser:
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    ours, theirs = multiprocessing.Pipe()
    begun_s = time.monotonic()
    read_job_pages(theirs, served.port, cookie, ["digits-1"], num_pages, 0.5)
    passed_s = time.monotonic() - begun_s
    assert ours.recv() == "connected"
    requests_per_s, num_bytes = ours.recv()
    assert (2.5 <= requests_per_s * passed_s <= 3.5) if num_pages else requests_per_s == 0.0
    assert (num_bytes > 7000) == bool(num_pages)
