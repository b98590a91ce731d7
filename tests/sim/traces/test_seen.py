"""Whether an id was there before, however many there were."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.sim.traces import seen
from swell.sim.traces.seen import IdPartition, SeenIds

#: Running numbers, numbers far apart, with heads and without, padded and not, and words.
IDS = st.one_of(
    st.integers(0, 60).map(str),
    st.integers(0, 60).map("job-{:03d}".format),
    st.integers(0, 10**20).map(str),
    st.text("ab0179-\u0663", max_size=4),
)


@given(ids=st.lists(IDS, max_size=150))
def test_ids_seen_before_are_known_wherever_they_are_kept(ids: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seen, "NUM_NEWEST", 8)
        patch.setattr(seen, "NUM_PARTS", 2)
        patch.setattr(seen, "NUM_ON_PAGE", 16)
        patch.setattr(seen, "PAGE_BYTES", 2)
        patch.setattr(seen, "NUM_FREE_PAGES", 3)
        known, truth = SeenIds(), set[str]()
        for job_id in ids:
            assert known.add(job_id) is (job_id not in truth)
            truth.add(job_id)


@given(keys=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 40), max_size=120))
def test_hashes_are_in_few_arrays(keys: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seen, "NUM_NEWEST", 4)
        patch.setattr(seen, "NUM_PARTS", 1)
        part, truth = IdPartition(), set[int]()
        for key in keys:
            assert part.add(key) is (key not in truth)
            truth.add(key)
        assert len(part._older) <= math.log2(max(2, len(truth))) + 1


def test_running_numbers_take_a_bit_each_and_others_no_pages() -> None:
    running, scattered = SeenIds(), SeenIds()
    draw = random.Random(1)
    for at in range(50_000):
        assert running.add(f"job-{at:06d}")
        scattered.add(f"{draw.getrandbits(62)}")
    assert len(running._pages) == math.ceil(50_000 / seen.NUM_ON_PAGE)
    assert len(scattered._pages) <= seen.NUM_FREE_PAGES + 1
    assert not running._hashes._parts[0]._newest and scattered._hashes._parts[0]._newest
