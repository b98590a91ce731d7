"""`swell`: the program."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, cast

import typer

from swell import __version__
from swell.api.errors import ApiError, InvalidOption, NoAnswer, NoPlatform
from swell.cli.commands import HELP, CommandGroup
from swell.cli.output import printable_output
from swell.model.errors import InvalidInput, InvalidJob, Unavailable, UnknownJob, UnknownNode, WrongPhase
from swell.store.errors import StateError

#: Exit status of what a user can put right: one line, no traceback. Anything else is our mistake and shows
#: where.
STATUSES: Mapping[type[Exception], int] = {
    ApiError: 1,
    StateError: 1,
    TimeoutError: 1,
    InvalidInput: 2,
    InvalidJob: 2,
    InvalidOption: 2,
    UnknownJob: 2,
    UnknownNode: 2,
    WrongPhase: 1,
    NoPlatform: 5,
    NoAnswer: 5,
    Unavailable: 5,
}
KNOWN = tuple(STATUSES)
#: Why a text is no value of an option, by Pydantic's name for it.
NUMBERS = {
    "int_parsing": "is not a whole number; write one in digits, such as 64",
    "float_parsing": "is not a number; write one such as 0.5",
}

app = typer.Typer(
    name="swell",
    cls=CommandGroup,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=HELP,
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"swell {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def begin(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Elastic training for PyTorch: deadlines that are promises, resizes inside live processes."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Return the exit status: 1 for what went wrong, 2 for a command line or a job that is none, 5 for no
    platform; others are of single commands."""
    with printable_output():
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    # Typer's own family of errors for wrong usage, under whichever name this version of it has.
    usage_error = cast("type[Exception]", typer.BadParameter.__mro__[2])
    try:
        words = ["swell", *arguments]
        status = app(args=list(arguments), prog_name="swell", standalone_mode=False, obj=words)
    except KNOWN as error:
        status = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
        return _complain(str(error.args[0]) if error.args else type(error).__name__, status)
    except typer.Abort:
        return _complain("interrupted", 130)
    except usage_error as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "swell"
        text = error.format_message().rstrip(".")  # type: ignore[attr-defined]
        for wrong in getattr(error.__context__, "errors", list)():  # which do not tell the value
            rule = NUMBERS.get(wrong["type"], f"does not fit ({wrong['msg']})")
            text = text.replace(wrong["msg"], f"{wrong['input']!r:.80} {rule}")
        return _complain(f"{text[:1].lower()}{text[1:]}; see `{path} --help`{_broken_engines(path)}", 2)
    return status if isinstance(status, int) else 0


def _broken_engines(path: str) -> str:
    """What a user of `swell up` may miss: options of engines that cannot be used are not known."""
    if path != "swell up":
        return ""
    from swell.executors.engines import ENGINES

    return "".join(f". {why}" for why in ENGINES.broken.values())


def _complain(text: str, status: int) -> int:
    print(f"swell: {text}", file=sys.stderr)
    return status


def main() -> None:
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
