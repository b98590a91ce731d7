"""The rules for what a job's processes find around them: values of a file, requirements, mounts.

Files are read where the job is submitted; a request has their contents. No error shows a value.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from swell.api import fields
from swell.api.fields import InvalidField, shown
from swell.model.job import Mount
from swell.wire.job_inputs import MOST_BYTES, MOST_VALUE_BYTES, VALUES_SUFFIX, JobInputs
from swell.wire.untrusted_files import open_regular

MOST_MOUNTS = 50
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*( ?\[[\w ,.-]*\])?"
_VERSIONS = r" ?\(?( ?,? ?(===?|~=|!=|[<>]=?) ?[A-Za-z0-9.*+!_-]+)*\)?"
#: A line of requirements, with single blanks: a package by its name or address; where packages are.
REQUIREMENT = re.compile(
    rf"{_NAME}({_VERSIONS}| ?@ ?(git\+)?https://\S+)( ?;.*)?( --hash=\S+)*"
    r"|(-i|-f|--(extra-)?index-url|--find-links)[ =]https?://\S+|--pre|--no-index",
    re.ASCII,
)
Values = str | Mapping[str, str] | None
Lines = str | tuple[str, ...] | None


def values_of(path: Values, base_dir: Path) -> dict[str, str] | None:
    """The variables of a file of `NAME=VALUE` lines that is its reader's alone; others are as they are."""
    if not isinstance(path, str):
        return None if path is None else dict(path)
    if not path.endswith(VALUES_SUFFIX):
        why = f"its name must end in {VALUES_SUFFIX}: such files are in no copy of the code; rename it"
        raise InvalidField("env_from", why)
    found: dict[str, str] = {}
    for number, line in enumerate(_text("env_from", path, base_dir, is_private=True).split("\n"), 1):
        name, sign, value = line.partition("=")
        name = name.removeprefix("export ").strip()
        if name and not name.startswith("#"):
            if not sign or not fields.VARIABLE.fullmatch(name):
                raise InvalidField("env_from", f"line {number} of {path} is not NAME=VALUE; correct it")
            found[name] = value
    return found


def requirements_of(path: Lines, base_dir: Path) -> tuple[str, ...] | None:
    """The requirements of a file, without comments, a line each; others are as they are."""
    if not isinstance(path, str):
        return path
    whole = _text("uv", path, base_dir).replace("\\\n", " ")
    lines = (re.sub(r"(^|\s)#.*", "", line).split() for line in whole.split("\n"))
    return tuple(" ".join(words) for words in lines if words)


def _text(field: str, path: str, base_dir: Path, *, is_private: bool = False) -> str:
    place = Path(fields.anchored(field, path, base_dir))
    try:
        with os.fdopen(open_regular(place), "rb") as file:
            found, content = os.fstat(file.fileno()), file.read(MOST_BYTES + 1)
        text = content.decode().replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InvalidField(field, f"{place} cannot be read ({why}); give the path of a text file") from error
    if is_private and (found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077):
        why = f"others can read or change {place}; make it yours alone: `chmod 600 {place}`"
        raise InvalidField(field, why)
    if len(content) > MOST_BYTES:
        raise InvalidField(field, f"{place} has more than {MOST_BYTES >> 10} KiB; make it smaller")
    return text


def secret_names(values: Values, others: Collection[str], *, is_command: bool) -> tuple[str, ...]:
    """Names of variables whose values are kept apart, unlike those of `others`. Raises InvalidField."""
    if isinstance(values, str):
        raise InvalidField("env_from", "the submitter reads the file; a request has a mapping NAME: VALUE")
    names = tuple(
        sorted(fields.variable_name("env_from", name, is_command=is_command) for name in values or ())
    )
    text = "".join((values or {}).values())
    if fields.NOT_PLAIN.search(text) or len(text.encode()) > MOST_VALUE_BYTES:
        most = f"{MOST_VALUE_BYTES >> 10} KiB"
        raise InvalidField("env_from", f"its values have more than {most}, or a NUL; give the path of a file")
    if twice := sorted({*names} & {*others}):
        raise InvalidField("env_from", f"{twice[0]} is given by env, too; leave one out")
    return names


def requirements_digest(lines: Lines, image: str | None) -> str:
    """What names an environment of these requirements; empty for none. Raises InvalidField."""
    if isinstance(lines, str):
        raise InvalidField("uv", "the submitter reads the file; a request has a list of its lines")
    if lines is None:
        return ""
    if image is not None:
        raise InvalidField("uv", "the packages of a container are those of its image; remove it")
    for line in lines:
        if "${" in line or not REQUIREMENT.fullmatch(line):
            rule = (
                "is no requirement that all hosts can read; write NAME==VERSION, NAME @ https://ADDRESS or "
            )
            raise InvalidField("uv", f"{shown(line)} {rule}--index-url ADDRESS, and no paths")
    if len(text := "\n".join(lines)) > MOST_BYTES or not lines:
        raise InvalidField("uv", f"it has no requirement, or more than {MOST_BYTES >> 10} KiB; correct it")
    return hashlib.sha256(text.encode()).hexdigest()


def inputs_of(values: Values, lines: Lines) -> JobInputs:
    """What the platform keeps of a request that was checked."""
    variables = {} if isinstance(values, str) else dict(values or {})
    return JobInputs(variables=variables, requirements="\n".join(lines or ()))


def anchored_mount(text: str, base_dir: Path) -> str:
    """The same with the source below `base_dir`, unless it is absolute."""
    source, colon, rest = text.partition(":")
    return f"{fields.anchored('mount', source, base_dir)}{colon}{rest}"


def mounts(texts: tuple[str, ...], image: str | None) -> tuple[Mount, ...]:
    """What `SOURCE[:TARGET][:ro]` says, each target once. Raises InvalidField."""
    if texts and image is None:
        raise InvalidField("mount", "only a container has mounts; give an image, or remove it")
    found = tuple(map(_mount, texts))
    if len({mount.target for mount in found}) < len(found) or len(found) > MOST_MOUNTS:
        raise InvalidField(
            "mount", f"a target stands twice, or there are more than {MOST_MOUNTS}; remove one"
        )
    return found


def _mount(text: str) -> Mount:
    source, *rest = fields.plain("mount", text).split(":")
    mode = rest.pop() if rest and rest[-1] in ("ro", "rw") else "rw"
    if len(rest) > 1 or not source:
        raise InvalidField("mount", f"{shown(text)} is not SOURCE[:TARGET][:ro]; correct it")
    source, target = (
        os.path.normpath(fields.absolute("mount", path)) for path in (source, (rest or [source])[0])
    )
    return Mount(source, target, mode == "rw")
