"""`swell demo`, whose own file is heavy and is read only when it is asked for."""

from __future__ import annotations

import typer

#: How help is asked for and laid out.
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
#: Options, --help too, are the demo's own.
PASS_ALL = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def demo(context: typer.Context) -> None:
    """Train real jobs under deadlines, and show the promises kept."""
    status = demo_app()(args=context.args, prog_name="swell demo", standalone_mode=False)
    raise typer.Exit(status if isinstance(status, int) else 0)


def demo_app() -> typer.Typer:
    """The demo as a program of its own."""
    from swell.cli.demo import demo as play

    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=HELP,
    )
    app.command()(play)
    return app
