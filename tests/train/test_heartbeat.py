"""How long a worker has been waiting is told in time in which it ran."""

from __future__ import annotations

from swell.train.link.agent_link import LONGEST_GAP_S, Heartbeat


class Clock:
    time_s = 0.0

    def __call__(self) -> float:
        return self.time_s


def test_time_in_which_the_whole_process_was_stopped_is_not_told_as_waiting() -> None:
    clock = Clock()
    heartbeat = Heartbeat(clock)
    with heartbeat.waiting("peers"):
        for _ in range(10):
            clock.time_s += LONGEST_GAP_S / 2
            told = heartbeat.beat()
        assert (told.awaits, told.for_s) == ("peers", 5 * LONGEST_GAP_S)
        clock.time_s += 10 * LONGEST_GAP_S
        assert heartbeat.beat().for_s == 5 * LONGEST_GAP_S
        clock.time_s += 1.0
        assert heartbeat.beat().for_s == 5 * LONGEST_GAP_S + 1.0
    heartbeat.note_steps(3)
    clock.time_s += 1.0
    assert heartbeat.beat().for_s == 1.0
