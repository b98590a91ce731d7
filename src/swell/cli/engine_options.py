"""The options of `swell up` that engines declare."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Annotated, Any

import typer

from swell.cli.options import OptionGroup, show_options
from swell.executors.engine import Engine, flags_of
from swell.executors.engines import ENGINES
from swell.plugins import meaning

#: Options of `swell up` that no field of its own options is named for.
RESERVED = frozenset({"set", "state", "foreground", "help"})


def options_of_engines(taken: Collection[str]) -> OptionGroup:
    """The options of all engines, given by name, None if unsaid. One whose options are taken is refused."""
    found: dict[str, list[type[Engine]]] = {}
    for name, kind in list(ENGINES.items()):
        options = kind.__struct_fields__
        clashes = [one for one in options if one in {*taken, *RESERVED} or _clashes(kind, one, found)]
        if clashes:
            ENGINES.refuse(name, f"`swell up` has another option {clashes[0]!r}; it has to be renamed")
            continue
        for option in options:
            found.setdefault(option, []).append(kind)
    return OptionGroup(tuple(_parameter(option, kinds) for option, kinds in found.items()), dict)


def _clashes(kind: type[Engine], option: str, found: dict[str, list[type[Engine]]]) -> bool:
    return option in found and flags_of(found[option][0], option) != flags_of(kind, option)


def about_engines() -> str:
    """Help of `--engine`."""
    told = ", ".join(f"{name} ({kind.brings})" for name, kind in ENGINES.items())
    return f"What brings machines: {told}. `--engine ENGINE --help` lists options of one. Default: local."


def show_options_of_engine(context: typer.Context, name: str | None) -> str | None:
    """Have `--help` behind `--engine NAME` list the options of this engine."""
    kind = dict(ENGINES.items()).get(name or "")
    if kind is not None:
        show_options(context, kind.__struct_fields__.__contains__)
    return name


def _parameter(option: str, kinds: list[type[Engine]]) -> inspect.Parameter:
    flags, told = flags_of(kinds[0], option), dict[str, list[str]]()
    for kind in kinds:
        default = getattr(kind(), option)
        word = (default if default != "" else "none") if len(flags) == 1 else flags[not default][2:]
        text = meaning(kind, option).description
        told.setdefault(f"{text} Default: {word}.", []).append(kind.name)
    help_text = " ".join(f"With --engine {' or '.join(names)}: {text}" for text, names in told.items())
    if len(flags) == 2:
        return _annotated(option, bool, "/".join(flags), None, help_text)
    metavar = (meaning(kinds[0], option).extra or {}).get("metavar", option.upper())
    return _annotated(option, str, flags[0], metavar, help_text)


def _annotated(name: str, kind: type, flags: str, metavar: str | None, text: str) -> inspect.Parameter:
    option = typer.Option(flags, metavar=metavar, help=text, show_default=False, hidden=True)
    annotation: Any = Annotated[kind | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
