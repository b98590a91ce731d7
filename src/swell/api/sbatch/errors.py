"""What keeps a Slurm script from being a Swell job."""

from __future__ import annotations

from swell.model.errors import InvalidJob


class InvalidSbatchLine(InvalidJob):
    """A line of a Slurm script cannot be translated; the text names the thing, the rule and the remedy."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line}: {text}" if line else text)
