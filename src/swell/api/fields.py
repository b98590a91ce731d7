"""The rules for single fields of a submission. Each raises InvalidField, or returns what it means."""

from __future__ import annotations

import errno
import logging
import math
import os
import re
import reprlib
import shlex
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from swell.api.script_source import MAX_SCRIPT_BYTES, script_fault
from swell.api.times import EXAMPLES, parse_time
from swell.model.errors import InvalidJob
from swell.model.job import LOSS, JobClass, MetricTarget, Phase
from swell.model.job_query import JobQuery
from swell.model.names import ANY, KIND_RULE, is_kind
from swell.model.quantities import format_duration, parse_bytes, parse_duration, span
from swell.model.webhook import MAX_SERVICES, OF_NODES, Webhook, WebhookEvent, fault_of
from swell.plugins import did_you_mean
from swell.wire import environ

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_OF_NAMES = "use at most 63 letters, digits, dots, dashes and underscores, a letter or digit first"
#: The form that texts of a field have, and what an error says of any other text.
FORMS = {
    "name": (_NAME, f"is not a valid job name; {_OF_NAMES}"),
    "group": (_NAME, f"is not a valid name of a group; {_OF_NAMES}"),
    "tenant": (
        re.compile(r"[A-Za-z0-9][A-Za-z0-9._@/-]{0,62}", re.ASCII),
        "is not a valid tenant name; use at most 63 letters, digits and . _ @ / -, a letter or digit first, "
        "or leave it out",
    ),
    "image": (
        re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}|/[A-Za-z0-9._/@+-]{1,1023}\.sif", re.ASCII),
        "is not the name of an image; write `python:3.11-slim`, or the path of a file of Apptainer's",
    ),
    "metric": (
        re.compile(r"[A-Za-z_][\w./-]{0,62}", re.ASCII),
        "is not a valid name of a metric; use at most 63 letters, digits and _ . / -, a letter or _ first, "
        "such as accuracy",
    ),
    "tags": (
        re.compile(r"[^\s,\x00-\x1f\x7f\ud800-\udfff]{1,100}"),
        "is not a valid tag; use at most 100 characters, none of them a blank or a comma",
    ),
    "uploaded": (re.compile(r"[0-9a-f]{64}"), "is no digest; give the one that `POST /v1/code` has answered"),
    "key": (
        re.compile(r"[\x21-\x7e]{1,200}"),
        "is not a valid idempotency key; use 1 to 200 printable ASCII characters",
    ),
    "accept_differences": (
        re.compile(r"[a-z0-9]+(-[a-z0-9]+)*"),
        "is no name of a finding; write it as `swell check` prints it",
    ),
}
MOST_TAGS = 20
MOST_PREDECESSORS = 100
MOST_KINDS = 20
#: A module, or a function of it; what ends as a file of Python's is a path.
ENTRY = re.compile(r"(?!.*\.py$)[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*)?", re.ASCII)
WORKERS = re.compile(r"(?P<least>\d{1,6})(?P<range>:(?P<most>\d{1,6})?)?", re.ASCII)
BATCHES = re.compile(r"(?P<least>\d{1,10}):(?P<most>\d{1,10})", re.ASCII)
#: What no process can be handed: a NUL, and what cannot be written as UTF-8.
NOT_PLAIN = re.compile(r"[\x00\ud800-\udfff]")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
TARGET = re.compile(r"\s*(?P<name>[A-Za-z_][\w./-]*)\s*(?P<sign>>=|<=)\s*(?P<value>\S+)\s*", re.ASCII)

#: Before another address of a list: an address may have commas.
_NEXT_URL = re.compile(r"\s*,\s*(?=[A-Za-z][A-Za-z0-9+.-]*://)")

