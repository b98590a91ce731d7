"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from swell.api.durations import parse_duration
from swell.cli.completion import complete_job
from swell.model.errors import InvalidInput

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
