"""`swell submit --from-sbatch FILE`: a Slurm script as a job, and what became of each of its lines."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swell.cli.output import print_json
from swell.model.errors import InvalidJob

if TYPE_CHECKING:
    from swell.api.sbatch import TranslatedScript

#: Characters of a line that are shown.
WIDEST = 60


def read_sbatch(file: Path, words: Sequence[str], given: Mapping[str, Any]) -> TranslatedScript:
    """The job of a Slurm script with the fields that are given besides.

    Args:
        words: arguments behind those of the line that trains.
        given: fields in place of those of the script.

    Raises:
        InvalidJob: names the file, the line, the rule and the remedy.
    """
    from swell.api.sbatch import InvalidSbatchLine, translated

    try:
        found = translated(file.read_text("utf-8"), os.getcwd(), words, given.keys())
    except OSError as error:
        raise InvalidJob(f"{file} cannot be read ({error.strerror}); correct the path") from error
    except UnicodeDecodeError as error:
        raise InvalidJob(f"{file} is not UTF-8 text; save it as UTF-8") from error
    except InvalidSbatchLine as error:
        raise InvalidJob(f"{file}, {error}") from error
    found.fields |= given
    return found


def tell_translation(found: TranslatedScript) -> None:
    """Print what became of each line."""
    for told in found.lines:
        said = told.text if len(told.text) <= WIDEST else f"{told.text[: WIDEST - 3]}..."
        print(f"line {told.line}: {said} {'dropped:' if told.is_dropped else '->'} {told.meaning}")


def tell_job_file(found: TranslatedScript, json: bool) -> None:
    """Print the job as a job file. Raises InvalidField if it cannot be submitted."""
    import yaml

    from swell.api.submission import parse

    job = {("class" if name == "job_class" else name): value for name, value in found.fields.items()}
    parse(job).to_spec(time.time(), Path.cwd())
    if json:
        print_json({"job": job, "lines": found.lines})
        return
    tell_translation(found)
    print(f"\nAs a job file:\n\n{yaml.safe_dump(job, sort_keys=False, allow_unicode=True)}", end="")