#: Seconds a deadline may lie ahead: further than this it is a slip of the pen.
HORIZON_S = 100 * 365 * 86400.0
#: Samples that a step may have.
MAX_BATCH = 2**31 - 1
#: Devices that a worker may ask for: no cluster has more.
MAX_DEVICES_PER_WORKER = 1 << 20
#: Limits of the memory that a job may be given: an interpreter alone needs more than the least, and no node
#: has the most.
MEMORY_BYTES = 16 << 20, 1 << 50
#: Least and most that may be kept of a job's output.
LOG_BYTES = 1 << 20, 1 << 40
#: The highest speed that can be stated, in samples a second.
MOST_RATE_PER_S = 1e12


class InvalidField(InvalidJob):
    """A field of a submission breaks a rule."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field}: {text}" if field else text)
        self.field, self.text = field, text


Count = TypeVar("Count", int, float)
Fields = TypeVar("Fields", bound=msgspec.Struct)


def bounded(field: str, value: Count, least: float, most: float) -> Count:
    """The value. Raises InvalidField if it is not within [least, most], or NaN."""
    if not least <= value <= most:  # false for NaN too
        rule = f"is not between {_figure(least)} and {_figure(most)}"
        if 0.0 < least < 1e-3:  # so near to 0 that its digits say nothing
            rule = f"is not above 0 and at most {_figure(most)}"
        written = (
            f"{value:g}" if isinstance(value, float) else shown(value)
        )  # -3, though it may be a fraction
        raise InvalidField(field, f"{written} {rule}; choose a number that is")
    return value


def _figure(value: float) -> str:
    """A number as people write it, in full."""
    if 1e9 <= value < math.inf and value % 1e9 == 0:
        return f"{value / 1e9:,.0f} billion"
    text = f"{value:,.6f}" if math.isfinite(value) else str(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def speed(text: str | None) -> dict[int, float]:
    """Workers -> samples a second of `1:7100,2:13100`. Raises InvalidField."""
    found: dict[int, float] = {}
    for part in [] if text is None else text.split(","):
        workers, colon, rate = part.partition(":")
        try:
            size, rate_per_s = int(workers), float(rate)
        except ValueError:
            size, rate_per_s = 0, math.nan
        if not (colon and size >= 1 and 0.0 < rate_per_s <= MOST_RATE_PER_S):
            raise InvalidField(
                "speed", f"{shown(part)} is not WORKERS:SAMPLES_A_SECOND; write for example 1:7100,2:13100"
            )
        if size in found:
            raise InvalidField("speed", f"{size} workers stand twice in it; state each size once")
        found[size] = rate_per_s
    return dict(sorted(found.items()))


def power_of_two(field: str, value: int) -> int:
    """The value. Raises InvalidField if it is not a power of two, or too large."""
    if value < 1 or value & (value - 1):
        raise InvalidField(field, f"{shown(value)} is not a power of two; choose 1, 2, 4, 8, ...")
    return bounded(field, value, 1, MAX_DEVICES_PER_WORKER)


def duration(field: str, value: str | int | float, least_s: float = 0.0, most_s: float = HORIZON_S) -> float:
    """Seconds within these bounds, and more than 0."""
    try:
        seconds = parse_duration(value) if isinstance(value, str) else float(value)
    except OverflowError:  # a whole number that no float can hold
        seconds = math.inf
    except ValueError:
        raise InvalidField(
            field, f"{shown(value)} is not a duration; write 90s, 3m, 2h, 1d or 1h30m"
        ) from None
    if not (seconds > 0 and least_s <= seconds <= most_s):
        bounds = "more than 0 and at most 100 years"
        if least_s or most_s != HORIZON_S:
            bounds = f"between {format_duration(least_s)} and {format_duration(most_s)}"
        raise InvalidField(field, f"{shown(value)} is not {bounds}; write a duration such as 10m")
    return seconds


def entry(script: str | None, function: str | None) -> str:
    """Absolute path of a script, or `package.module:function`, or `package.module`."""
    if script is not None and function is not None:
        raise InvalidField("entry", "script is given too, and a job runs one of them; leave one out")
    if script is not None:
        return str(absolute("script", script))
    if function is None:
        raise InvalidField("script", "missing; give script (a path), or entry (package.module[:function])")
    if not ENTRY.fullmatch(function):
        raise InvalidField(
            "entry",
            f"{shown(function)} is not of the form package.module:function or package.module; give a path as "
            "script",
        )
    return function


def check_files(script: str, workdir: str, python: str) -> None:
    """Raises InvalidField if one of these is not there, or cannot be used. Empty: there is none."""
    if script:
        _check_script(Path(script))
    if not os.path.isdir(workdir):  # Path.is_dir raises for names that are too long
        raise InvalidField("workdir", f"{workdir} is not a folder; create it, or choose another one")
    if not os.access(workdir, os.R_OK | os.X_OK):
        raise InvalidField("workdir", f"{workdir} is closed to you; choose another one")
    if python and not (os.path.isfile(python) and os.access(python, os.X_OK)):
        raise InvalidField("python", f"{python} is not a program; give the path of an interpreter")


def _check_script(path: Path) -> None:
    try:
        status = path.stat()
    except OSError as error:
        raise InvalidField("script", f"{path} cannot be read ({error.strerror}); {_PATH}") from error
    if not stat.S_ISREG(status.st_mode):  # to open a device or a pipe may act, or wait
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(status.st_mode), "a device")
        raise InvalidField("script", f"{path} is {kind}, not a file; {_PATH}")
    if not os.access(path, os.R_OK):
        raise InvalidField("script", f"{path} cannot be read ({os.strerror(errno.EACCES)}); {_PATH}")
    if status.st_size > MAX_SCRIPT_BYTES:
        raise InvalidField(
            "script",
            f"{path} has {status.st_size:,} bytes, more than {MAX_SCRIPT_BYTES:,}; keep data in "
            f"separate files, and {_PATH}",
        )


def check_source(path: str, is_live: bool) -> None:
    """Raises InvalidField for a script that no worker could run, as `script_fault` finds."""
    if fault := script_fault(path, is_live):
        raise InvalidField("script", fault)


_PATH = "give the path of a Python script"


def folder(field: str, value: str | None) -> str:
    """Absolute path of a folder."""
    if value is None:
        raise InvalidField(field, "missing; give an absolute path of a folder")
    return str(absolute(field, value))


def real_path(field: str, value: str, roots: Sequence[str]) -> str:
    """Where a path leads. Raises InvalidField if that is in none of these folders, if there are some."""
    real = os.path.realpath(absolute(field, value))
    if roots and not any(os.path.commonpath((real, root)) == root for root in map(os.path.realpath, roots)):
        raise InvalidField(
            field,
            f"{value} is not in a folder that users of this platform may name ({', '.join(roots)}); choose "
            "one there, or ask the owner of the platform for --workdirs",
        )
    return real


def absolute(field: str, value: str) -> Path:
    path = Path(plain(field, value))
    if not path.is_absolute():
        raise InvalidField(field, f"{shown(value)} is a relative path; give an absolute path")
    return path


def anchored(field: str, value: str, base_dir: Path) -> str:
    """`value` below `base_dir`, unless it is absolute or begins with `~`."""
    try:
        return str(base_dir / Path(value).expanduser())
    except RuntimeError as error:
        raise InvalidField(field, f"{shown(value)} names a user that does not exist; correct it") from error


def formed(field: str, text: str | None) -> str:
    """The text, empty for none. Raises InvalidField with the rule if it has not the form of its field."""
    form, rule = FORMS[field]
    if text is not None and not form.fullmatch(text):
        raise InvalidField(field, f"{shown(text)} {rule}")
    return text or ""


def plain(field: str, text: str) -> str:
    """Text that can be written as UTF-8 and handed to a process."""
    if NOT_PLAIN.search(text):
        raise InvalidField(field, f"{shown(text)} holds a NUL or text that is not UTF-8; remove it")
    return text


def job_name(name: str | None, entry: str) -> str:
    """The name as given, or one made of the script's or function's."""
    if name is not None:
        return formed("name", name)
    own = re.split("[.:]", entry)[-1] if ENTRY.fullmatch(entry) else Path(entry).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", own, flags=re.ASCII).strip("._-")[:63] or "job"


def _words(value: str | tuple[str, ...]) -> list[str]:
    """The words of a list; a text has commas between them."""
    return [word.strip() for word in value.split(",")] if isinstance(value, str) else [*value]


def _at_most(field: str, words: Sequence[str], most: int) -> None:
    if len(words) > most:
        raise InvalidField(field, f"{len(words)} are named, more than {most}; leave some out")


def predecessors(jobs: str | tuple[str, ...]) -> tuple[str, ...]:
    """Ids or names of jobs; the platform knows which jobs they mean."""
    words = _words(jobs)
    _at_most("after", words, MOST_PREDECESSORS)
    if "" in words:
        raise InvalidField("after", "an empty text is no job; give its id or name")
    return tuple(plain("after", word) for word in words)


def tags(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words as given, each once."""
    _at_most("tags", words, MOST_TAGS)
    return tuple(dict.fromkeys(formed("tags", word) for word in words))


