"""Options that several commands have, and groups of options as parameters."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import EnumType
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import typer

from swell.model.errors import InvalidInput
from swell.model.quantities import parse_duration

if TYPE_CHECKING:
    import msgspec

    from swell.executors.local.devices import LocalNode

Parsed = TypeVar("Parsed")
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
    """Options, and what makes one value of them. A dataclass with options as fields is a group too."""

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
    if isinstance(kind, type) and is_dataclass(kind):
        return OptionGroup(tuple(_options(kind)), kind)
    if get_origin(kind) is Annotated and isinstance(kind.__metadata__[0], OptionGroup):
        return kind.__metadata__[0]
    return None


def _options(kind: Any) -> Iterator[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        default = Parameter.empty if field.default is MISSING else field.default
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name])


def declared_options(kind: type[msgspec.Struct], without: Collection[str] = ()) -> OptionGroup:
    """The options that the fields of a struct declare, by name of the field; what is unsaid is left out."""
    hints = {
        name: hint
        for name, hint in get_type_hints(kind, include_extras=True).items()
        if hasattr(hint, "__metadata__") and name not in without
    }

    def read(**said: Any) -> dict[str, Any]:
        return {name: _read(name, hints[name], value) for name, value in said.items() if value is not None}

    return OptionGroup(tuple(_parameter(name, hint) for name, hint in hints.items()), read)


def _parameter(name: str, hint: Any) -> Parameter:
    (meta,), kind = hint.__metadata__, _kind(hint)
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        kind = list[str]
    elif kind is not bool and (kind not in (int, float) or meta.extra["parse"]):
        kind = str
    option = typer.Option(
        flag_of(name, meta),
        metavar=meta.extra["metavar"] or None,
        help=meta.description,
        hidden=meta.extra["is_rare"],
    )
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option])


def _kind(hint: Any) -> Any:
    """The type of a field, but for its None."""
    kinds = [kind for kind in get_args(hint.__origin__) if kind is not NoneType]
    return kinds[0] if isinstance(hint.__origin__, UnionType) else hint.__origin__


def flag_of(name: str, meta: msgspec.Meta) -> str:
    """The option of a field."""
    return (meta.extra or {})["flag"] or f"--{name.replace('_', '-')}"


def _read(name: str, hint: Any, said: Any) -> Any:
    """The value of a field. Raises InvalidInput, which names the option."""
    (meta,), kind = hint.__metadata__, _kind(hint)
    is_enum = isinstance(kind, EnumType)
    choices = get_args(kind) if get_origin(kind) is Literal else tuple(kind) if is_enum else ()
    parse = meta.extra["parse"] or (kind if is_enum else None)
    try:
        if choices and said not in choices and not meta.extra["parse"]:
            raise ValueError(f"{said!r} is not known; choose one of {', '.join(choices)}")
        return said if parse is None else parse(said)
    except ValueError as error:
        raise InvalidInput(f"{flag_of(name, meta)}: {error}") from error


State = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="FOLDER", help="State folder. Default: $SWELL_STATE, else ~/.local/state/swell."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


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
Run = Annotated[
    Path | None,
    typer.Option(
        "--run",
        metavar="FOLDER",
        help="Folder written by `swell simulate --stories`: show a job of that run.",
    ),
]
RunPolicy = Annotated[
    str | None,
    typer.Option("--policy", metavar="NAME", help="With --run: the policy, if the run has several."),
]


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
