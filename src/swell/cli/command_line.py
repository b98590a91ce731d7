"""What a user has typed, for what a command writes about itself."""

from __future__ import annotations

import shlex

import typer


def command_line(context: typer.Context) -> str:
    """The command line that the user typed, quoted for a shell."""
    words: list[str] = context.find_root().obj  # see `main.run`
    return shlex.join(words)
