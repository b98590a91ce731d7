"""Options that several commands have, and groups of options as parameters."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import EnumType
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import typer

from swell.model.errors import InvalidInput
from swell.model.option import Option, told_options
from swell.model.quantities import parse_duration

if TYPE_CHECKING:
    import msgspec

    from swell.executors.local.devices import LocalNode
    from swell.store.folder import StateFolder

Parsed = TypeVar("Parsed")
Described = TypeVar("Described", bound=Callable[..., Any])
#: Of the newest jobs so many are proposed.
NUM_PROPOSED = 200


def complete_job(incomplete: str) -> list[str]:
    """Ids of jobs that begin so; none if no platform answers."""
    from swell.api.client import connect
    from swell.cli.main import KNOWN

    try:
        with connect() as client:
            ids = [view.id for view in client.jobs(limit=NUM_PROPOSED)]
    except KNOWN:
        return []
    return [job_id for job_id in reversed(ids) if job_id.startswith(incomplete)]


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """Options, and what makes one value of them."""

    options: tuple[Parameter, ...]
    make: Callable[..., Any]


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer calls it: a parameter of the type of a group is all options of the group."""
    parameters, groups = signature(command, eval_str=True).parameters.values(), dict[str, OptionGroup]()

    @functools.wraps(command)
    def called(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group.make(**{option.name: values.pop(option.name) for option in group.options})
        command(**values)

    called.__dict__["__signature__"] = Signature([*_expanded(parameters, groups)])
    return called


def _expanded(parameters: Iterable[Parameter], groups: dict[str, OptionGroup]) -> Iterator[Parameter]:
    """The parameters that Typer sees; `groups` learns which are of the command."""
    for parameter in parameters:
        group = _group_of(parameter.annotation)
        if group is None:
            yield parameter.replace(kind=Parameter.KEYWORD_ONLY)
        else:
            groups[parameter.name] = group
            yield from group.options


def _group_of(kind: Any) -> OptionGroup | None:
    is_group = get_origin(kind) is Annotated and isinstance(kind.__metadata__[0], OptionGroup)
    return kind.__metadata__[0] if is_group else None


def declared_options(
    kind: type[msgspec.Struct], options: Mapping[str, Option], make: Callable[..., Any] = dict
) -> OptionGroup:
    """Options of the fields of a struct, by name of the field; `make` is given those that were said."""
    hints = get_type_hints(kind)

    def read(**said: Any) -> Any:
        given = {name: value for name, value in said.items() if value is not None}
        return make(
            **{name: _read(options[name], _kind(hints[name]), value) for name, value in given.items()}
        )

    return OptionGroup(
        tuple(_parameter(name, one, _kind(hints[name])) for name, one in options.items()), read
    )


def _parameter(name: str, option: Option, kind: Any) -> Parameter:
    is_list = get_origin(kind) is tuple and get_args(kind)[1:] == (...,)
    is_parsed = option.parse is not None and kind is not bool
    told: Any = str if is_parsed and not is_list else value_type((kind,))
    annotation = Annotated[told | None, _typer_parameter(option)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def value_type(kinds: Sequence[Any]) -> Any:
    """What the text of an option becomes, of whose value these are the types; rules may still refuse it."""
    if kinds == (bool,):
        return bool
    is_list = get_origin(kinds[0]) in (tuple, dict)
    return list[str] if is_list else next((kind for kind in (str, float, int) if kind in kinds), str)


def _typer_parameter(option: Option) -> Any:
    """What Typer takes."""
    if "argument" in option.words:
        return typer.Argument(metavar=option.metavar, help=option.help)
    least, is_rare = (0 if "count" in option.words else None), "rare" in option.words
    return typer.Option(*option.flags, metavar=option.metavar, help=option.help, min=least, hidden=is_rare)


def described(texts: str) -> Callable[[Described], Described]:
    """Give parameters of a command the options that a table of texts has for them."""

    def with_options(what: Described) -> Described:
        hints = get_type_hints(what, include_extras=True)
        for name, option in told_options(texts).items():
            what.__annotations__[name] = Annotated[hints[name], _typer_parameter(option)]
        return what

    return with_options


def _kind(hint: Any) -> Any:
    """The type of a field, but for its None."""
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    return kinds[0] if isinstance(hint, UnionType) else hint


def _read(option: Option, kind: Any, said: Any) -> Any:
    """The value of a field. Raises InvalidInput, which names the option."""
    is_enum = isinstance(kind, EnumType)
    choices = get_args(kind) if get_origin(kind) is Literal else tuple(kind) if is_enum else ()
    parse = option.parse or (kind if is_enum else None)
    try:
        if choices and said not in choices and not option.parse:
            raise ValueError(f"{said!r} is not known; choose one of {', '.join(choices)}")
        return said if parse is None else parse(said)
    except ValueError as error:
        raise InvalidInput(f"{option.flags[0]}: {error}") from error


_SHARED = told_options("""
state: FOLDER
    State folder. Default: $SWELL_STATE, else ~/.local/state/swell.
json:
    Print JSON.
run: FOLDER
    Folder written by `swell simulate --stories`: show a job of that run.
policy: NAME
    With --run: the policy, if the run has several.
format: NAME
    Format of the trace. Default: detected from its content.
strict (rare):
    Refuse a trace that has malformed lines instead of skipping them.
""")
State = Annotated[Path | None, _typer_parameter(_SHARED["state"])]
Json = Annotated[bool, _typer_parameter(_SHARED["json"])]
Run = Annotated[Path | None, _typer_parameter(_SHARED["run"])]
RunPolicy = Annotated[str | None, _typer_parameter(_SHARED["policy"])]
Format = Annotated[str | None, _typer_parameter(_SHARED["format"])]
Strict = Annotated[bool, _typer_parameter(_SHARED["strict"])]


def _show_all_options(context: typer.Context, is_wanted: bool) -> None:
    if is_wanted:
        show_options(context, lambda _: True)
        print(context.get_help())
        raise typer.Exit


def show_options(context: typer.Context, is_shown: Callable[[str], bool]) -> None:
    """Have `--help` list options that are hidden, and of whose parameters `is_shown` holds."""
    for parameter in context.command.params:
        if is_shown(parameter.name or ""):
            parameter.hidden = False  # type: ignore[attr-defined]


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all", is_eager=True, callback=_show_all_options, help="Show all options, also rare ones."
    ),
]
_OF_JOB: dict[str, Any] = {
    "metavar": "JOB",
    "help": "Job id, unique beginning of an id, or name (the newest job of that name).",
    "autocompletion": complete_job,
}
JobName = Annotated[str, typer.Argument(**_OF_JOB)]
JobNames = Annotated[
    list[str],
    typer.Argument(**{**_OF_JOB, "help": f"{_OF_JOB['help'].removesuffix('.')}, or name of a group."}),
]


