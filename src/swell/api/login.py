"""Where the commands of a user go who has logged in to a platform on another machine: a file of their own."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from swell.model.errors import InvalidOption
from swell.store.errors import StateError
from swell.wire.whole_files import write_whole

DEFAULT_PORT = 8443
FINGERPRINT = re.compile(r"[0-9a-f]{64}")
MOST_BYTES = 1 << 16


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """A platform on another machine, and who asks it."""

    url: str  #: `https://HOST:PORT`
    fingerprint: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]  #: SHA-256 of its certificate
    token: str

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or DEFAULT_PORT


def parse_url(text: str) -> str:
    """`https://HOST:PORT` of an address that has a scheme and a port or not. Raises InvalidOption."""
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:
        host, port, parts = None, 0, urlsplit("")
    if (
        parts.scheme != "https"
        or not host
        or parts.path not in ("", "/")
        or parts.query
        or "@" in parts.netloc
    ):
        raise InvalidOption(f"{text!r} is no address of a platform; write https://HOST:{DEFAULT_PORT}")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def parse_fingerprint(text: str) -> str:
    """64 hexadecimal digits, with or without colons. Raises InvalidOption."""
    digits = text.replace(":", "").strip().lower()
    if not FINGERPRINT.fullmatch(digits):
        raise InvalidOption(
            f"{text!r:.100} is no fingerprint: it has 64 hexadecimal digits; `swell up` prints it"
        )
    return digits


def login_file() -> Path:
    """`$XDG_CONFIG_HOME/swell/login.json`, else `~/.config/swell/login.json`."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "swell" / "login.json"


def read_login() -> Login | None:
    """Return the login, if there is one. Raises StateError: the file is damaged, or others can read it."""
    path = login_file()
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise StateError(f"others can read {path}, which has your token: `chmod 600 {path}`")
            return msgspec.json.decode(file.read(MOST_BYTES), type=Login)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise StateError(f"{path} cannot be read ({error}); remove it, and `swell login` again") from error


def write_login(login: Login) -> None:
    """Keep it for the commands to come. Raises StateError."""
    path = login_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(login), mode=0o600)
    except OSError as error:
        raise StateError(f"{path} cannot be written ({error.strerror}); make its folder writable") from error


def login_of(state: str | os.PathLike[str] | None) -> Login | None:
    """Where a command goes that names this state folder; None: to a platform of this machine.

    A folder that is named, by `state` or $SWELL_STATE, counts more than a login.

    Raises:
        StateError: as `read_login`.
    """
    return None if state is not None or os.environ.get("SWELL_STATE") else read_login()
