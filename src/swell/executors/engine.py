"""What an engine declares of itself: its options, what brings machines, and what its users are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

from swell.model.errors import InvalidOption
from swell.plugins import RegistryEntry, meaning

if TYPE_CHECKING:
    from swell.model.finding import Finding

OptionValue = str | bool | int | float
#: Hosts join at an address, with tokens that were given to them.
LISTENING_DOOR = "swell.executors.remote.listening_door:ListeningDoor"


class InvalidEngine(InvalidOption):
    """There is no such engine, or an option of it is none; the text names the option and the remedy."""


class Engine(RegistryEntry, kw_only=True):
    """An engine is a value: its fields are options of `swell up`, its class variables what it declares.

    A field `num_nodes` is the option `--num-nodes`. `extra` of its `Meta` may have another `metavar`, or, for
    a field that is true or false, the `flags`: `--borrowed/--owned`.
    """

    #: What brings machines, in the help of `--engine`.
    brings: ClassVar[str] = "machines of its own"
    #: `module:class` of a `local.agent.door.Door`, by which hosts come and go. The agent alone imports it.
    door: ClassVar[str] = LISTENING_DOOR
    #: People start the hosts, so they are told how.
    is_joined_by_hand: ClassVar[bool] = False
    #: Devices of the platform's own machine, unless others are named.
    devices: ClassVar[str] = "none"
    #: What `swell nodes` says while there are none.
    no_nodes: ClassVar[str] = ""
    #: A note of `swell up` about who has to be trusted.
    trust: ClassVar[str] = ""

    @property
    def about(self) -> str:
        """A line of `swell up`, about what happens next; empty: none."""
        return ""

    @property
    def changed(self) -> dict[str, OptionValue]:
        """Options that are not as by default."""
        defaults = {field.name: field.default for field in msgspec.structs.fields(self)}
        values: dict[str, OptionValue] = msgspec.to_builtins(self)
        return {name: value for name, value in values.items() if value != defaults[name]}

    def check(self, listen: str) -> None:
        """Args: `listen`: of `swell up`. Raises InvalidEngine."""

    def door_at(self, listen: str) -> str:
        """The door, if hosts come at all."""
        return "" if self.door == LISTENING_DOOR and not listen else self.door

    def encoded(self) -> str:
        """What its door finds in `AgentOptions.engine`; an agent with another text is not adopted."""
        kind = type(self)
        told = {"engine": self.name, "class": f"{kind.__module__}:{kind.__name__}"}
        return msgspec.json.encode(told | msgspec.to_builtins(self)).decode()

    def findings(self, listen: str) -> list[Finding]:
        """What `swell doctor` says of it. It takes a second at most, and changes nothing."""
        return []


class LocalEngine(Engine, kw_only=True):
    """This machine. Others may join where `--listen` names an address."""

    name = "local"
    brings = "this machine, and with --listen those that join"
    is_joined_by_hand = True
    devices = "auto"

    def encoded(self) -> str:
        return ""


def flags_of(kind: type[Engine], option: str) -> tuple[str, ...]:
    """How an option is written: `--name`, or `--on` and `--off` of what is true or false."""
    plain = option.replace("_", "-")
    if not isinstance(getattr(kind(), option), bool):
        return (f"--{plain}",)
    flags: str = (meaning(kind, option).extra or {}).get("flags", f"--{plain}/--no-{plain}")
    return tuple(flags.split("/"))


def words_of(kind: type[Engine], option: str, value: object) -> list[str]:
    """The words of a command line that give an option this value."""
    flags = flags_of(kind, option)
    return [flags[0], str(value)] if len(flags) == 1 else [flags[0 if value else 1]]
