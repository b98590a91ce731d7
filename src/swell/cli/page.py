"""`swell page`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import swell
from swell.cli.options import State


def page(
    state: State = None,
    print_: Annotated[
        bool, typer.Option("--print", help="Print the link, and open no browser. It works once.")
    ] = False,
) -> None:
    """Open the live page in a browser on this machine. The link works once, within a minute."""
    import webbrowser

    with swell.connect(state) as client:
        url = client.page().url
    if print_ or not webbrowser.open(url):
        print(url)
        if not print_:
            print("no browser can be started here: open the link in one within a minute", file=sys.stderr)