def kinds(names: str | tuple[str, ...] | None) -> dict[str, Any]:
    """Fields of a `JobSpec`: one kind is that of the job, of several it gets one when it starts."""
    found = () if names is None else tuple(dict.fromkeys(_words(names)))
    if unknown := [name for name in found if not is_kind(name)]:
        why = f"cannot be a kind of device: it has {KIND_RULE}; name one that `swell nodes` lists"
        raise InvalidField("kind", f"{shown(unknown[0])} {why}")
    if names is not None and not found:
        raise InvalidField("kind", "an empty list names no kind; name one, or leave it out")
    _at_most("kind", found, MOST_KINDS)
    if ANY in found and len(found) > 1:
        raise InvalidField("kind", f"`{ANY}` has every kind; name it alone, or the others without it")
    return {"kind": found[0], "kinds": ()} if len(found) == 1 else {"kind": "", "kinds": found}


def chosen_events(on: str | tuple[str, ...], has_address: bool) -> tuple[WebhookEvent, ...]:
    """What the addresses of a job are told; nothing is named: all. Raises InvalidField."""
    of_job = [event for event in WebhookEvent if event not in OF_NODES]
    words = _words(on)
    if unknown := [word for word in words if word not in of_job]:
        raise InvalidField("on", f"{shown(unknown[0])} is not told; choose from {', '.join(of_job)}")
    if words and not has_address:
        raise InvalidField("on", "there is no address that could be told; give one as `webhook` or `notify`")
    return tuple(event for event in of_job if event in words or not words)


