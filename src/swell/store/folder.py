"""The state folder: where it is, what lies in it, and who may read that."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from swell.store.errors import StateError, StateUnwritable

#: A page, which is overwritten in place.
NOTICE_BYTES = 4096


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a daemon's API listens, and which process it is."""

    host: str
    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


class LastOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the platform was last started with, so that it need not be said again."""

    devices: str
    policy: str
    preload: tuple[str, ...]
    settings: dict[str, int | float] = {}  #: those that are not as by default


class StopNotice(msgspec.Struct, frozen=True, kw_only=True):
    """The last words of a platform that ended, or stood still, for a reason."""

    at_s: float
    message: str


class StateFolder:
    """Names of all that lies in a state folder. Making one of these touches nothing."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path).expanduser().absolute() if path else default_path(os.environ)
        self.journal = self.path / "journal.db"
        self.token = self.path / "token"
        self.endpoint = self.path / "endpoint.json"
        self.options = self.path / "options.json"
        self.lock = self.path / "daemon.lock"
        self.log = self.path / "daemon.log"
        self.agent = self.path / "agent.json"
        self.notice = self.path / "notice.json"
        self.jobs = self.path / "jobs"
        self.profiles = self.path / "profiles"

    def create(self) -> None:
        """Make the folder, for its owner only; no effect if it is there and is a state folder.

        Raises:
            StateError: it cannot be made or written, or it holds something else.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._refuse_foreign()
            self.path.chmod(0o700)
            for part in (self.jobs, self.profiles):
                part.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise StateError(
                f"state folder {self.path} cannot be made or written ({error.strerror}); "
                "make it writable for you, or choose another one with --state or SWELL_STATE"
            ) from error
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise StateError(
                f"state folder {self.path} is not writable; make it writable for you, "
                "or choose another one with --state or SWELL_STATE"
            )

    def _refuse_foreign(self) -> None:
        # Its mode is about to become 0700: that must not happen to a home folder or to /tmp.
        names = {entry.name for entry in self.path.iterdir()}
        ours = {file.name for file in (self.journal, self.token, self.lock, self.log, self.agent)}
        if names and not names & ours:
            raise StateError(
                f"{self.path} holds other files ({min(names)}, ...) and no state of Swell; "
                "choose an empty or a new folder with --state"
            )

    def ensure_token(self) -> str:
        """The token that opens the API; made anew if there is none or if others could have read it."""
        token = self.read_token()
        if token and not self.token.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            return token
        token = secrets.token_urlsafe(32)
        _write(self.token, token.encode())
        return token

    def read_token(self) -> str:
        """Empty if there is none."""
        return _read(self.token).decode("ascii", "replace").strip()

    def write_endpoint(self, endpoint: Endpoint) -> None:
        _write(self.endpoint, msgspec.json.encode(endpoint))

    def read_endpoint(self) -> Endpoint | None:
        """Where the daemon said it listens; None if it did not, or ended in good order."""
        text = _read(self.endpoint)
        try:
            return msgspec.json.decode(text, type=Endpoint) if text else None
        except msgspec.MsgspecError as error:
            raise StateError(
                f"{self.endpoint} cannot be read ({error}): remove it and run `swell up`"
            ) from error

    def remove_endpoint(self) -> None:
        self.endpoint.unlink(missing_ok=True)

    def write_notice(self, message: str) -> None:
        """Why the platform ends or stands still; empty: it does no longer.

        Overwrites a page in place, so a full disk has room for it once it was written.
        """
        notice = StopNotice(at_s=time.time(), message=message[: NOTICE_BYTES // 8])
        text = msgspec.json.encode(notice) if message else b""
        try:
            descriptor = os.open(self.notice, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                file.write(text.ljust(NOTICE_BYTES))
                os.fsync(descriptor)
        except OSError as error:
            raise _unwritable(self.notice, error) from error

    def read_notice(self) -> StopNotice | None:
        """None if the platform ended in good order, or was killed."""
        try:
            return msgspec.json.decode(_read(self.notice), type=StopNotice)
        except msgspec.MsgspecError:
            return None

    def write_options(self, options: LastOptions) -> None:
        _write(self.options, msgspec.json.encode(options))

    def read_options(self) -> LastOptions | None:
        """None if the platform was never up.

        Raises:
            StateError: the file cannot be read, or is of another version.
        """
        text = _read(self.options)
        try:
            return msgspec.json.decode(text, type=LastOptions) if text else None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StateError(f"{self.options} cannot be read ({error})") from error


def default_path(environ: Mapping[str, str]) -> Path:
    """`$SWELL_STATE`, else `$XDG_STATE_HOME/swell`, else `~/.local/state/swell`."""
    if chosen := environ.get("SWELL_STATE"):
        return Path(chosen).expanduser().absolute()
    if base := environ.get("XDG_STATE_HOME"):
        return Path(base).absolute() / "swell"
    return Path.home() / ".local" / "state" / "swell"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise StateError(
            f"cannot read {path} ({error.strerror}); it belongs to whoever ran `swell up`"
        ) from error


def _write(path: Path, content: bytes) -> None:
    """All or nothing, and readable by the owner only from the first byte on."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> StateUnwritable:
    return StateUnwritable(
        f"cannot write {path} ({error.strerror}); make room on its disk, or make the folder writable for you"
    )
