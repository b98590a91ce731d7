"""Options that a command takes as one value: each is declared once, with its default and its help."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_origin, get_type_hints


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