def webhook(url: str | None, on: tuple[WebhookEvent, ...]) -> Webhook | None:
    """Where and of what a program of the owner is told; None without an address."""
    if url is None:
        return None
    if fault := fault_of(url):
        raise InvalidField("webhook", fault)
    return Webhook(url=url, on=on)


def service_urls(field: str, urls: str | tuple[str, ...]) -> tuple[str, ...]:
    """Addresses of services, each once; in a text a comma stands before another one. Raises InvalidField."""
    found = tuple(dict.fromkeys(_NEXT_URL.split(urls) if isinstance(urls, str) else urls))
    _at_most(field, found, MAX_SERVICES)
    for url in found:
        if fault := fault_of(url, is_service=True):
            raise InvalidField(field, fault)
    return found


def known_services(field: str, urls: str | tuple[str, ...]) -> tuple[str, ...]:
    """The same, of services that Apprise knows: on the machine of who names them. Raises InvalidField."""
    found = service_urls(field, urls)
    if found:
        import apprise  # which takes a third of a second

        logging.getLogger("apprise").disabled = True  # its lines may show an address
        for number, url in enumerate(found, 1):
            if apprise.Apprise.instantiate(url) is None:
                raise InvalidField(
                    field,
                    f"address {number} is none of a service that Apprise knows, or lacks a part; "
                    "https://appriseit.com/services/ lists all",
                )
    return found


