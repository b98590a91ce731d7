"""`swell submit --from-sbatch FILE`: a Slurm script as a job, and what became of each of its lines."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swell.cli.output import print_json
from swell.model.errors import InvalidJob

if TYPE_CHECKING:
    from swell.api.sbatch.translation import TranslatedScript

#: Characters of a line that are shown.
WIDEST = 60
#: Variables of Slurm that a Python file names.
_SLURM_VARIABLE = re.compile(r"\bSLURM_[A-Z_]+\b")


def read_sbatch(
    file: Path, words: Sequence[str], given: Mapping[str, Any], variables: Mapping[str, str | None]
) -> TranslatedScript:
    """The job of a Slurm script with the fields that are given besides.

    Args:
        words: arguments of the Slurm script.
        given: fields in place of those of the script.
        variables: of the job, besides those that the script exports.

    Raises:
        InvalidJob: names the file, the line, the rule and the remedy.
    """
    from swell.api.sbatch.errors import InvalidSbatchLine
    from swell.api.sbatch.translation import translated

    try:
        found = translated(_text(file), os.getcwd(), os.environ, words, given.keys())
    except InvalidSbatchLine as error:
        raise InvalidJob(
            f"{file}, {error}" if str(error).startswith("line ") else f"{file}: {error}"
        ) from error
    found.fields |= given
    if variables:
        found.fields["env"] = found.fields.get("env", {}) | {**variables}
    found.lines += _unset_variables(found.fields)
    return found


def tell_translation(found: TranslatedScript) -> None:
    """Print what became of each line."""
    for told in found.lines:
        where = f"line {told.line}: " if told.line else ""
        said = told.text if len(told.text) <= WIDEST else f"{told.text[: WIDEST - 3]}..."
        print(f"{where}{said} {'dropped:' if told.is_dropped else '->'} {told.meaning}")


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


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise InvalidJob(f"{file} cannot be read ({error.strerror}); correct the path") from error
    except UnicodeDecodeError as error:
        raise InvalidJob(f"{file} is not UTF-8 text; save it as UTF-8") from error


def _unset_variables(fields: Mapping[str, Any]) -> list[Any]:
    """A line for the variables of Slurm that the Python file reads, if it can be read here."""
    from swell.api.sbatch.script_reading import TranslatedLine

    script = Path(fields.get("script", ""))
    try:
        names = sorted(set(_SLURM_VARIABLE.findall(script.read_text("utf-8"))) - fields.get("env", {}).keys())
    except (OSError, UnicodeDecodeError):
        return []
    why = "Swell does not set them; a worker has torchrun's: RANK, WORLD_SIZE, LOCAL_RANK, ..."
    return [TranslatedLine(0, f"{script.name} reads {', '.join(names)}", why)] if names else []