def own_state(state: Path | None) -> StateFolder:
    """The state folder of a platform of this machine. Raises InvalidInput: commands go to another machine."""
    from swell.api.login import login_of
    from swell.store.folder import StateFolder

    if login := login_of(state):
        raise InvalidInput(
            f"commands go to {login.url}, and this one works on the platform's machine only; name a state "
            "folder of this machine with --state, or `swell logout`"
        )
    return StateFolder(state)


def left_folder(state: Path | None) -> StateFolder | None:
    """The folder of a platform of this machine, which may be down; None: commands go to another machine."""
    from swell.api.login import login_of
    from swell.store.folder import StateFolder

    return None if login_of(state) else StateFolder(state)


def has_subcommand(context: typer.Context, state: Path | None, json: bool) -> bool:
    """Whether a group that lists things by itself has another command to run, whose options come after it."""
    if context.invoked_subcommand is not None and (state is not None or json):
        raise typer.BadParameter(f"options come after {context.invoked_subcommand!r}")
    return context.invoked_subcommand is not None


def parsed(option: str, parse: Callable[[str], Parsed], text: str) -> Parsed:
    """What the text of an option means. Raises InvalidInput, which names the option."""
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidInput(f"--{option}: {error}") from error


def seconds(option: str, text: str) -> float:
    """The length of a duration. Raises InvalidInput, which names the option."""
    return parsed(option, parse_duration, text)


def node_of_devices(devices: str) -> LocalNode:
    """This machine with the devices that `--devices` names. Raises InvalidInput."""
    from swell.executors.local.devices import DeviceError, parse_devices

    try:
        nodes = parse_devices(devices)
    except (DeviceError, ValueError) as error:
        raise InvalidInput(f"--devices: {error}") from error
    if not nodes:
        raise InvalidInput(f"--devices {devices}: that is no device; name devices of this machine")
    return nodes[0]


# ---------------------------------------------------------------- what a user has typed
def command_line(context: typer.Context) -> str:
    """The command line that the user typed, quoted for a shell."""
    return shlex.join(_words(context))


def words_behind(context: typer.Context, command: str) -> list[str]:
    """The words that the user typed behind the name of the command."""
    words = _words(context)
    return words[words.index(command) + 1 :]


def _words(context: typer.Context) -> list[str]:
    words: list[str] | None = context.find_root().obj  # see `main.run`
    return sys.argv if words is None else words