def arguments(field: str, words: Iterable[str | int | float]) -> tuple[str, ...]:
    """The words as text. Raises InvalidField for a NUL, or text that is not UTF-8."""
    return tuple(plain(field, str(word)) for word in words)


def command(words: str | tuple[str | int | float, ...] | None) -> tuple[str, ...]:
    """The words of a command, of which the first one names a program."""
    try:
        found = arguments("command", shlex.split(words) if isinstance(words, str) else words or ())
    except ValueError as error:
        raise InvalidField("command", f"{shown(words)}: {str(error).lower()}; close it") from error
    if not found or not found[0]:
        raise InvalidField("command", "missing; give a program and its arguments")
    return found


def check_program(program: str, workdir: str, path: str) -> None:
    """Raises InvalidField if this machine has no such program.

    Args:
        path: folders in which a name without a slash is looked for, as in `PATH`.
    """
    place = os.path.join(workdir, program) if os.sep in program else program
    if shutil.which(place, path=path) is not None:
        return
    if os.path.isfile(os.path.join(workdir, program)):
        why = (
            "is a file that cannot be executed; name what runs it, as in `python train.py`, or `chmod +x` it"
        )
    else:
        why = "is no program in the workdir" if os.sep in program else "is no program on the PATH"
        why += "; correct it, or give its absolute path"
    raise InvalidField("command", f"{shown(program)} {why}")


#: What a command finds as its submitter would: programs, and libraries of modules that are loaded.
SEARCHED = ("PATH", "LD_LIBRARY_PATH")


def own_variables(
    env: Mapping[str, str | int | float | None], *, is_command: bool = False
) -> dict[str, str | int | float | None]:
    """Names without a value have that of this process; those of `SEARCHED` are added for a command."""
    if is_command:
        env = {name: os.environ[name] for name in SEARCHED if name in os.environ} | {**env}
    missing = [name for name, value in env.items() if value is None and name not in os.environ]
    if missing:
        name = missing[0]
        raise InvalidField("env", f"{name} is not set here; set it, or give a value: {name}=VALUE")
    return {name: os.environ[name] if value is None else value for name, value in env.items()}


def variables(
    env: Mapping[str, str | int | float | None], *, is_command: bool = False
) -> tuple[tuple[str, str], ...]:
    """Environment variables that a job may set, by name; a command starts with all of them."""
    if missing := [name for name, value in env.items() if value is None]:
        raise InvalidField("env", f"{missing[0]} has no value; give one: {missing[0]}=VALUE")
    return tuple(
        (variable_name("env", name, is_command=is_command), plain("env", str(value)))
        for name, value in sorted(env.items())
    )


def variable_name(field: str, name: str, *, is_command: bool) -> str:
    """The name of an environment variable that a job may set. Raises InvalidField."""
    if not VARIABLE.fullmatch(name):
        raise InvalidField(field, f"{shown(name)} is not a valid variable name; use letters, digits and _")
    if name in environ.RESERVED or name.startswith(environ.RESERVED_PREFIXES):
        raise InvalidField(field, f"{name} is set by Swell for each worker; remove it")
    if name in environ.READ_AT_START and not is_command:
        raise InvalidField(
            field,
            f"{name} is read when the interpreter starts, before a worker belongs to a job; "
            "set it for `swell up`, or in the script's own subprocesses",
        )
    return name


def found_interpreter(python: str, base_dir: Path) -> str:
    """Its absolute path. A name without a slash is looked for as a shell does."""
    if os.sep in python:
        return os.path.normpath(anchored("python", python, base_dir))
    found = shutil.which(python)
    if found is None:
        raise InvalidField("python", f"there is no program {shown(python)} on the PATH; give a path")
    return os.path.abspath(found)


