"""The fields of a job as options: all are optional, for a job file has them too."""

from __future__ import annotations

import re
from inspect import Parameter
from typing import Annotated, Any, get_origin

import typer

from swell.api.submission import JobField, declared
from swell.cli.options import OptionGroup

#: Fields that say what runs: their options stand first.
PROGRAM = ("script", "entry", "name")
#: Fields whose options `swell submit --help` lists; `--help-all` lists the others too.
DAILY = frozenset(
    [
        "script",
        "entry",
        "name",
        "global_batch",
        "batch",
        "env",
        "steps",
        "epochs",
        "until",
        "deadline",
        "accept_until",
        "or_nothing",
        "job_class",
        "priority",
        "workers",
        "devices_per_worker",
        "kind",
        "elasticity",
        "after",
        "tags",
    ]
)


def option_name(field: str) -> str:
    """The option of a field, given the name of its attribute."""
    return f"--{declared()[field].word.replace('_', '-')}"


def _option(name: str, default: str = "") -> Any:
    """The option of a field. `default`: what holds without it, where that is not what the field says."""
    field = declared()[name]
    extra = field.meta.extra or {}
    told = _help(extra["help"]) + (" May be repeated." if _type(field) == list[str] else "")
    if default:
        told = f"{re.sub(' Default: .*', '', told)} Default: {default}."
    return typer.Option(
        option_name(name),
        metavar=extra["metavar"] or None,
        help=told,
        show_default=False,
        hidden=name not in DAILY and not default,
    )


def _help(text: str) -> str:
    """What a field says of its option, with quoted words as a terminal shows them."""
    return re.sub(r"`(\S+)`", lambda word: option_name(word[1]) if word[1] in declared() else word[1], text)


def _type(field: JobField) -> Any:
    """What an option's text is converted to; the field's own rule says what else it may not be."""
    if field.kinds == (bool,):
        return bool
    if get_origin(field.kinds[0]) in (tuple, dict):
        return list[str]
    return next((kind for kind in (str, float, int) if kind in field.kinds), str)


def _parameter(name: str) -> Parameter:
    kind: Any = _type(declared()[name])
    kind = Annotated[kind | None, _option(name)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)


_NAMES = dict.fromkeys((*PROGRAM, *(name for name, field in declared().items() if field.meta.extra)))

#: Values of all options of a job by the names of their fields; None: not given.
JobFields = Annotated[dict[str, Any], OptionGroup(tuple(map(_parameter, _NAMES)), dict)]

AcceptUntil = Annotated[str | None, _option("accept_until")]
RequiredDeadline = Annotated[str, _option("deadline")]
#: The same of a job that is there.
OtherDeadline = Annotated[str | None, _option("deadline", "as submitted; a relative one counts from now")]
OtherKind = Annotated[str | None, _option("kind", "as submitted")]
OtherPriority = Annotated[int | None, _option("priority", "as it is")]
OtherWeight = Annotated[float | None, _option("weight", "as it is")]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Do not wait for the trial run and the admission decision.")
]
