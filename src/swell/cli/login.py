"""How a user reaches a platform, and is reached: `swell login`, `logout`, `page` and `notify`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import swell
from swell.api.errors import AccessRefused
from swell.cli.options import State, described
from swell.model.errors import InvalidInput


@described("""
url (argument): URL
    As `swell up` printed it: https://HOST:8443.
fingerprint: DIGITS
    Fingerprint of the certificate, as `swell up` printed it. Default: show it, and ask.
token_stdin:
    Read the token from standard input. Default: ask.
""")
def login(url: str, fingerprint: str | None = None, token_stdin: bool = False) -> None:
    """Use a platform on another machine from now on.

    Compare the fingerprint with the one that `swell up` printed: who answers with another one is not the
    platform. Commands with --state, or with $SWELL_STATE set, go to a platform of this machine.
    """
    from swell.api.login import Login, login_file, parse_fingerprint, parse_url, write_login
    from swell.api.remote import open_remote, seen_fingerprint

    address = parse_url(url)
    known = "" if fingerprint is None else parse_fingerprint(fingerprint)
    if token_stdin and not known:
        raise typer.BadParameter("--token-stdin goes with --fingerprint, which could not be asked about")
    seen = seen_fingerprint(address)
    if known and seen != known:
        raise AccessRefused(f"{address} has fingerprint {seen}, and not {known}; ask the platform's owner")
    if not known:
        print(f"certificate of {address}: SHA-256 fingerprint\n  {seen}")
        if not typer.confirm("Is that what `swell up` printed on the platform's machine?"):
            raise AccessRefused("you are not logged in, and nothing was sent; ask the platform's owner")
    token = sys.stdin.readline() if token_stdin else typer.prompt("Token", hide_input=True)
    made = Login(url=address, fingerprint=seen, token=token.strip())
    open_remote(made).close()
    write_login(made)
    print(f"commands go to {address}; {login_file()} has the token. `swell logout` ends that")


def logout() -> None:
    """Use platforms of this machine again, and forget the token."""
    from swell.api.login import login_file

    try:
        login_file().unlink()
    except FileNotFoundError:
        print("nothing to end: you are not logged in")
    else:
        print("logged out; the token stays in force until `swell admin users remove` ends it")


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


@described("""
urls (argument): [URL]...
    Addresses in place of those before. Default: show which there are.
off:
    Tell no service any more.
""")
def notify(urls: list[str] | None = None, off: bool = False, state: State = None) -> None:
    """Have services tell you of all your jobs: Slack, mail and any other that Apprise knows.

    Addresses are kept as secrets: only their kinds are shown. `swell submit --notify` is for one job.
    """
    from swell.api.fields import known_services

    if urls and off:
        raise InvalidInput("--off names no address; give addresses, or --off")
    named = known_services("notify", tuple(urls or ()))
    with swell.connect(state) as client:
        kinds = client.notify(named if named or off else None)
    print(f"your jobs are told to {', '.join(kinds)}" if kinds else "your jobs are told to no service")
