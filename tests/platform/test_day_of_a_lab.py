"""A day of a lab in five minutes: elastic and fixed jobs, sessions and a booking in one queue, and kills.

No promise breaks, no command outlives its limit, nothing runs on booked devices but the job of their owner,
and a session starts at once on a platform that is full. `DAY_SEED` chooses another day.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from subprocess import Popen

import psutil
import pytest
from tests.chaos.scene import end
from tests.eventually import eventually
from tests.platform.program import Program, job_id, submission

from swell.api.client import connect
from swell.api.errors import NoPlatform
from swell.model.view import JobView

pytest.importorskip("torch")

DEVICES, NUM_DEVICES = "paced:8@640", 8
SETTINGS = ("standstill_s=2", "stuck_s=10", "yield_s=5", "checkpoint_interval_s=2", "min_hold_s=1")
DAY_S = 300.0
NUM_ELASTIC, NUM_FIXED, NUM_SESSIONS, NUM_KILLS = 8, 4, 2, 20
#: A limit may be passed by so much.
LATE_S, GRACE_S = 2.0, 1.0
#: Clocks of a reader and of the head differ by less.
MOMENT_S = 0.5
END_WITHIN_S = 300.0
SESSION_S, SESSION_STARTS_WITHIN_S = 40.0, 3.0
BOOKED, BOOKED_FROM_S, BOOKED_FOR_S = 4, 150.0, 40.0
#: A deadline is kept through kills if there is time to make good for them.
ROOM_S = 600.0


@dataclass
class Day:
    program: Program
    folder: Path
    chance: Random
    begun_s: float = field(default_factory=time.monotonic)
    elastic: list[str] = field(default_factory=list)
    fixed: dict[str, float] = field(default_factory=dict)  #: id -> limit, in seconds
    sessions: list[Popen[str]] = field(default_factory=list)
    booking: str = ""
    booked_s: tuple[float, float] = (0.0, 0.0)  #: seconds since 1970
    in_booking: str = ""
    killed: list[str] = field(default_factory=list)
    num_looks: int = 0  #: while devices were booked

    # ------------------------------------------------------------ looking
    @property
    def clock_s(self) -> float:
        return time.monotonic() - self.begun_s

    def has_ended(self) -> bool:
        self.ensure_up()
        self.watch()
        views = self.views()
        return bool(views) and all(view.phase.is_end for view in views)

    def views(self) -> list[JobView]:
        """None while no daemon answers."""
        try:
            with connect(self.program.state) as client:
                return client.jobs()
        except NoPlatform:
            return []

    # ------------------------------------------------------------ what a lab does
    def up(self) -> None:
        words = (word for text in SETTINGS for word in ("--set", text))
        self.program.ok("up", "--devices", DEVICES, *words)

    def ensure_up(self) -> None:
        if self.program.daemon_pid is None:
            self.up()

    def train(self) -> None:
        number = len(self.elastic)
        folder = self.folder / f"elastic-{number}"
        folder.mkdir()
        options: list[object] = ["--epochs", self.chance.randint(20, 60), "--workers", "1:4"]
        if number % 2:
            options += ["--deadline", f"now+{ROOM_S:g}s", "--accept-until", "now+1h"]
        self.elastic.append(job_id(self.program.ok(*submission(folder, "--no-wait", *options))))

    def command(self) -> None:
        """The first outlives its limit, the second has a deadline, the third may be suspended."""
        number = len(self.fixed)
        time_s, length_s = ((10, 60), (40, 15), (60, 25), (30, 5))[number]
        options: list[object] = ["--devices", (1, 2, 4, 2)[number], "--time", f"{time_s}s", "--grace", "1s"]
        options += [(), ("--deadline", f"now+{ROOM_S:g}s"), ("--may-suspend",), ()][number]
        words = ("submit", "--no-wait", "--name", f"fixed-{number}", "--retries", 20, *options, "--")
        self.fixed[job_id(self.program.ok(*words, "sleep", length_s))] = time_s

    def sit_down(self) -> None:
        """A session on whatever is idle or can shrink, with a terminal that stays open."""
        name, asked_s = f"s{len(self.sessions)}", time.monotonic()
        words = ("run", "--devices", 2, "--time", f"{SESSION_S:g}s", "--name", name)
        shell = ("sh", "-c", "echo sits; sleep 20")
        self.sessions.append(self.program.begin(*words, "--", *shell))
        printed = self.sessions[-1].stdout
        assert printed is not None and printed.readline() == "sits\n"
        took_s = time.monotonic() - asked_s
        assert took_s <= SESSION_STARTS_WITHIN_S, (took_s, self.views())

    def book(self) -> None:
        begin = f"now+{BOOKED_FROM_S - self.clock_s:g}s"
        when = ("--from", begin, "--for", f"{BOOKED_FOR_S:g}s")
        (booked,) = self.program.json("book", "--devices", BOOKED, *when)
        self.booking, (self.booked_s,) = booked["id"], booked["times_s"]
        job = ("--devices", BOOKED, "--time", "15s", "--grace", "1s", "--name", "class", "--retries", 20)
        words = ("submit", "--no-wait", *job, "--booking", self.booking, "--", "sleep", 10)
        self.in_booking = job_id(self.program.ok(*words))

    # ------------------------------------------------------------ what happens to it
    def kill(self) -> None:
        what = self.chance.choices(("worker", "command", "agent", "daemon"), (8, 4, 2, 4))[0]
        views = [view for view in self.views() if view.live_pids]
        if what in ("worker", "command"):
            pids = [
                pid for view in views if bool(view.fixed) == (what == "command") for pid in view.live_pids
            ]
            pids = [pid for pid in pids if psutil.pid_exists(pid)]
            victims = [self.chance.choice(pids)] if pids else []
        elif what == "agent":
            victims = [self.program.agent_pid]
        else:
            victims = [pid] if (pid := self.program.daemon_pid) else []
        end(victims)
        self.killed.append(what if victims else f"no {what}")
        self.ensure_up()

    # ------------------------------------------------------------ what must be so at any moment
    def watch(self) -> None:
        """While devices are booked, so many of them have no jobs but those of the booking."""
        begin_s, end_s = self.booked_s
        now_s, views = time.time(), self.views()
        if begin_s + MOMENT_S <= now_s <= end_s - MOMENT_S:
            others = sum(len(view.devices) for view in views if view.booking != self.booking)
            assert others <= NUM_DEVICES - BOOKED, views
            self.num_looks += 1

    def check(self) -> None:
        views = {view.id: view for view in self.views()}
        for job in (*self.elastic, *self.fixed, self.in_booking):
            view = views[job]
            assert view.phase == ("timed-out" if view.name == "fixed-0" else "succeeded"), view
            if view.job_class == "strict":
                assert view.is_promised and view.kept, view
        outlived = views[next(iter(self.fixed))]
        assert outlived.finished_s is not None and outlived.sizes
        last_start_s = max(at_s for at_s, workers in outlived.sizes if workers)
        assert outlived.finished_s - last_start_s <= 10 + GRACE_S + LATE_S, outlived
        assert self.num_looks > 0


def live(day: Day) -> None:
    chance = day.chance
    plan: list[tuple[float, Callable[[], None]]] = [(0.0, day.book)]
    plan += [(chance.uniform(0.0, 0.4), day.train) for _ in range(NUM_ELASTIC)]
    plan += [(chance.uniform(0.05, 0.4), day.command) for _ in range(NUM_FIXED)]
    plan += [(chance.uniform(0.1, 0.7), day.sit_down) for _ in range(NUM_SESSIONS)]
    plan += [(chance.uniform(0.05, 0.9), day.kill) for _ in range(NUM_KILLS)]
    for share, act in sorted(plan, key=lambda one: one[0]):
        while day.clock_s < share * DAY_S:
            day.ensure_up()
            day.watch()
            time.sleep(0.2)  # the day goes on
        act()
    day.ensure_up()
    eventually(day.has_ended, lambda: f"the end of every job: {day.views()}", END_WITHIN_S)
    day.check()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_day_of_a_lab(tmp_path: Path) -> None:
    day = Day(Program(tmp_path / "state"), tmp_path, Random(int(os.environ.get("DAY_SEED", "1"))))
    try:
        day.up()
        live(day)
        assert day.program.json("admin", "replay")["first_difference"] is None
    finally:
        print(f"killed: {', '.join(day.killed)}")
        day.program("down", "--force")
        for session in day.sessions:
            session.kill()
    assert day.program.processes() == set()
