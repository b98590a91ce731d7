"""Runs a core in a simulated world and holds it to its laws at every turn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from tests.core.checked_world import CheckedWorld
from tests.core.crossing import Crossing
from tests.core.driven_world import DrivenWorld

from swell.core.core import Core
from swell.core.loop import World
from swell.core.platform_core import PlatformCore
from swell.core.progress import NUM_KEPT
from swell.live.board import TurnResult, ViewBoard
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure, StopGang, WakeAt
from swell.model.event import (
    AnyEvent,
    CancelRequested,
    DeadlineChangeAsked,
    HoldRequested,
    PriorityChanged,
    ResumeRequested,
)
from swell.model.job import JobSpec, Phase
from swell.model.resize import Verdict
from swell.model.view import JobView

#: What may happen to it at any time.
FATES = ("turn", "fold", "die", "turn and die")


class Head:
    """A core that may die, and a twin that hears the same and never does.

    Args:
        make: a fresh core; called for each life.
        delivers: what stands between the head and the world; messages cross unless it is told.
    """

    def __init__(self, make: Callable[[], Core], world: DrivenWorld, delivers: World | None = None) -> None:
        self.world = world
        self.port = CheckedWorld(delivers or Crossing(world, world.seed), lambda: world.gangs)
        self.core = PlatformCore(make)
        self.ended: dict[str, JobView] = {}
        self.batches: list[Sequence[AnyEvent]] = []
        self._make = make
        self._twin = PlatformCore(make)
        self._board = ViewBoard()
        self._saved: bytes | None = None
        self._journal: list[Sequence[AnyEvent]] = []
        self._generations: dict[str, int] = {}
        self._issued: defaultdict[str, list[object]] = defaultdict(list)  #: by job
        self._held: dict[str, tuple[str, ...]] = {}  #: by job, after the turn before

    # ------------------------------------------------------------ users
    def submit(self, job_id: str, spec: JobSpec) -> None:
        self.world.submit(job_id, spec)

    def cancel(self, job_id: str) -> None:
        self.world.say(CancelRequested(at_s=self.world.now_s, job_id=job_id))

    def hold(self, job_id: str) -> None:
        self.world.say(HoldRequested(at_s=self.world.now_s, job_id=job_id))

    def prioritize(self, job_id: str, priority: int | None = None, weight: float | None = None) -> None:
        event = PriorityChanged(at_s=self.world.now_s, job_id=job_id, priority=priority, weight=weight)
        self.world.say(event)

    def resume(self, job_id: str) -> None:
        self.world.say(ResumeRequested(at_s=self.world.now_s, job_id=job_id))

    def ask_deadline(self, job_id: str, in_s: float, accept_in_s: float | None = None) -> None:
        """`in_s` seconds from now."""
        at_s = self.world.now_s
        until_s = None if accept_in_s is None else at_s + accept_in_s
        self.world.say(
            DeadlineChangeAsked(at_s=at_s, job_id=job_id, deadline_s=at_s + in_s, accept_until_s=until_s)
        )

    # ------------------------------------------------------------ the loop
    def turn(self) -> bool:
        """One turn of the loop; False once the world has ended."""
        commands = self.decide()
        if commands is None:
            return False
        for command in commands:
            self.port.perform(command)
        self._check_world()
        return True

    def turn_and_die(self) -> None:
        """A turn whose commands are decided, and maybe journalled, but never performed."""
        if self.decide() is not None:
            self.die()
            self._check_world()

    def run(self, max_turns: int = 3000) -> None:
        """Until nothing will ever happen again."""
        for _ in range(max_turns):
            if not self.turn():
                return
        raise AssertionError(f"no rest after {max_turns} turns, at {self.world.now_s:.3f} s: {self.story()}")

    def run_until(self, is_reached: Callable[[], bool], max_turns: int = 1000) -> None:
        for _ in range(max_turns):
            if is_reached():
                return
            assert self.turn(), f"the world ended first: {self.story()}"
        raise AssertionError(f"not reached after {max_turns} turns: {self.story()}")

    def run_for(self, duration_s: float) -> None:
        """Turns that are due within so many seconds of the world's time."""
        until_s = self.world.now_s + duration_s
        self.run_until(lambda: self.world.is_quiet_until(until_s))

    def decide(self) -> list[AnyCommand] | None:
        batch = self.port.next_events()
        if not batch:
            return None
        self.batches.append(batch)
        commands = self._handle(batch)
        self._check_turn(commands)
        return commands

    def _handle(self, batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        """Let the core handle a batch, and the twin too: it decides the same."""
        self._journal.append(batch)
        commands = self.core.handle(batch)
        self._board.post(TurnResult.of(self.core))
        assert self._twin.handle(batch) == commands
        return commands

    # ------------------------------------------------------------ lives
    def undergo(self, fate: str) -> bool:
        """One of `FATES`; False if it is none."""
        match fate:
            case "turn":
                self.turn()
            case "fold":
                self.fold()
            case "die":
                self.die()
            case "turn and die":
                self.turn_and_die()
            case _:
                return False
        return True

    def fold(self) -> None:
        """Keep the state and forget the batches."""
        self._saved = self.core.save()
        self._journal = []
        reborn = PlatformCore(self._make)
        reborn.load(self._saved)
        assert reborn.save() == self._saved

    def die(self) -> None:
        """Killed with -9 and started again: fold, replay, and say again what is under way."""
        before = self.core.save()
        self._recover()
        assert self.core.save() == before
        self._say_again()

    def _recover(self) -> None:
        """Begin a life with the fold, and replay the batches since."""
        self._begin(self._saved)
        for batch in self._journal:
            self.core.handle(batch)
            self._board.post(TurnResult.of(self.core))

    def _begin(self, saved: bytes | None) -> None:
        self.core = PlatformCore(self._make)
        if saved is not None:
            self.core.load(saved)
        self._board = ViewBoard()
        self._board.post(TurnResult.of(self.core))

    def _say_again(self) -> None:
        for command in self.core.under_way():
            self.port.perform(command)

    def copies(self, num: int) -> list[PlatformCore]:
        """Cores in the state of this one, to try something out on."""
        cores = [PlatformCore(self._make) for _ in range(num)]
        for core in cores:
            core.load(self.core.save())
        return cores

    # ------------------------------------------------------------ what is seen
    def job(self, job_id: str) -> JobView:
        open_jobs = {view.id: view for view in self.core.views()}
        return self.ended.get(job_id) or open_jobs[job_id]

    def phase(self, job_id: str) -> Phase:
        return self.job(job_id).phase

    @property
    def delivered(self) -> list[AnyEvent]:
        """All that it was told so far."""
        return [event for batch in self.batches for event in batch]

    def story(self) -> str:
        return "; ".join(
            f"{view.id} {view.phase} {view.workers} workers, {view.steps} steps, {view.reason}"
            for view in self.core.views()
        )

    # ------------------------------------------------------------ laws
    def _check_turn(self, commands: list[AnyCommand]) -> None:
        ended, views = self.core.ended_views(), self.core.views()
        for view in ended:
            assert view.id not in self.ended, f"{view.id} ended twice"
            assert not (view.is_promised and view.phase is Phase.REJECTED)
            assert view.devices == () and view.finished_s is not None
            self.ended[view.id] = view
        assert not self.ended.keys() & {view.id for view in views}, "an ended job came back"
        for view in [*views, *ended]:
            _check_history(view)
        self._check_generations(commands)
        self._check_under_way(commands)
        self._check_places(commands, views)
        held = [device for view in views for device in view.devices]
        assert len(held) == len(set(held))
        self._check_board(views)

    def _check_places(self, commands: list[AnyCommand], views: Sequence[JobView]) -> None:
        """No gang gets a device of a node that is gone or to be left; it may keep one that it had."""
        nodes = [node for node in self.core.cluster.nodes if node.name not in self.core.warned]
        usable = {device for node in nodes for device in node.devices}
        for command in commands:
            if isinstance(command, LaunchGang | Reconfigure):
                own = self._held.get(command.job_id, ()) if isinstance(command, Reconfigure) else ()
                assert usable.union(own).issuperset(command.target.devices), (command, usable)
        self._held = {view.id: view.devices for view in views}

    def _check_board(self, views: Sequence[JobView]) -> None:
        """What was posted change by change is what is."""
        shown = {view.id: view for view in self._board.jobs() if not view.phase.is_end}
        assert shown == {view.id: view for view in views}
        assert all(self._board.job(job_id) == view for job_id, view in shown.items())

    def _check_generations(self, commands: list[AnyCommand]) -> None:
        """Each command about a gang has a generation of its own; a stop names the one it stops."""
        for command in commands:
            if not isinstance(command, ProfileJob | WakeAt):
                last = self._generations.get(command.job_id, 0)
                is_stop = isinstance(command, StopGang)
                assert command.generation >= last if is_stop else command.generation > last
                self._generations[command.job_id] = command.generation

    def _check_under_way(self, commands: list[AnyCommand]) -> None:
        """What was just said is out, but for ends of unwanted trial runs; what is out was said."""
        for command in commands:
            self._issued[_job_of(command)].append(_without_sizes(command))
        out = self.core.under_way()
        under_way = [_without_sizes(command) for command in out]
        awaited = [command for command in commands if _job_of(command) not in self.ended]
        assert all(_without_sizes(command) in under_way for command in awaited)
        assert all(_without_sizes(command) in self._issued[_job_of(command)] for command in out)

    def _check_world(self) -> None:
        """Every device that may have a process on it is one that the head holds for this very job."""
        held = {device: view.id for view in self.core.views() for device in view.devices}
        held |= self.core.unknown_owner
        for device, job_id in self.port.occupied.items():
            assert held.get(device) == job_id, f"{device} is busy with {job_id}, the head says {held}"


def _job_of(command: AnyCommand) -> str:
    """Empty for a timer, which is of no job."""
    return "" if isinstance(command, WakeAt) else command.job_id


def _without_sizes(command: AnyCommand) -> object:
    """Which sizes a trial run is about may have changed with the cluster since it began."""
    return ("profile", command.job_id) if isinstance(command, ProfileJob) else command


def _check_history(view: JobView) -> None:
    """Every resize of a job is there once, its size was held at most until the next, and none is made up."""
    history = view.resize_history
    assert len(history) <= NUM_KEPT
    assert [entry.at_s for entry in history] == sorted(entry.at_s for entry in history)
    answered = [entry for entry in history if entry.wait_s is not None]
    assert len(answered) == view.resizes or len(history) == NUM_KEPT, (view.resizes, history)
    under_way = [entry for entry in history if entry.verdict is Verdict.UNDER_WAY]
    assert under_way in ([], [history[-1]] if history else [])
    held = [entry for entry in history if entry.is_held]
    assert held in ([], answered[-1:])
    assert not (held and view.phase.is_end) and not (under_way and view.phase.is_end)
    for entry in answered:
        assert entry.cost_s is None or 0.0 <= entry.cost_s <= view.resize_pause_s + 1e-9
