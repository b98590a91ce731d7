"""The rules for single fields of a submission. Each raises InvalidField, or returns what it means."""

from __future__ import annotations

import math
import os
import re
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from swell.api.durations import format_duration, parse_duration
from swell.model.errors import InvalidJob
from swell.model.job import DriftAction, Elasticity, JobClass, MetricTarget

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@/-]{0,62}", re.ASCII)
ENTRY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
WORKERS = re.compile(r"(?P<least>\d{1,6})(?P<range>:(?P<most>\d{1,6})?)?", re.ASCII)
TARGET = re.compile(r"\s*(?P<name>[A-Za-z_][\w./-]*)\s*(?P<sign>>=|<=)\s*(?P<value>\S+)\s*", re.ASCII)

SECONDS = re.compile(r"[-+]?\d+(\.\d*)?", re.ASCII)

#: Fields that take one of a few words.
CHOICES = {"class": tuple(JobClass), "elasticity": tuple(Elasticity), "on_drift": tuple(DriftAction)}

#: Seconds a deadline may lie ahead: further than this it is a slip of the pen.
HORIZON_S = 100 * 365 * 86400.0


class InvalidField(InvalidJob):
    """A field of a submission breaks a rule."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field}: {text}" if field else text)
        self.field = field


Count = TypeVar("Count", int, float)


def bounded(field: str, value: Count, least: float, most: float) -> Count:
    if not least <= value <= most:  # false for NaN too
        raise InvalidField(field, f"{value} is not between {least:g} and {most:g}; choose a number that is")
    return value


def power_of_two(field: str, value: int) -> int:
    if value < 1 or value & (value - 1):
        raise InvalidField(field, f"{value} is not a power of two; choose 1, 2, 4, 8, ...")
    return value


def duration(field: str, value: str | int | float) -> float:
    """Seconds, more than 0."""
    try:
        seconds = parse_duration(value) if isinstance(value, str) else float(value)
    except ValueError as error:
        raise InvalidField(field, str(error)) from error
    if not 0 < seconds <= HORIZON_S:
        raise InvalidField(field, f"{value} is not a length of time more than 0; write one as 10m")
    return seconds


def entry(script: str | None, function: str | None) -> str:
    """Absolute path of a script that is there, or `package.module:function`."""
    if script is not None and function is None:
        return _script(script)
    if function is None or script is not None:
        raise InvalidField(
            "script", "give one of script (a path) and entry (package.module:function), and only one"
        )
    if not ENTRY.fullmatch(function):
        raise InvalidField("entry", f"{shown(function)} is not package.module:function; write it so")
    return function


def _script(script: str) -> str:
    path = _absolute("script", script)
    try:
        path.open("rb").close()
    except OSError as error:
        raise InvalidField(
            "script", f"{path} cannot be read ({error.strerror}); give the path of a Python script"
        ) from error
    return str(path)


def folder(field: str, value: str | None) -> str:
    """Absolute path of a folder that is there."""
    if value is None:
        raise InvalidField(field, "missing; give an absolute path of a folder")
    path = _absolute(field, value)
    if not os.path.isdir(path):  # Path.is_dir raises for names that are too long
        raise InvalidField(field, f"{path} is not a folder; make it, or give the path of one")
    return str(path)


def _absolute(field: str, value: str) -> Path:
    path = Path(_plain(field, value))
    if not path.is_absolute():
        raise InvalidField(field, f"{shown(value)} is relative to nothing; give an absolute path")
    return path


def anchored(field: str, value: str, base_dir: Path) -> str:
    """`value` below `base_dir`, unless it is absolute or begins with `~`."""
    try:
        return str(base_dir / Path(value).expanduser())
    except RuntimeError as error:
        raise InvalidField(field, f"{shown(value)} names a user that is not there; correct it") from error


def _plain(field: str, text: str) -> str:
    """Text that can be written as UTF-8 and handed to a process."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidField(field, f"{shown(text)} holds a NUL or what is no UTF-8; remove it")
    return text


def job_name(name: str | None, entry: str) -> str:
    """The name as given, or one made of the script's or function's."""
    if name is None:
        own = entry.rpartition(":")[2] if ENTRY.fullmatch(entry) else Path(entry).stem
        return re.sub(r"[^A-Za-z0-9._-]+", "-", own, flags=re.ASCII).strip("._-")[:63] or "job"
    if not NAME.fullmatch(name):
        raise InvalidField(
            "name",
            f"{shown(name)} is no name for a job; use at most 63 letters, digits, dots, dashes and "
            "underscores, a letter or digit first",
        )
    return name


