"""Options that several commands have, and groups of options as parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from swell.api.durations import parse_duration
from swell.model.errors import InvalidInput

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


def complete_phase(incomplete: str) -> Iterator[str]:
    """Phases that begin as the last one of a list does."""
    from swell.cli.selection import LISTED_WORDS

    before, comma, begun = incomplete.rpartition(",")
    return (f"{before}{comma}{word}" for word in LISTED_WORDS if word.startswith(begun.lower()))


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


def seconds(option: str, text: str) -> float:
    """The length of a duration. Raises InvalidInput, which names the option."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidInput(f"--{option}: {error}") from error
