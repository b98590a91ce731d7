"""Back to where a killed daemon was: the journal says what the head knew, the machines say what is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from swell.core.core import Core
from swell.model.cluster import Cluster, Node
from swell.model.command import AnyCommand
from swell.model.event import AnyEvent, GangEnded, NodeJoined, NodeLost, Outcome
from swell.model.job import Phase


class ReplayError(RuntimeError):
    """The journal cannot be followed to its end."""


class Entry(Protocol):
    """One batch of the journal."""

    @property
    def seq(self) -> int: ...
    @property
    def batch(self) -> Sequence[AnyEvent]: ...
    @property
    def digest(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What came of handling the journal's batches again."""

    num_batches: int
    num_commands: int
    num_compared: int  #: batches whose commands were noted at the time
    first_difference: int | None  #: number of the first batch that led to other commands now

    @property
    def is_equal(self) -> bool:
        return self.first_difference is None


def digest(commands: Sequence[AnyCommand]) -> str:
    """Equal for equal commands: what the journal keeps of them."""
    return hashlib.sha256(msgspec.json.encode(commands)).hexdigest()[:16]


def replay(core: Core, entries: Iterable[Entry]) -> Iterable[tuple[Entry, list[AnyCommand]]]:
    """Handle every batch again; yields after each, while the core stands where it stood then.

    Raises:
        ReplayError: the head cannot handle a batch that was journalled; a defect.
    """
    for entry in entries:
        try:
            commands = core.handle(entry.batch)
        except Exception as error:
            raise ReplayError(
                f"batch {entry.seq} of the journal cannot be handled ({error!r}): this is a defect of Swell, "
                "please report it with a copy of the state folder; `swell doctor --salvage` (with the same "
                "--state) then keeps what was before that batch, and queues the jobs again that it loses"
            ) from error
        yield entry, commands


def load(core: Core, state: bytes | None) -> None:
    """Give a new head the folded state of a journal, if there is one.

    Raises:
        ReplayError: the head cannot read it.
    """
    if state is None:
        return
    try:
        core.load(state)
    except Exception as error:
        raise ReplayError(
            f"the folded state in the journal cannot be read ({error!r}); `swell doctor` (with the same "
            "--state) tells what is left, `swell doctor --salvage` makes a new journal of that"
        ) from error


def compare(replayed: Iterable[tuple[Entry, list[AnyCommand]]]) -> Replay:
    """Whether the journal leads to the same commands."""
    num_batches = num_commands = num_compared = 0
    first_difference = None
    for entry, commands in replayed:
        num_batches += 1
        num_commands += len(commands)
        num_compared += entry.digest is not None
        differs = entry.digest is not None and entry.digest != digest(commands)
        if differs and first_difference is None:
            first_difference = entry.seq
    return Replay(
        num_batches=num_batches,
        num_commands=num_commands,
        num_compared=num_compared,
        first_difference=first_difference,
    )


def changed_nodes(before: Cluster, nodes: Sequence[Node], now_s: float) -> list[AnyEvent]:
    """What makes the cluster the head remembers into the one that is there."""
    here = {node.name: node for node in nodes}
    known = {node.name: node for node in before.nodes}
    lost: list[AnyEvent] = [NodeLost(at_s=now_s, name=name) for name in known if name not in here]
    return lost + [NodeJoined(at_s=now_s, node=node) for node in nodes if known.get(node.name) != node]


def missing_gangs(core: Core, alive: frozenset[str], now_s: float) -> list[AnyEvent]:
    """The end of every gang that the head believes in and no machine knows.

    One that was only being started never was: it is planned anew, on the devices that are there now.
    """
    return [
        GangEnded(
            at_s=now_s,
            job_id=gang.job_id,
            generation=gang.generation,
            outcome=Outcome.STOPPED if gang.phase is Phase.STARTING else Outcome.LOST,
            steps=gang.steps,
            message="the processes were gone when the platform came back",
        )
        for gang in core.gangs()
        if gang.job_id not in alive
    ]
