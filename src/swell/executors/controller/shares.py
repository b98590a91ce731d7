"""CPU shares as the head knows them: what each gang has, and what becomes of a change that is off."""

from __future__ import annotations

from dataclasses import dataclass

from swell.executors.controller.gangs import change_failed
from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import AnyEvent, GangResized, ResizeFailed, WorkersLost
from swell.model.share_mode import FULL_SHARE


@dataclass(frozen=True, slots=True)
class AskedShare:
    """What a command of this generation means for the share; of the latest one the answer is still out."""

    generation: int
    share: float


@dataclass(slots=True)
class GangShare:
    """CPU share that one gang has on each of its hosts."""

    known: float  #: that the head knows the gang to have
    asked: AskedShare | None = None


class KnownShares:
    """Pure: its owner tells hosts what it answers."""

    def __init__(self) -> None:
        self._gangs: dict[str, GangShare] = {}

    def launch(self, command: LaunchGang) -> None:
        """Its first worker is about to be started."""
        self._gangs[command.job_id] = GangShare(command.target.configuration.weight)

    def record(self, job_id: str) -> tuple[float, tuple[int, float] | None]:
        """What the gang is known to have, and what was asked for; for `restore` of the next controller's."""
        gang = self._gangs.get(job_id, GangShare(FULL_SHARE))
        return gang.known, None if gang.asked is None else (gang.asked.generation, gang.asked.share)

    def restore(self, job_id: str, known: float, asked: tuple[int, float] | None) -> None:
        self._gangs[job_id] = GangShare(known, None if asked is None else AskedShare(*asked))

    def is_news(self, command: Reconfigure) -> bool:
        """Whether the gang's share has to be set for this command: no later one came before it."""
        gang = self._gangs.get(command.job_id)
        return gang is not None and (gang.asked is None or command.generation >= gang.asked.generation)

    def is_needed(self, command: Reconfigure, is_of_same_devices: bool) -> bool:
        """Whether the command fails if its share cannot be had.

        A change of devices goes on without: others may wait for what the gang is to give up. So does one that
        leaves the share as it is, such as the repair after a loss, without which the gang refuses any other.
        """
        gang = self._gangs.get(command.job_id)
        return is_of_same_devices and gang is not None and command.target.configuration.weight != gang.known

    def due(self, job_id: str) -> float:
        """What the gang is to have by the latest command that it has heard."""
        gang = self._gangs.get(job_id)
        if gang is None:
            return FULL_SHARE
        return gang.known if gang.asked is None else gang.asked.share

    def ask(self, command: Reconfigure) -> None:
        """It is set, or need not be: the gang hears the command."""
        if (gang := self._gangs.get(command.job_id)) is not None:
            gang.asked = AskedShare(command.generation, command.target.configuration.weight)

    def told(self, event: AnyEvent) -> AskedShare | None:
        """Handle any event. Return the share to restore after a failed change; None: there is none.

        The head takes the gang to have its former share then. The result has the failed command's generation.
        """
        gang = self._gangs.get(getattr(event, "job_id", ""))
        if gang is None or gang.asked is None:
            return None
        match event:
            case GangResized() if event.generation == gang.asked.generation:
                gang.known, gang.asked = gang.asked.share, None
            case ResizeFailed() | WorkersLost() if event.generation == gang.asked.generation:
                undone, gang.asked = gang.asked, None
                return AskedShare(undone.generation, gang.known)
        return None

    def ended(self, job_id: str) -> None:
        """Every process of the gang is gone."""
        self._gangs.pop(job_id, None)


def not_shared(command: Reconfigure, why: str) -> ResizeFailed:
    """The answer, where a share that is needed cannot be had."""
    share = command.target.configuration.weight
    return change_failed(command, f"its CPU share cannot become {100 * share:.3g} %: {why}")
