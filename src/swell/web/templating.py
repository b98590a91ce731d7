"""Templates of this folder, filled in. What is filled in is text: markup in it is shown, and does nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def environment() -> Environment:
    """Return the Jinja environment of all pages and reports.

    Autoescape is on for every template, and an unknown name is an error.
    """
    made = Environment(
        loader=PackageLoader("swell.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    made.filters |= {"clock": clock, "iso": iso}
    return made


def render(name: str, values: Mapping[str, Any]) -> str:
    """The template of this name with these values."""
    return environment().get_template(name).render(values)


def clock(at_s: float | None) -> str:
    """The time by this machine's clock, as `14:05:22`, on another day `Jan 15 14:05`.

    A page's script puts its own in.
    """
    if at_s is None:
        return "\N{EN DASH}"
    at = datetime.fromtimestamp(at_s).astimezone()
    is_today = at.date() == datetime.now().astimezone().date()
    return f"{at:%H:%M:%S}" if is_today else f"{at:%b} {at.day} {at:%H:%M}"


def iso(at_s: float) -> str:
    """The same for programs."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
