"""`swell admin`: what operators of a platform need beside its jobs."""

from __future__ import annotations

import typer

from swell.cli.commands import AdminGroup

app = typer.Typer(
    name="admin", cls=AdminGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True
)


@app.callback()
def admin() -> None:
    """Users, tenants, join tokens, device hours, copies, and what a platform keeps."""
