"""What a run commanded, as digests that say where it differs from another one."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tests.decisions.cases import Case

from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure
from swell.model.job import EndCondition, JobSpec
from swell.model.view import JobView

RECORDED = Path(__file__).with_name("recorded.json")
#: Fields of requests that there were not when the runs were recorded: left out where they are empty. Those
#: of launches are left out always.
LATER = frozenset(
    {
        "accept_differences",
        "after",
        "booking",
        "checkpoint_interval_s",
        "done_steps",
        "fixed",
        "group",
        "hold_after_trial",
        "keeps_estimates",
        "kind_speeds",
        "kinds",
        "known_findings",
        "log_limit_bytes",
        "mounts",
        "notify",
        "on_difference",
        "priority",
        "processes_per_worker",
        "resize_down_s",
        "resize_up_s",
        "rolls_back",
        "run_as",
        "run_id",
        "secrets",
        "speed",
        "tags",
        "uv",
        "verified_steps",
        "weight",
    }
)
#: Floats are eight bytes there, and sets have an order.
_encoder = msgspec.msgpack.Encoder(order="deterministic")


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """Of one run."""

    turns: int
    commands: dict[str, int]  #: how many of each kind
    promised: int  #: jobs whose deadline was promised
    refused: int
    late: int  #: promised, and not kept
    digest: str
    answers: str  #: digest of what became of each job that ended, and of its deadline
    #: One byte in hexadecimal for each command, of it and of all before it: where two runs part is where
    #: these do, or hardly later.
    trail: str


class Told(NamedTuple):
    """A command, and the turn in which it was given."""

    turn: int
    at_s: float
    command: AnyCommand

    def __str__(self) -> str:
        return f"turn {self.turn} at {self.at_s!r}: {msgspec.json.encode(self.command).decode()}"


def in_full(command: AnyCommand) -> object:
    """With fields of the request that have their defaults, as it was written when the runs were recorded.

    How often a gang saves is no decision of a policy.
    """
    if isinstance(command, LaunchGang | Reconfigure):
        target = msgspec.structs.replace(command.target, mean_time_to_loss_s=None)
        command = msgspec.structs.replace(command, target=target)
    if not isinstance(command, LaunchGang | ProfileJob):
        return command
    end = _full(EndCondition)(**msgspec.structs.asdict(command.spec.end))
    given = {**msgspec.structs.asdict(command.spec), "end": end}
    is_later = {name: name in LATER and given[name] == value for name, value in _defaults().items()}
    spec = _full(JobSpec)(**{name: value for name, value in given.items() if not is_later.get(name)})
    if not isinstance(command, LaunchGang):
        return msgspec.structs.replace(command, spec=spec)
    names = [name for name in command.__struct_fields__ if name not in LATER]
    return _full(LaunchGang)(**{name: getattr(command, name) for name in names} | {"spec": spec})


@cache
def _defaults() -> dict[str, Any]:
    """Of the fields of a request."""
    return msgspec.structs.asdict(JobSpec(name="", entry="", workdir="/", global_batch=1))


@cache
def _full(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The same fields, none of which is left out."""
    names = [field.name for field in msgspec.structs.fields(kind)]
    required, later = set(names) - LATER, set(names) & LATER
    fields = [(name, Any) for name in names if name in required]
    options = [(name, Any, None) for name in names if name in later]
    tag = kind.__struct_config__.tag
    return msgspec.defstruct(kind.__name__, [*fields, *options], kw_only=True, omit_defaults=True, tag=tag)


@dataclass(slots=True)
class Transcript:
    """All that a run commanded."""

    told: list[Told] = field(default_factory=list)
    ended: list[JobView] = field(default_factory=list)
    num_turns: int = 0

    def digest(self) -> Digest:
        whole, trail = hashlib.sha256(), bytearray()
        for one in self.told:
            whole.update(_encoder.encode((one.turn, one.at_s, in_full(one.command))))
            trail += whole.digest()[:1]
        kinds = Counter(type(one.command).__name__ for one in self.told)
        answers = hashlib.sha256(_encoder.encode([answer_of(view) for view in self.ended]))
        promised = [view for view in self.ended if view.is_promised]
        return Digest(
            turns=self.num_turns,
            commands=dict(sorted(kinds.items())),
            promised=len(promised),
            refused=sum(view.phase == "rejected" for view in self.ended),
            late=sum(view.kept is False for view in promised),
            digest=whole.hexdigest()[:16],
            answers=answers.hexdigest()[:16],
            trail=trail.hex(),
        )


def answer_of(view: JobView) -> tuple[object, ...]:
    return (
        view.id,
        view.phase.value,
        view.is_promised,
        view.deadline_s,
        view.counter_offer_s,
        view.finished_s,
        view.kept,
    )


def transcribe(case: Case) -> Transcript:
    """Run it, here and now."""
    core, world, made = case.core(), case.world(), Transcript()
    while made.num_turns < case.max_turns and (batch := world.next_events()):
        made.num_turns += 1
        for command in core.handle(batch):
            made.told.append(Told(made.num_turns, world.now_s, command))
            world.perform(command)
        made.ended += core.ended_views()
    return made


def difference(was: Digest, transcript: Transcript) -> str:
    """Where a run parts from the one that was recorded; empty if it does not."""
    now = transcript.digest()
    if now == was:
        return ""
    place = next(_parting(was.trail, now.trail), None)
    if place is None:
        return f"the same commands, but {_apart(was, now)}"
    new = str(transcript.told[place]) if place < len(transcript.told) else "the end"
    told = f"command {place + 1} of {len(was.trail) // 2} (or one shortly before) is now {new}"
    return f"{told}; {_apart(was, now)}"


def _parting(was: str, now: str) -> Iterator[int]:
    length = max(len(was), len(now))
    return (at // 2 for at in range(0, length, 2) if was[at : at + 2] != now[at : at + 2])


def _apart(was: Digest, now: Digest) -> str:
    names = [name for name in was.__struct_fields__ if name != "trail"]
    parts = ((name, getattr(was, name), getattr(now, name)) for name in names)
    return ", ".join(f"{name} {before} -> {after}" for name, before, after in parts if before != after)


def read() -> dict[str, Digest]:
    return msgspec.json.decode(RECORDED.read_bytes(), type=dict[str, Digest])


def write(digests: dict[str, Digest]) -> None:
    """One run a line."""
    lines = (
        f"{msgspec.json.encode(name).decode()}: {msgspec.json.encode(one).decode()}"
        for name, one in digests.items()
    )
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
