"""The options worth having, against a search in so many words."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.snapshots import snapshots

from swell.model.options import NO_FASTER_SHARE, Options
from swell.model.snapshot import Snapshot

MOST_WORKERS = 20


def plain_useful(options: Options, row: int, most: int) -> list[int]:
    """Of one job: each option that is faster than all smaller ones; the smallest one, however large."""
    run = range(int(options.starts[row]), int(options.starts[row + 1]))
    allowed = [at for at in run if at == run[0] or options.workers[at] <= most]
    best = [max((options.rate_per_s[one] for one in allowed if one < at), default=0.0) for at in allowed]
    return [
        at
        for at, below in zip(allowed, best, strict=True)
        if options.rate_per_s[at] > below * (1.0 + NO_FASTER_SHARE)
    ]


@given(snapshots(), st.data())
def test_useful_options_are_faster_than_all_smaller_ones(view: Snapshot, data: st.DataObject) -> None:
    most = data.draw(
        st.lists(st.integers(0, MOST_WORKERS), min_size=view.num_jobs, max_size=view.num_jobs).map(np.array)
    )
    everything = np.full(view.num_jobs, MOST_WORKERS)
    limited = view.options.useful_up_to(most.astype(np.int64))
    for found, limits in ((limited, most), (view.options.useful, everything)):
        for row in range(view.num_jobs):
            kept = slice(0, found.num[row])
            expected = plain_useful(view.options, row, int(limits[row]))
            assert found.option[row, kept].tolist() == expected
            assert found.workers[row, kept].tolist() == view.options.workers[expected].tolist()
            assert found.devices[row, kept].tolist() == view.options.devices[expected].tolist()
            assert found.rates[row, kept].tolist() == view.options.rate_per_s[expected].tolist()
