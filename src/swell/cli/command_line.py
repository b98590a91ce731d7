"""What a user has typed, for what a command writes about itself."""

from __future__ import annotations

import shlex

import typer


def command_line(context: typer.Context) -> str:
    """As a shell takes it."""
    words: list[str] = context.find_root().obj  # see `main.run`
    return shlex.join(words)
