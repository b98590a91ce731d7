"""The commands of `swell`, of which a process imports only the one that it runs, and no validation.

To import all, or Pydantic, takes longer than most commands do.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import EnumType
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import typer
import typer.core
from typer.core import TyperCommand, TyperGroup

from swell.entry_points import EntryPoint, entry_points_of, how_to_install, repair
from swell.model.errors import InvalidInput

#: How help is asked for and laid out.
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
#: What `swell --help` lists under each heading, and where each command is: module of this package, name of
#: the function or group in it, and of a group the function that describes it. A command of another package
#: stands under the last heading.
SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Each day": {
        "up": "up:up",
        "submit": "submit:submit",
        "run": "sessions:run",
        "jobs": "jobs:list_jobs",
        "show": "jobs:show",
        "logs": "logs:logs",
        "explain": "jobs:explain",
        "cancel": "job_verbs:cancel",
        "page": "login:page",
        "check": "doctor:check",
        "down": "down:down",
    },
    "Jobs": {
        "attach": "sessions:attach",
        "download": "job_verbs:download",
        "wait": "job_verbs:wait",
        "hold": "job_verbs:hold",
        "resume": "job_verbs:resume",
        "promise": "job_verbs:promise",
        "prioritize": "job_verbs:prioritize",
        "retry": "job_verbs:retry",
        "continue": "job_verbs:continue_jobs",
        "accept-differences": "job_verbs:accept_differences",
        "metrics": "metrics:metrics",
        "curve": "metrics:curve",
        "notify": "login:notify",
    },
    "Platforms": {
        "login": "login:login",
        "logout": "login:logout",
        "node": "tokens:node",
        "nodes": "nodes:app:list_nodes",
        "book": "book:book",
        "what-if": "what_if:what_if",
        "doctor": "doctor:doctor",
        "selftest": "selftest:selftest",
        "restore": "doctor:restore",
        "admin": "upkeep:app:admin",
    },
    "Research": {"simulate": "simulate:simulate", "trace": "trace:app:show_help", "demo": "demo:demo"},
}
SOURCES = {name: source for section in SECTIONS.values() for name, source in section.items()}
#: The commands of `swell admin`.
ADMIN_SOURCES = {
    "users": "users:users_app:list_users",
    "tenants": "users:tenants_app:list_tenants",
    "tokens": "tokens:app:show_help",
    "usage": "upkeep:usage",
    "backup": "doctor:backup",
    "replay": "upkeep:replay",
    "prune": "upkeep:prune",
}
#: Entry points of typer apps: commands of other packages, by name.
GROUP = "swell.commands"
#: Packages to install, by the commands that they have.
ELSEWHERE = {"repro": "swell-papers"}


class _CommandLine(TyperCommand):
    """A command in a list, of which its module need not be imported."""

    def __init__(self, name: str, source: str) -> None:
        super().__init__(name)
        self._source = source

    def get_short_help_str(self, limit: int = 45) -> str:
        """The first sentence of its docstring."""
        module, *names = self._source.split(":")
        text = Path(__file__).with_name(f"{module}.py").read_text("utf-8")
        found = re.search(rf'^def {names[-1]}\(.*?"""(.*?)"""', text, re.MULTILINE | re.DOTALL)
        self.help = found and found[1]
        return super().get_short_help_str(limit)


class LazyGroup(TyperGroup):
    """Commands by name, of which only the one that is run is imported. Help needs only their lines."""

    sources: ClassVar[Mapping[str, str]]

    def __init__(self, **attributes: Any) -> None:
        lines = {name: _CommandLine(name, source) for name, source in self.sources.items()}
        super().__init__(**{**attributes, "commands": lines})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, line, others = super().resolve_command(ctx, args)
        return name, None if line is None else load(line.name or "", self.sources), others


class AdminGroup(LazyGroup):
    """The commands of `swell admin`."""

    sources = ADMIN_SOURCES


class CommandGroup(LazyGroup):
    """All commands of `swell`."""

    sources = SOURCES

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        use_plain_values()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands under the headings of `SECTIONS`; those of other packages are not imported."""
        others = {name: point for name, point in commands_of_packages().items() if name not in SOURCES}
        for heading, names in SECTIONS.items():
            limit = formatter.width - 6 - max(map(len, names))
            lines = [(name, self.commands[name].get_short_help_str(limit)) for name in names]
            if heading == [*SECTIONS][-1]:
                lines += [(name, f"A command of {point.package}.") for name, point in others.items()]
            with formatter.section(heading):
                formatter.write_dl(lines)

    def list_commands(self, ctx: Any) -> list[str]:
        """Swell's own, then those of other packages."""
        return [*SOURCES, *(name for name in commands_of_packages() if name not in SOURCES)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The line of a command of Swell; all of another package's, if it can be used."""
        if cmd_name in self.commands or cmd_name not in commands_of_packages():
            return super().get_command(ctx, cmd_name)
        with suppress(InvalidInput):
            return load_of_package(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and args[0] in commands_of_packages():
            return args[0], load_of_package(args[0]), args[1:]
        if args[0] in ELSEWHERE:
            ctx.fail(how_to_install(f"command {args[0]!r}", ELSEWHERE[args[0]]))
        if args[0] not in self.commands and args[0] in ADMIN_SOURCES:
            ctx.fail(f"no such command {args[0]!r}: it is `swell admin {args[0]}`")
        return super().resolve_command(ctx, args)


def load(name: str, sources: Mapping[str, str] = SOURCES) -> Any:
    """The command, or the group of commands, complete."""
    module, attribute = sources[name].split(":")[:2]
    found = getattr(import_module(f"swell.cli.{module}"), attribute)
    program = found if isinstance(found, typer.Typer) else _of_function(name, found)
    return typer.main.get_command(program)


def load_all() -> dict[str, Any]:
    """Each command by name, as `swell --help` lists them."""
    others = {name: load_of_package(name) for name in commands_of_packages() if name not in SOURCES}
    own = {name: load(name) for name in SOURCES if name != "admin"}
    return own | {f"admin {name}": load(name, ADMIN_SOURCES) for name in ADMIN_SOURCES} | others


@cache
def commands_of_packages() -> Mapping[str, EntryPoint]:
    """What other packages register as commands, by name."""
    return {point.name: point for point in entry_points_of(GROUP)}


def load_of_package(name: str) -> Any:
    """A command of another package. Raises InvalidInput: it cannot be used."""
    point = commands_of_packages()[name]
    try:
        found = point.load()
        if not isinstance(found, typer.Typer):
            raise TypeError(f"{point.value} is no typer.Typer")
    except (Exception, SystemExit) as error:
        why = repair(point.package, f"{type(error).__name__}: {' '.join(str(error).split())}")
        raise InvalidInput(f"command {name!r} {why}") from error
    return typer.main.get_command(found)


def _of_function(name: str, function: Any) -> typer.Typer:
    program = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    program.command(name)(function)
    return program


def use_plain_values() -> None:
    """Have Typer convert only the values that need it, in this process.

    A version of Typer that converts in another way stays as it is.
    """
    place: Any = typer.core
    build = getattr(place, "build_runtime_param", None)
    if build is not None and build is not _PlainValue:
        _PlainValue.build = build
        place.build_runtime_param = _PlainValue


class _PlainValue:
    """The conversion of the values of one parameter; Typer's own is made when a value needs it."""

    build: ClassVar[Callable[[Any], Any]]  #: Typer's own

    def __init__(self, descriptor: Any) -> None:
        self._descriptor = descriptor

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value as the command gets it. Raises Typer's own errors."""
        is_list = param.multiple or param.nargs == -1
        if value is None or (is_list and not value):
            return () if is_list else None
        kind, rules = self._descriptor.annotation, self._descriptor.parameter_info
        if kind == list[str]:
            return list(value)
        if kind in (str, bool) and type(value) is kind:
            return value
        if kind is Path and (os.access(value, os.R_OK) or not os.path.exists(value)):
            return Path(value)
        if isinstance(kind, EnumType):
            with suppress(ValueError):
                return kind(value)
        if kind in (int, float):
            least = -math.inf if rules.min is None else rules.min
            most = math.inf if rules.max is None else rules.max
            with suppress(ValueError):
                if least <= (number := kind(value)) <= most:
                    return number
        return _PlainValue.build(self._descriptor).coerce(value, param=param, ctx=ctx)