def image(image: str | None, python: str | None) -> str:
    """Name of an image of containers, or the path of its file; empty for none."""
    name = formed("image", image)
    if name and python is not None:
        raise InvalidField("python", "the interpreter of a container is the python3 of its image; remove it")
    return name


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
            f"a job is given 1, 2, 4, 8, ... workers (another number only from the loss of a worker to the "
            f"next resize), and {workers} allows none of these; write {below}, {above} or {below}:{above}",
        )
    return least, most


def batches_of(
    own: int | None,
    given_range: str | int | None,
    per_worker: int | None,
    min_workers: int,
    max_workers: int | None,
) -> dict[str, Any]:
    """Fields of a `JobSpec` with the batches of a live job: one for good, a range, or one that follows the
    workers. Raises InvalidField.

    Args:
        own: the batch that the learning rate was chosen for, and in which steps are counted.
    """
    if given_range is not None:
        if per_worker is not None:
            raise InvalidField(
                "batch_per_worker",
                "excludes batch: a batch has a range or follows the workers; remove one of them",
            )
        least, most = _batch_range(given_range, min_workers)
        if own is not None and not least <= own <= most:
            raise InvalidField(
                "global_batch",
                f"{shown(own)} is not within batch {least}:{most}; widen the range, or choose one within it",
            )
        return {"global_batch": least if own is None else own, "min_batch": least, "max_batch": most}
    if per_worker is not None:
        bounded("batch_per_worker", per_worker, 1, MAX_BATCH // max(min_workers, max_workers or 1))
        own = per_worker * min_workers if own is None else own
    if own is None:
        return {"global_batch": 0}  # the script's own
    bounded("global_batch", own, 1, MAX_BATCH)
    if per_worker is None and own < min_workers:
        raise InvalidField(
            "global_batch",
            f"{own} samples cannot be shared by {min_workers} workers; "
            "raise global_batch or lower MIN in workers",
        )
    return {"global_batch": own, "batch_per_worker": per_worker}


def _batch_range(given: str | int, min_workers: int) -> tuple[int, int]:
    match = BATCHES.fullmatch(str(given))
    least, most = map(int, match.group("least", "most")) if match else (0, 0)
    if not match:
        fault = f"{shown(given)} is not of the form MIN:MAX; write 32:512, or global_batch for a batch that "
        fault += "never changes"
    elif least < 1:
        fault = f"MIN is {least} in {given}; a step has at least 1 sample"
    elif least > most:
        fault = f"MIN {least} is above MAX {most}; write {most}:{least}"
    elif least == most:
        fault = f"{given} leaves no choice; remove it, and write global_batch {least} instead"
    elif least < min_workers:
        fault = f"MIN {least} cannot be shared by {min_workers} workers; raise MIN to {min_workers} or more, "
        fault += "or lower MIN in workers"
    else:
        return least, bounded("batch", most, 1, MAX_BATCH)
    raise InvalidField("batch", fault)


def target(until: str | None) -> MetricTarget | None:
    """Parse `until`, such as `accuracy>=0.97`. Raises InvalidField."""
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


def metric(name: str | None) -> str:
    """The name of a job's evaluation function as given, or `loss`."""
    return formed("metric", name) or LOSS


def metric_rises(goes: str | None, name: str | None, until: MetricTarget | None) -> bool:
    """Whether learning raises the metric `name`: as given, or else as the target says that is of it."""
    is_of_target = until is not None and until.name == metric(name)
    if goes is None:
        return is_of_target and until is not None and until.at_least
    if name is None:
        raise InvalidField(
            "metric_goes", "no metric is given, and a loss goes down; give metric, or remove it"
        )
    if is_of_target and until is not None and until.at_least != (goes == "up"):
        raise InvalidField("metric_goes", f"{goes} contradicts until, which is {until}; remove one of them")
    return goes == "up"


def size(field: str, value: str | int | None, least: int, most: int) -> int | None:
    """Bytes; None if none were named."""
    if value is None:
        return None
    try:
        num_bytes = parse_bytes(str(value))
    except (ValueError, OverflowError):
        num_bytes = -1
    if num_bytes < 0:
        raise InvalidField(field, f"{shown(value)} is not an amount of bytes; write 500MB or 4GiB")
    if not least <= num_bytes <= most:
        bounds = f"{least >> 20} MiB and {most >> 40} TiB"
        raise InvalidField(field, f"{_cut(str(value))} is not between {bounds}; write an amount such as 4GiB")
    return num_bytes


def deadline(value: str | int | float | None, now_s: float, field: str = "deadline") -> float | None:
    """Seconds since 1970, later than `now_s`."""
    if value is None:
        return None
    deadline_s = _time(field, value, now_s)
    if deadline_s <= now_s:
        ago_s = min(now_s - deadline_s, HORIZON_S)
        when = f"{span(ago_s)} in the past" if ago_s >= 1.0 else "the present moment"
        raise InvalidField(field, f"{_cut(str(value))} is {when}; choose a later one, such as now+10m")
    if deadline_s - now_s > HORIZON_S:
        raise InvalidField(field, f"{_cut(str(value))} is more than 100 years ahead; choose an earlier one")
    return deadline_s


def accept_until(
    value: str | int | float | None, given: JobClass, deadline_s: float | None, now_s: float
) -> float | None:
    """Seconds since 1970, later than the deadline that it is an alternative to."""
    until_s = deadline(value, now_s, "accept_until")
    if until_s is None:
        return None
    check_strict("accept_until", given)
    if deadline_s is not None and until_s <= deadline_s:
        raise InvalidField(
            "accept_until", f"{_cut(str(value or ''))} is no later than the deadline; choose a later time"
        )
    return until_s


def check_strict(field: str, given: JobClass) -> None:
    """Raises InvalidField where the job's class is not strict: what the field says has no meaning then."""
    if given is not JobClass.STRICT:
        raise InvalidField(
            field, f"only strict jobs are promised their deadlines, and this one is {given}; remove it"
        )


def _time(field: str, value: str | int | float, now_s: float) -> float:
    try:
        seconds = parse_time(value, now_s) if isinstance(value, str) else float(value)
        if math.isnan(seconds):
            raise ValueError("not a number")
    except (ValueError, OverflowError) as error:
        raise InvalidField(
            field, f"{shown(value)} is not a time; write {EXAMPLES}, or seconds since 1970"
        ) from error
    return seconds


#: Times of one booking.
MOST_TIMES = 60


def booked_times(times_s: Sequence[tuple[float, float]], now_s: float) -> tuple[tuple[float, float], ...]:
    """The times of a booking, in order; one that has begun begins now."""
    found = tuple((max(begin_s, now_s), end_s) for begin_s, end_s in sorted(times_s))
    if not 1 <= len(found) <= MOST_TIMES:
        raise InvalidField("times_s", f"{len(found)} times are given; give 1 to {MOST_TIMES}")
    last_s = now_s
    for begin_s, end_s in found:
        if not last_s <= begin_s < end_s <= now_s + HORIZON_S:  # false for NaN too
            raise InvalidField(
                "times_s", "each time must end after its begin, after now and before the next one begins"
            )
        last_s = end_s
    return found


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
            "class", f"{given} jobs need a deadline; give one, such as now+10m, or choose best_effort"
        )
    return given


