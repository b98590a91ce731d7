"""What a user has typed, for what a command writes about itself, or starts again."""

from __future__ import annotations

import shlex
import sys

import typer


def command_line(context: typer.Context) -> str:
    """The command line that the user typed, quoted for a shell."""
    return shlex.join(_words(context))


def words_behind(context: typer.Context, command: str) -> list[str]:
    """The words that the user typed behind the name of the command."""
    words = _words(context)
    return words[words.index(command) + 1 :]


def _words(context: typer.Context) -> list[str]:
    words: list[str] | None = context.find_root().obj  # see `main.run`
    return sys.argv if words is None else words
