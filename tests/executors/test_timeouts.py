"""When a worker's time is up."""

from __future__ import annotations

import pytest

from swell.executors.gang.member import Member
from swell.executors.gang.timeouts import READING_SHARE, Timeouts, overdue
from swell.wire.messages import Alive, Awaited


@pytest.mark.parametrize(("awaits", "share"), [("", 1.0), ("data", READING_SHARE)])
def test_a_joiner_that_reads_a_stream_has_more_time(awaits: Awaited, share: float) -> None:
    timeouts = Timeouts(ready_s=60.0, silence_s=1e9)
    member = Member(0, ("node0/0",), since_s=100.0, pid=1, heartbeat=Alive(awaits=awaits))
    assert overdue(member, "train.py", 100.0 + share * 60.0, timeouts) is None
    verdict = overdue(member, "train.py", 100.1 + share * 60.0, timeouts)
    assert verdict is not None and verdict[1]


def test_what_a_zygote_imports_before_it_forks_is_not_the_time_of_the_script() -> None:
    timeouts = Timeouts(ready_s=60.0)
    member = Member(0, ("node0/0",), since_s=100.0)
    assert overdue(member, "train.py", 1000.0, timeouts) is None
    member.pid, member.since_s = 1, 1000.0
    assert overdue(member, "train.py", 1060.0, timeouts) is None
    assert overdue(member, "train.py", 1060.1, timeouts) is not None
