"""The options worth having, against a search in so many words."""

from __future__ import annotations

from hypothesis import given
from tests.policies.snapshots import snapshots

from swell.model.options import NO_FASTER_SHARE, Options
from swell.model.snapshot import Snapshot


def plain_useful(options: Options, row: int) -> list[int]:
    """Of one job: each option that is faster than all smaller ones."""
    run = range(int(options.starts[row]), int(options.starts[row + 1]))
    best = [max(options.rate_per_s[run[0] : at], default=0.0) for at in run]
    return [
        at
        for at, below in zip(run, best, strict=True)
        if options.rate_per_s[at] > below * (1.0 + NO_FASTER_SHARE)
    ]


@given(snapshots())
def test_useful_options_are_faster_than_all_smaller_ones(view: Snapshot) -> None:
    found = view.options.useful
    for row in range(view.num_jobs):
        kept = slice(0, found.num[row])
        expected = plain_useful(view.options, row)
        assert found.option[row, kept].tolist() == expected
        assert found.workers[row, kept].tolist() == view.options.workers[expected].tolist()
        assert found.devices[row, kept].tolist() == view.options.devices[expected].tolist()
        assert found.rates[row, kept].tolist() == view.options.rate_per_s[expected].tolist()