#: Fields that an error lists where none is similar to what was written.
MOST_LISTED = 10
ALL_FIELDS = "`swell submit --help-all` has an option for each"


def parsed(value: Any, kind: type[Fields], what: str) -> Fields:
    """The struct that a mapping of fields describes.

    Args:
        what: name of such a struct, with its article.

    Raises:
        InvalidField: a key is unknown or missing, or a value has the wrong type.
    """
    if not isinstance(value, dict):
        raise InvalidField(
            "", f"{what} must be a mapping of fields, not {shown(value)}; write `name: value` for each field"
        )
    names = kind.__struct_encode_fields__
    for key in value:
        if key not in names:
            name = key if isinstance(key, str) and len(key) <= 80 else shown(key)
            others = f"choose from {', '.join(names)}" if len(names) <= MOST_LISTED else ALL_FIELDS
            raise InvalidField(name, f"no such field; {did_you_mean(str(key), names) or others}")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise wrong_type(error, value, kind) from error


#: What JSON's and Python's types are called, by msgspec's words for them.
TYPE_WORDS = {
    "object": "a mapping (NAME: VALUE)",
    "array": "a list ([..., ...])",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}


def wrong_type(
    error: msgspec.ValidationError, value: object, kind: type[msgspec.Struct] | None = None
) -> InvalidField:
    """msgspec's message (`Expected int, got str - at $.steps`) in our words; `kind`: what was expected."""
    text, _, path = str(error).partition(" - at `$")
    field, *inner = re.split(r"[.\[]", path.strip("`.").lstrip("."))
    given = value.get(field) if isinstance(value, dict) and field else value
    told = "what it has" if field == "env_from" else shown(given)  # an error shows no secret
    is_not = f"{'a value in ' if inner else ''}{told} is not"
    if kind is not None and (choices := _choices(kind, field)):
        return InvalidField(field, f"{is_not} known; choose from {', '.join(choices)}")
    if match := re.fullmatch(r"Object missing required field `(.+)`", text):
        return InvalidField(match[1], "it has no value; give it one")
    if match := re.fullmatch(r"Expected `(.+)`, got `.+`", text):
        kinds = [
            word for word in match[1].split(" | ") if word != "null"
        ]  # to leave it out is to leave it out
        if "float" in kinds and "int" in kinds:
            kinds.remove("int")
        words = " or ".join(TYPE_WORDS.get(word, word) for word in kinds)
        return InvalidField(field, f"{is_not} {words}; correct it")
    return InvalidField(field, f"{told} does not fit ({text[0].lower()}{text[1:]}); correct it")


