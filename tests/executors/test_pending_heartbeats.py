"""What a host tells of its workers' signs of life: of each the newest, all together, and soon enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swell.executors.hosts import messages as h
from swell.executors.node.pending_heartbeats import HEARTBEATS_TOGETHER, PendingHeartbeats
from swell.settings import HEARTBEATS_IN_SILENCE
from swell.wire import messages as m

TICK_S = 0.1


def said(worker: int, message: m.FromWorker) -> h.WorkerSaid:
    return h.WorkerSaid(run="job", worker=worker, message=message)


def welcomed(heartbeat_s: float) -> PendingHeartbeats:
    made = PendingHeartbeats()
    welcome = m.Welcome(
        job_id="job",
        mode="train",
        device="cpu",
        global_batch=1,
        total_steps=None,
        seed=0,
        checkpoint_dir="/",
        heartbeat_s=heartbeat_s,
    )
    made.note_told(h.TellWorker(run="job", worker=0, message=welcome))
    return made


@given(
    st.floats(0.05, 60.0),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["alive", "progress"])), max_size=30),
)
def test_the_newest_sign_of_each_worker_is_told_unless_it_has_said_more_since(
    heartbeat_s: float, spoken: list[tuple[int, str]]
) -> None:
    made, newest = welcomed(heartbeat_s), {}
    for steps, (worker, what) in enumerate(spoken):
        if what == "alive":
            newest[worker] = m.Alive(steps=steps)
            assert made.hold(said(worker, newest[worker]))
        else:
            newest.pop(worker, None)
            assert not made.hold(said(worker, m.Progress(generation=1, steps=steps, num_workers=3)))
    told = made.take(0.0)
    assert (told.runs.get("job", {}) if told else {}) == newest
    assert made.take(0.0) is None, "each is told once"


@given(st.floats(0.05, 60.0), st.integers(1, 8))
def test_no_worker_that_gives_signs_is_silent_for_the_controller(
    heartbeat_s: float, num_workers: int
) -> None:
    """Looked at ten times a second, and whatever the shortest silence is that the settings allow."""
    made, heard_s, now_s = welcomed(heartbeat_s), dict.fromkeys(range(num_workers), 0.0), 0.0
    beat_s = {worker: heartbeat_s * worker / num_workers for worker in range(num_workers)}
    shortest_s = max(1.0, HEARTBEATS_IN_SILENCE * heartbeat_s)
    while now_s < 20 * heartbeat_s:
        now_s += min(TICK_S, heartbeat_s / 2)
        for worker, due_s in beat_s.items():
            if now_s >= due_s:
                made.hold(said(worker, m.Alive()))
                beat_s[worker] = due_s + heartbeat_s
        if (told := made.take_due(now_s)) is not None:
            heard_s.update(dict.fromkeys(told.runs["job"], now_s))
        assert all(now_s - last_s < shortest_s for last_s in heard_s.values())


def test_signs_are_told_no_more_often_than_they_have_to_be() -> None:
    made, num_told = welcomed(0.5), 0
    for tick in range(100):
        for worker in range(8):
            made.hold(said(worker, m.Alive(steps=tick)))
        num_told += made.take_due(tick * TICK_S) is not None
    assert num_told <= 10.0 / (HEARTBEATS_TOGETHER * 0.5)
