"""Files in YAML: jobs, of which one with `sweep` stands for many, and the webhooks of a platform."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml

from swell.api import fields
from swell.api.errors import InvalidOption
from swell.api.fields import InvalidField, shown
from swell.api.submission import Submission, declared, parse
from swell.api.user_list import UserList
from swell.live.news import Addresses
from swell.model.errors import InvalidJob
from swell.model.job import JobSpec
from swell.model.webhook import Webhook, WebhookEvent, fault_of
from swell.store.folder import StateFolder

#: Fields of which a job has one: who gives one takes the others back.
ALTERNATIVES = (
    frozenset({"steps", "epochs", "samples"}),
    frozenset({"script", "entry", "command"}),
    frozenset({"batch", "batch_per_worker"}),
)
# ---------------------------------------------------------------- the file of webhooks
WEBHOOKS_EXAMPLE = (
    "lines `- url: https://HOST/PATH`, or `- notify: slack://TOKEN` for people, each with an `on: [finished, "
    "missed]` if not all is to be told there"
)
#: The key of a job file that makes a sweep of a job.
WORD = "sweep"
#: Jobs that one sweep may stand for.
MOST_JOBS = 1000
#: Where the value of a parameter is to stand.
PLACE = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
Values = Mapping[str, str | int | float]


class PlainLoader(yaml.SafeLoader):
    """Safe YAML with the plain values of YAML 1.2.

    By YAML 1.1 the text `1:8` is the number 68 and `2030-01-31` a date; here both stay text.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


for _tag, _form, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", list("-+.0123456789")),
):
    PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_form})$"), _first)


def _int(loader: PlainLoader, node: yaml.ScalarNode) -> int:
    return int(loader.construct_scalar(node))


PlainLoader.add_constructor("tag:yaml.org,2002:int", _int)


@dataclass(frozen=True, slots=True)
class FileJob:
    """One job of a file, and where its fields stand."""

    submission: Submission
    path: Path
    line: int  #: the job's first
    field_lines: dict[str, int]

    def overridden(self, fields: Mapping[str, Any], base_dir: Path) -> FileJob:
        """Return the job with these fields in place of its own, and of others that say the same otherwise.

        Variables are added to those of the file. Raises InvalidField.

        Args:
            base_dir: where relative paths of these fields start.
        """
        wanted = parse(dict(fields)).anchored(base_dir)
        own, names = self.submission, {name for name, field in declared().items() if field.word in fields}
        others = {name for group in ALTERNATIVES if names & group for name in group} - names
        changed = {name: declared()[name].default for name in others}
        changed |= {name: getattr(wanted, name) for name in names} | {"env": own.env | wanted.env}
        return replace(self, submission=msgspec.structs.replace(own, **changed))

    def to_spec(self, now_s: float) -> JobSpec:
        """Return the job's spec; paths are relative to the file, errors name its line.

        See `Submission.to_spec`.
        """
        try:
            return self.submission.to_spec(now_s, self.path.parent)
        except InvalidField as error:
            raise _placed(error, self.path, self.line, self.field_lines) from error


def load(path: Path) -> list[FileJob]:
    """Every job of a file.

    Raises:
        InvalidJob: the file is not there, is no YAML, or holds something else than jobs; the text names
            the file and the line.
    """
    path = path.expanduser().absolute()
    try:
        node = yaml.compose(path.read_text("utf-8"), Loader=PlainLoader)
    except OSError as error:
        raise InvalidJob(f"job file {path} cannot be read ({error.strerror}); correct the path") from error
    except UnicodeDecodeError as error:
        raise InvalidJob(f"job file {path} is not UTF-8 text; save it as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise InvalidJob(f"{path}, line {line}: malformed YAML: {error.problem}; correct it") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidJob(f"{path}: malformed YAML: {error}; correct it") from error
    if node is None or (isinstance(node, yaml.SequenceNode) and not node.value):
        raise InvalidJob(f"{path} holds no job; write one job or a list of jobs")
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    return [job for item in nodes for job in _jobs(path, item)]


def _jobs(path: Path, node: yaml.Node) -> list[FileJob]:
    line = node.start_mark.line + 1
    lines: dict[str, int] = {}
    try:
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            name = str(key.value)
            first_line, lines[name] = lines.get(name), key.start_mark.line + 1
            if first_line is not None:
                raise InvalidField(name, f"given twice, first in line {first_line}; keep one")
        return [FileJob(parse(job), path, line, lines) for job in expanded(_construct(node))]
    except InvalidField as error:
        raise _placed(error, path, line, lines) from error
    except yaml.MarkedYAMLError as error:  # a tag that asks for a Python object, an unhashable key
        at = error.problem_mark.line + 1 if error.problem_mark else line
        raise InvalidJob(f"{path}, line {at}: {error.problem}; use plain values only") from error
    except (ValueError, AttributeError) as error:  # PyYAML's own, for a tag that the value does not fit
        raise InvalidJob(f"{path}, line {line}: {error}; use plain values only") from error


def _construct(node: yaml.Node) -> Any:
    loader = PlainLoader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _placed(error: InvalidField, path: Path, line: int, field_lines: dict[str, int]) -> InvalidJob:
    return InvalidJob(f"{path}, line {field_lines.get(error.field, line)}: {error}")


class _AddressLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of the file; it has one address."""

    url: str = ""
    notify: str = ""
    on: Annotated[tuple[WebhookEvent, ...], msgspec.Meta(min_length=1)] = tuple(WebhookEvent)


def load_addresses(folder: StateFolder) -> Addresses:
    """Addresses of a platform and of its users. Raises InvalidOption."""
    return Addresses(load_webhooks(folder.webhooks_file), UserList(folder.path).services_of)


def load_webhooks(path: Path) -> tuple[Webhook, ...]:
    """Those of the file; none without it.

    Raises:
        InvalidOption: the file cannot be read, or an address is none. Addresses are not shown.
    """
    try:
        return decode_webhooks(path.read_bytes())
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise InvalidOption(f"{path} cannot be used ({error}); write {WEBHOOKS_EXAMPLE}") from error


def decode_webhooks(text: bytes) -> tuple[Webhook, ...]:
    """Those that such a file names. Raises ValueError, which shows no address: it is no such file."""
    try:
        content = yaml.load(text.decode(), PlainLoader)  # noqa: S506 - a SafeLoader
        lines = msgspec.convert(content or [], tuple[_AddressLine, ...])
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}: "
        raise ValueError(f"{line}{error.problem}") from error
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    hooks = tuple(Webhook(url=one.url or one.notify, on=one.on, is_service=bool(one.notify)) for one in lines)
    for number, (hook, one) in enumerate(zip(hooks, lines, strict=True), 1):
        if one.url and one.notify:
            raise ValueError(f"address {number}: give `url`, for programs, or `notify`, for people")
        if fault := fault_of(hook.url, hook.is_service):
            raise ValueError(f"address {number}: {fault}")
    return hooks


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
