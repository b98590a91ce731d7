"""The `#SBATCH` lines of a script, as `sbatch` reads them: up to the first command, without a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from swell.api.sbatch.errors import InvalidSbatchLine
from swell.api.sbatch.slurm_options import slurm_options

_DIRECTIVE = re.compile(r"#SBATCH(?=\s|$)(.*)")


@dataclass(frozen=True, slots=True)
class SbatchOption:
    """One option of a directive."""

    line: int
    name: str  #: the long one
    value: str
    is_ignored: bool = False  #: below the first command; `sbatch` does not read it either

    @property
    def text(self) -> str:
        return f"--{self.name}={self.value}" if self.value else f"--{self.name}"


def sbatch_options(text: str) -> Iterator[SbatchOption]:
    """The options of all directives. Raises InvalidSbatchLine."""
    is_over = False
    for line, content in enumerate(text.splitlines(), 1):
        if match := _DIRECTIVE.match(content):
            for name, value in _options(match[1], line):
                yield SbatchOption(line, name, value, is_over)
        elif content.strip() and not content.lstrip().startswith("#"):
            is_over = True


def _options(text: str, line: int) -> list[tuple[str, str]]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise InvalidSbatchLine(line, f"#SBATCH: {str(error).lower()}; close it") from None
    options, rest = slurm_options("sbatch", words, line)
    if rest:
        raise InvalidSbatchLine(line, f"#SBATCH: `{rest[0]}` is no option; write --NAME=VALUE")
    return options
