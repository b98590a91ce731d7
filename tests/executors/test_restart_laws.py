"""Whatever happens to a script that is stopped and started: it has one set of processes at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.executors.contract import JOB
from tests.executors.puppets import target
from tests.executors.test_restarts import Processes, launch

from swell.executors.gang.host_messages import StartWorker
from swell.model.command import LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.model.event import GangEnded, GangResized, GangStarted, GangSuspended, ResizeFailed
from swell.model.target import Configuration, Target
from swell.wire.messages import Stepped

Told = GangStarted | GangResized | GangSuspended | GangEnded | ResizeFailed


@dataclass
class Life(Processes):
    """Processes are forked when it pleases a host."""

    unforked: list[int] = field(default_factory=list)
    targets: dict[int, tuple[str, ...]] = field(default_factory=dict)
    answers: list[Told] = field(default_factory=list)
    asked: int = 0  #: generation of the latest command

    def __post_init__(self) -> None:
        super().__init__()

    def command(self, command: LaunchGang | Reconfigure | SuspendGang | StopGang) -> None:
        self.asked = command.generation
        if isinstance(command, LaunchGang | Reconfigure):
            self.targets[command.generation] = command.target.devices
        super().command(command)

    def do(self, effects: object) -> None:
        for effect in effects:  # type: ignore[attr-defined]
            if isinstance(effect, StartWorker):
                assert all(number in self.unforked for number in self.alive), "a set of before lives"
                self.alive[effect.worker] = effect.environ
                self.unforked.append(effect.worker)
            else:
                if isinstance(effect, Told):
                    self.hear(effect)
                super().do([effect])

    def hear(self, event: Told) -> None:
        """What is told again, after a change of controller, was true when it was told first."""
        is_again = any((type(e), e.generation) == (type(event), event.generation) for e in self.answers)
        self.answers.append(event)
        if not is_again and isinstance(event, GangStarted | GangResized):
            assert not self.unforked and set(event.pids) == {number + 100 for number in self.alive}
            has_ended = any(end.status == 0 for end in self.exits.values())  # the others are about to
            assert has_ended or self.gang.devices == self.targets[event.generation]

    @property
    def is_answered(self) -> bool:
        """Whether the head may ask for something else than the end."""
        return any(answer.generation == self.asked for answer in self.answers)

    def go_on(self, chance: Random) -> None:
        """Something happens that has to happen some time."""
        if self.unforked:
            self.fork(self.unforked.pop(0))
        elif self.alive:
            worker = chance.choice(list(self.alive))
            is_told = worker in dict(self.signals)
            if is_told or chance.random() < 0.05:
                self.end(worker, chance.choice((0, 1, 143, -9)))
            else:
                self.say(worker, Stepped(num_workers=len(self.alive), steps=1, own_steps=None))
        self.tick(self.now_s + 1.0)


def act(life: Life, chance: Random, generation: int) -> None:
    kind = chance.random()
    if kind < 0.75 or (kind < 0.98 and not life.is_answered):
        life.go_on(chance)
    elif kind < 0.95:
        batch = 128 if chance.random() < 0.2 else None  # refused: its script knows nothing of Swell
        wanted = target(*chance.sample(range(6), chance.randint(1, 3))).devices
        change = Target(devices=wanted, configuration=Configuration(global_batch=batch))
        life.command(Reconfigure(job_id=JOB, generation=generation, target=change))
    elif kind < 0.98:
        life.command(SuspendGang(job_id=JOB, generation=generation))
    else:
        life.command(StopGang(job_id=JOB, generation=generation))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 60), st.randoms(use_true_random=False))
def test_a_script_runs_as_was_asked_last_or_its_end_is_told(num_moves: int, chance: Random) -> None:
    life = Life()
    life.command(launch(0, 1))
    for generation in range(2, num_moves + 2):
        if chance.random() < 0.1 and not life.unforked and life.gang.gang.workers and not life.gang.is_over:
            life.replace_controller()
        act(life, chance, generation)
    life.command(StopGang(job_id=JOB, generation=1000))
    for _ in range(200):
        if life.gang.is_over:
            break
        life.go_on(chance)
    last = life.answers[-1]
    assert life.gang.is_over and not life.alive
    assert isinstance(last, GangEnded | GangSuspended) and last.generation in (1000, life.gang.generation)