def _choices(kind: type[msgspec.Struct], field: str) -> tuple[Any, ...]:
    """The words of a field that takes one of a few; empty: it takes others too."""
    hints = get_type_hints(kind)
    names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    for one in alternatives(hints[names[field]]) if field in names else ():
        if get_origin(one) is Literal:
            return get_args(one)
        if isinstance(one, type) and issubclass(one, Enum):
            return tuple(one)
    return ()


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types of which a value may be one; None is left out."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(kind for kind in kinds if kind is not NoneType)


def shown(value: object) -> str:
    """Quoted text of a value, at most 80 characters; of a nested value only the outer levels."""
    return _cut(repr(value) if isinstance(value, str) else _OUTER_LEVELS.repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


_OUTER_LEVELS = reprlib.Repr()
_OUTER_LEVELS.maxlevel = 3
_OUTER_LEVELS.maxstring = _OUTER_LEVELS.maxlong = _OUTER_LEVELS.maxother = 80


#: Jobs in one answer at most: some hundred bytes to a few thousand each.
MAX_JOBS = 1000


def parse_query(phase: str, since_s: float | None, limit: int) -> JobQuery:
    """Raises InvalidField."""
    if since_s is not None and not math.isfinite(since_s):
        raise InvalidField("since_s", f"{since_s} is not a time; give seconds since 1970")
    names = [name.strip() for name in phase.split(",") if name.strip()]
    if unknown := [name for name in names if name not in list(Phase)]:
        raise InvalidField("phase", f"{unknown[0][:80]!r} is not known; choose from {', '.join(Phase)}")
    return JobQuery(phases=frozenset(map(Phase, names)), since_s=since_s, limit=limit or MAX_JOBS)
