"""The addresses that are told of all jobs: a file of the state folder."""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

from swell.api.errors import InvalidOption
from swell.api.job_file import PlainLoader
from swell.model.webhook import Webhook, fault_of

EXAMPLE = "`- url: https://HOST/PATH` lines, each with `on: [finished, at_risk, missed]` or a part of that"


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
        raise InvalidOption(f"{path} cannot be used ({error}); write {EXAMPLE}") from error


def decode_webhooks(text: bytes) -> tuple[Webhook, ...]:
    """Those that such a file names. Raises ValueError, which shows no address: it is no such file."""
    try:
        content = yaml.load(text.decode(), PlainLoader)  # noqa: S506 - a SafeLoader
        hooks = msgspec.convert(content or [], tuple[Webhook, ...])
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}: "
        raise ValueError(f"{line}{error.problem}") from error
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    for number, hook in enumerate(hooks, 1):
        if fault := fault_of(hook.url):
            raise ValueError(f"address {number}: {fault}")
    return hooks
