"""Sweeps: one job of a file that stands for many, one for each combination of parameters, or some drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from swell.api import fields, search_space
from swell.api.fields import InvalidField, shown
from swell.api.halving_field import WORD as HALVING
from swell.api.search_space import WORD as SEARCH
from swell.api.search_space import drawn, draws_of, range_of

#: The key of a job file that makes a sweep of a job.
WORD = "sweep"
#: Of the tag that names the seed of a random search; no parameter can have this name.
SEED_TAG = "search-seed"
#: Jobs that one sweep may stand for.
MOST_JOBS = 1000
#: Where the value of a parameter is to stand.
PLACE = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

Values = Mapping[str, str | int | float]


def expanded(job: Any) -> list[Any]:
    """The jobs that one of a file stands for: itself, or those of its sweep, in the order of its values.

    `{NAME}` in a text of the job is the value of a parameter; a text that is nothing else keeps the value's
    type. The jobs are a group, and have the parameters as tags. With `search` there is a job for each of so
    many combinations that are drawn.

    Raises:
        InvalidField: names the parameter, the rule and the remedy.
    """
    if not isinstance(job, dict):
        return [job]
    if WORD not in job:
        if SEARCH in job:
            raise InvalidField(
                SEARCH, "there is no sweep to draw from; give `sweep` with ranges or lists of values"
            )
        return [job]
    plain = {key: value for key, value in job.items() if key not in (WORD, SEARCH)}
    if SEARCH in job:
        num, seed = draws_of(job[SEARCH], MOST_JOBS)
        combinations = [_checked(one) for one in drawn(_space(job[WORD]), num, seed)]
        plain = _seeded(plain, seed)
    else:
        combinations = list(_combinations(job[WORD]))
    if len(combinations) == 1 and job.get(HALVING) is not None:
        raise InvalidField(
            HALVING,
            "the sweep has one trial, and none to compare it with; give more values, or leave halving out",
        )
    if len(combinations) > MOST_JOBS:
        raise InvalidField(
            WORD, f"stands for {len(combinations)} jobs, more than {MOST_JOBS}; leave some values out"
        )
    _check_use(plain, combinations)
    return [_job(plain, values, number) for number, values in enumerate(combinations, 1)]


def _combinations(sweep: Any) -> Iterator[Values]:
    if isinstance(sweep, list) and sweep and all(isinstance(values, dict) and values for values in sweep):
        if any(values.keys() != sweep[0].keys() for values in sweep):
            raise InvalidField(WORD, "has combinations of different parameters; give each the same ones")
        yield from (_checked(values) for values in sweep)
    elif isinstance(sweep, dict) and sweep:
        for name, values in sweep.items():
            if isinstance(values, dict):
                range_of(name, values)
                raise InvalidField(
                    WORD,
                    f"{name} is a range, of which values are drawn; give `search: {{draws: 20}}`",
                )
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


def _space(sweep: Any) -> dict[str, search_space.Range | list[Any]]:
    if not isinstance(sweep, dict) or not sweep:
        raise InvalidField(
            WORD, "a random search draws each parameter by itself; give a range or a list of values for each"
        )
    for name, values in sweep.items():
        if not isinstance(values, dict) and not (isinstance(values, list) and values):
            raise InvalidField(
                WORD,
                f"{name} is {shown(values)}; give a range ({search_space.EXAMPLE}) or a list of its values",
            )
    return {
        name: range_of(name, values) if isinstance(values, dict) else values for name, values in sweep.items()
    }


def _seeded(job: dict[str, Any], seed: int) -> dict[str, Any]:
    """Add the seed as a tag, so that lists of the jobs can name it."""
    tags = job.get("tags", [])
    return {**job, "tags": [*tags, f"{SEED_TAG}={seed}"]} if isinstance(tags, list) else job


def _checked(values: Mapping[Any, Any]) -> Values:
    for name, value in values.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidField(
                WORD, f"{shown(name)} cannot be the name of a parameter; use letters, digits and underscores"
            )
        if not isinstance(value, str | int | float):
            raise InvalidField(WORD, f"{name} has the value {shown(value)}; give texts and numbers only")
    return values


def _check_use(job: Mapping[str, Any], combinations: list[Values]) -> None:
    used = {name for text in _texts(job) for name in PLACE.findall(text)}
    for name in combinations[0]:
        if name not in used:
            raise InvalidField(
                WORD,
                f"parameter {name} is not used; write {{{name}}} where its value is to stand, as in `args`",
            )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _job(job: Mapping[str, Any], values: Values, number: int) -> dict[str, Any]:
    filled = {key: _filled(value, values) for key, value in job.items()}
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


def _filled(value: Any, values: Values) -> Any:
    if isinstance(value, str):
        alone = PLACE.fullmatch(value)
        if alone and alone[1] in values:
            return values[alone[1]]
        return PLACE.sub(lambda found: str(values.get(found[1], found[0])), value)
    if isinstance(value, dict):
        return {key: _filled(one, values) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, values) for one in value]
    return value
