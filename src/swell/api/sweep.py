"""Sweeps: one job of a file that stands for many, one for each combination of parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from swell.api import fields
from swell.api.fields import InvalidField, shown

#: The key of a job file that makes a sweep of a job.
WORD = "sweep"
#: Jobs that one sweep may stand for.
MOST_JOBS = 1000
#: Where the value of a parameter is to stand.
PLACE = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

Values = Mapping[str, str | int | float]


def expanded(job: Any) -> list[Any]:
    """The jobs that one of a file stands for: itself, or those of its sweep, in the order of its values.

    `{NAME}` in a text of the job is the value of a parameter; a text that is nothing else keeps the value's
    type. The jobs are a group, and have the parameters as tags.

    Raises:
        InvalidField: names the parameter, the rule and the remedy.
    """
    if not isinstance(job, dict) or WORD not in job:
        return [job]
    plain = {key: value for key, value in job.items() if key != WORD}
    combinations = list(_combinations(job[WORD]))
    if len(combinations) > MOST_JOBS:
        raise InvalidField(
            WORD, f"stands for {len(combinations)} jobs, more than {MOST_JOBS}; leave some values out"
        )
    used = set[str]()
    jobs = [_job(plain, values, number, used) for number, values in enumerate(combinations, 1)]
    for name in combinations[0].keys() - used:
        raise InvalidField(
            WORD, f"parameter {name} is not used; write {{{name}}} where its value is to stand, as in `args`"
        )
    return jobs


def _combinations(sweep: Any) -> Iterator[Values]:
    if isinstance(sweep, list) and sweep and all(isinstance(values, dict) and values for values in sweep):
        if any(values.keys() != sweep[0].keys() for values in sweep):
            raise InvalidField(WORD, "has combinations of different parameters; give each the same ones")
        yield from (_checked(values) for values in sweep)
    elif isinstance(sweep, dict) and sweep:
        for name, values in sweep.items():
            if not isinstance(values, list) or not values:
                raise InvalidField(
                    WORD, f"{name} is {shown(values)}; give a list of its values, such as [0.1, 0.01]"
                )
        for values in product(*sweep.values()):
            yield _checked(dict(zip(sweep, values, strict=True)))
    else:
        raise InvalidField(
            WORD,
            f"{shown(sweep)} is no sweep; give a list of values for each parameter (`lr: [0.1, 0.01]`), or a "
            "list of combinations (`- {lr: 0.1, width: 64}`)",
        )


def _checked(values: Mapping[Any, Any]) -> Values:
    for name, value in values.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidField(
                WORD, f"{shown(name)} cannot be the name of a parameter; use letters, digits and underscores"
            )
        if not isinstance(value, str | int | float):
            raise InvalidField(WORD, f"{name} has the value {shown(value)}; give texts and numbers only")
    return values


def _job(job: Mapping[str, Any], values: Values, number: int, used: set[str]) -> dict[str, Any]:
    filled = {key: _filled(value, values, used) for key, value in job.items()}
    base = _base_name(job)
    if filled.get("name") == job.get("name"):
        filled["name"] = f"{base[: 62 - len(str(number))]}-{number}"
    filled.setdefault("group", base)
    tags = filled.get("tags", [])
    if isinstance(tags, list):  # else it is refused as what it is
        filled["tags"] = [*tags, *(f"{name}={value}" for name, value in values.items())]
    return filled


def _base_name(job: Mapping[str, Any]) -> str:
    name = job.get("name")
    if isinstance(name, str) and name:
        return PLACE.sub("", name).strip("-._") or "sweep"
    return fields.job_name(None, str(job.get("entry") or job.get("script") or "sweep"))


def _filled(value: Any, values: Values, used: set[str]) -> Any:
    """The value with those of the parameters in it; the names of these are added to `used`."""
    if isinstance(value, dict):
        return {key: _filled(one, values, used) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, values, used) for one in value]
    if not isinstance(value, str):
        return value
    used |= {*PLACE.findall(value)}
    alone = PLACE.fullmatch(value)
    if alone and alone[1] in values:
        return values[alone[1]]
    return PLACE.sub(lambda found: str(values.get(found[1], found[0])), value)
