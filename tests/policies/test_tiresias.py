"""What Tiresias promises: short jobs need not be known to be short, and no job starves."""

from __future__ import annotations

from tests.policies.snapshots import NOW_S, best_effort, snapshot

from swell_papers.policies.tiresias import PROMOTE_KNOB, THRESHOLDS_DEVICE_S, Tiresias

LINEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}


def test_less_service_comes_first_and_service_is_devices_times_time() -> None:
    """Section 3.2: two dimensions. As long a run on more devices is more service."""
    jobs = [
        best_effort("wide", LINEAR, 1e6, requested=4, attained=4 * 1000.0, submitted=-1000.0),
        best_effort("narrow", LINEAR, 1e6, requested=1, attained=1 * 1000.0, submitted=-999.0),
        best_effort("new", LINEAR, 1e6, requested=4, submitted=-1.0),
    ]
    assert Tiresias().decide(snapshot(jobs, 5)).workers.tolist() == [0, 1, 4]


def test_in_one_queue_it_is_first_come_first_served_and_nobody_is_preempted() -> None:
    jobs = [
        best_effort("first", LINEAR, 1e6, requested=4, held=4, attained=3000.0,
                    submitted=-751.0, changed=-750.0),
        best_effort("second", LINEAR, 1e6, requested=4, submitted=-700.0),
        best_effort("small", LINEAR, 1e6, requested=2, submitted=-1.0),
    ]  # fmt: skip
    answer = Tiresias().decide(snapshot(jobs, 6))
    assert answer.workers.tolist() == [4, 0, 2]
    # The first one sinks at 3250 device-seconds, 250 / 4 s from now, and the second one takes its place.
    assert answer.wake_s == NOW_S + 62.5


def test_who_starves_is_promoted_and_keeps_that_until_it_is_served() -> None:
    """Section 3.2: PROMOTEKNOB."""
    ran_s, service = 5000.0, 20_000.0
    starved_s = PROMOTE_KNOB * ran_s

    def workers(waited_s: float, since_s: float) -> list[int]:
        """Of a job that waited so long and has been running again for so long, and of newer ones."""
        old = best_effort("old", LINEAR, 1e6, requested=4, held=4 if since_s else 0,
                          attained=service + 4 * since_s, changed=-since_s if since_s else -waited_s,
                          submitted=-(ran_s + waited_s + since_s))  # fmt: skip
        new = best_effort("new", LINEAR, 1e6, requested=4, submitted=-1.0)
        sizes: list[int] = Tiresias().decide(snapshot([old, new], 4)).workers.tolist()
        return sizes

    assert workers(starved_s - 1.0, 0.0) == [0, 4]
    assert workers(starved_s, 0.0) == [4, 0]
    again_s = THRESHOLDS_DEVICE_S[0] / 4
    assert workers(starved_s, again_s - 1.0) == [4, 0]
    assert workers(starved_s, again_s) == [0, 4]
