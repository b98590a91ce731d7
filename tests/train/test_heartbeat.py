"""How long a worker has been waiting is told in time in which it ran."""

from __future__ import annotations

from swell.train.link.heartbeat import LONGEST_GAP_S, Pulse


class Clock:
    time_s = 0.0

    def __call__(self) -> float:
        return self.time_s


def test_time_in_which_the_whole_process_was_stopped_is_not_told_as_waiting() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    with pulse.waiting("peers"):
        for _ in range(10):
            clock.time_s += LONGEST_GAP_S / 2
            told = pulse.beat()
        assert (told.awaits, told.for_s) == ("peers", 5 * LONGEST_GAP_S)
        clock.time_s += 10 * LONGEST_GAP_S
        assert pulse.beat().for_s == 5 * LONGEST_GAP_S
        clock.time_s += 1.0
        assert pulse.beat().for_s == 5 * LONGEST_GAP_S + 1.0
    pulse.note_steps(3)
    clock.time_s += 1.0
    assert pulse.beat().for_s == 1.0