def tenant(name: str | None) -> str:
    """The name as given; empty for none."""
    if name is None:
        return ""
    if not TENANT.fullmatch(name):
        raise InvalidField(
            "tenant",
            f"{shown(name)} is no name for a tenant; use at most 63 letters, digits and . _ @ / -, a "
            "letter or digit first, or leave it out",
        )
    return name


def arguments(args: tuple[str | int | float, ...]) -> tuple[str, ...]:
    return tuple(_plain("args", str(arg)) for arg in args)


def worker_range(workers: str | int | None) -> tuple[int, int | None]:
    """MIN and MAX; None for no upper limit."""
    if workers is None:
        return 1, None
    match = WORKERS.fullmatch(str(workers))
    if not match:
        raise InvalidField("workers", f"{shown(workers)} is not of the form MIN:MAX; write 1:8, 2: or 4")
    least = int(match["least"])
    most = int(match["most"]) if match["most"] else None if match["range"] else least
    if least < 1:
        raise InvalidField("workers", f"MIN is {least} in {workers}; a job needs at least 1")
    if most is not None and least > most:
        raise InvalidField("workers", f"MIN {least} is above MAX {most}; write {most}:{least}")
    if most is not None and 1 << (most.bit_length() - 1) < least:
        above, below = 1 << most.bit_length(), 1 << (most.bit_length() - 1)
        raise InvalidField(
            "workers",
            f"{workers} leaves no size, gangs have 1, 2, 4, 8, ... workers; lower MIN to {below} or raise "
            f"MAX to {above}",
        )
    return least, most


def target(until: str | None) -> MetricTarget | None:
    if until is None:
        return None
    match = TARGET.fullmatch(until)
    try:
        value = float(match["value"]) if match else math.nan
    except ValueError:
        value = math.nan
    if match is None or not math.isfinite(value):
        raise InvalidField("until", f"{shown(until)} is not of the form name>=number; write accuracy>=0.97")
    return MetricTarget(name=match["name"], value=value, at_least=match["sign"] == ">=")


def deadline(value: str | int | float | None, now_s: float) -> float | None:
    """Seconds since 1970, later than `now_s`."""
    if value is None:
        return None
    deadline_s = _time(value, now_s)
    if deadline_s <= now_s:
        ago = format_duration(min(max(now_s - deadline_s, 1.0), HORIZON_S))
        raise InvalidField("deadline", f"{value} lies {ago} in the past; choose a later one, as now+10m")
    if deadline_s - now_s > HORIZON_S:
        raise InvalidField("deadline", f"{value} lies more than 100 years ahead; choose an earlier one")
    return deadline_s


def _time(value: str | int | float, now_s: float) -> float:
    try:
        if isinstance(value, str) and value.startswith("now+"):
            return now_s + parse_duration(value.removeprefix("now+"))
        if isinstance(value, str) and not SECONDS.fullmatch(value):
            return datetime.fromisoformat(value).astimezone().timestamp()
        seconds = float(value)
        if math.isnan(seconds):
            raise ValueError("not a number")
    except (ValueError, OverflowError) as error:
        raise InvalidField(
            "deadline",
            f"{shown(value)} is not a time; write now+3m, 2030-01-31T18:00:00, or seconds since 1970",
        ) from error
    return seconds


def job_class(given: JobClass | None, deadline_s: float | None) -> JobClass:
    """Strict with a deadline and best_effort without, if nothing is said.

    A best-effort job with a deadline is refused rather than run with a deadline that means nothing.
    """
    if given is None:
        return JobClass.BEST_EFFORT if deadline_s is None else JobClass.STRICT
    if given is JobClass.BEST_EFFORT and deadline_s is not None:
        raise InvalidField("class", "best_effort jobs have no deadline; remove the deadline, or choose soft")
    if given is not JobClass.BEST_EFFORT and deadline_s is None:
        raise InvalidField(
            "class", f"{given} jobs need a deadline; give one, as now+10m, or choose best_effort"
        )
    return given


def wrong_type(error: msgspec.ValidationError, value: object) -> InvalidField:
    """msgspec's message (`Expected int, got str - at $.steps`) in our words."""
    text, _, path = str(error).partition(" - at `$")
    text = text.replace(" | null", "")  # to leave it out is to leave it out
    field = re.split(r"[.\[]", path.strip("`.").lstrip("."))[0]
    if field in CHOICES:
        text = f"choose from {', '.join(CHOICES[field])}"
    given = value.get(field) if isinstance(value, dict) else None
    return InvalidField(field, f"{shown(given)} does not fit ({text[0].lower()}{text[1:]}); correct it")


def shown(value: object) -> str:
    """At most 80 characters of a value, in quotes."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
