"""The state folder: where it is, what lies in it, and who may read that."""

from __future__ import annotations

import os
import pwd
import secrets
import stat
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from swell.store.errors import StateError, StateUnwritable
from swell.wire.untrusted_files import read_regular
from swell.wire.whole_files import write_whole

Options = TypeVar("Options", bound=msgspec.Struct)
T = TypeVar("T")

#: A page, which is overwritten in place.
NOTICE_BYTES = 4096


class ApiAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Which process is the daemon, and where it answers besides the Unix socket."""

    pid: int
    #: When it began, in the kernel's ticks since boot: another process with this pid has another number.
    started_ticks: int = 0
    port: int | None = None  #: of loopback HTTP, if it was asked for
    metrics_port: int | None = None  #: likewise, where only metrics are to be had
    metrics_address: str = "127.0.0.1"  #: at which that port is
    network_url: str = ""  #: of the network, if it is served there
    fingerprint: str = ""  #: SHA-256 of the certificate there, in hexadecimal digits

    @classmethod
    def of_this_process(cls, port: int | None = None, **more: Any) -> ApiAddress:
        """The calling process, which also listens on this port if it is given; `more`: other fields."""
        ticks = _started_ticks(os.getpid()) or 0
        return cls(pid=os.getpid(), started_ticks=ticks, port=port, **more)

    @property
    def is_alive(self) -> bool:
        """Whether that very process runs."""
        return _started_ticks(self.pid) == self.started_ticks

    @property
    def url(self) -> str | None:
        """Address of the loopback port; None without one."""
        return None if self.port is None else f"http://127.0.0.1:{self.port}"

    @property
    def metrics_url(self) -> str | None:
        """Where Prometheus finds the metrics; None without a port for it."""
        host = f"[{self.metrics_address}]" if ":" in self.metrics_address else self.metrics_address
        return None if self.metrics_port is None else f"http://{host}:{self.metrics_port}/metrics"


class StopMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The last words of a platform that ended, or stood still, for a reason."""

    at_s: float
    message: str


class StateFolder:
    """Names of all that lies in a state folder. Making one of these touches nothing."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path).expanduser().absolute() if path else default_path(os.environ)
        self.journal = self.path / "journal.db"
        self.token = self.path / "token"
        self.metrics_token = self.path / "metrics-token"
        self.webhook_secret = self.path / "webhook-secret"
        self.webhooks_file = self.path / "webhooks.yaml"
        self.endpoint = self.path / "endpoint.json"
        self.socket = self.path / "api.sock"
        self.options = self.path / "options.json"
        self.lock = self.path / "daemon.lock"
        self.log = self.path / "daemon.log"
        self.agent = self.path / "agent.json"
        self.notice = self.path / "notice.json"
        self.users = self.path / "users.json"
        self.users_lock = self.path / "users.lock"
        self.page = self.path / "page.json"
        self.jobs = self.path / "jobs"
        self.code = self.path / "code"
        self.storage_id = self.path / "storage-id"
        self.profiles = self.path / "profiles"

    def create(self) -> None:
        """Make the folder, for its owner only; no effect if it is there and is a state folder.

        Raises:
            StateError: it cannot be made or written, it holds something else, or it is another user's.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._refuse_foreign()
            self.check_owner()
            may_pass = self.path.stat().st_mode & 0o011 if self.journal.exists() else 0
            self.path.chmod(0o700 | may_pass)
            for part in (self.jobs, self.profiles):
                if part.is_symlink() and not part.exists():
                    raise StateError(f"{part} is a link to {os.readlink(part)}, which is not there; mount it")
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

    def let_users_pass(self) -> None:
        """Let other accounts reach what is given to them in the folder of jobs, and nothing else."""
        self.code.mkdir(mode=0o700, exist_ok=True)
        jobs = self.jobs.resolve()
        passed = {self.path, jobs.parent, jobs}
        for path in {*self.path.iterdir(), *jobs.parent.iterdir()} - passed:
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & 0o700)
        for path in passed:
            path.chmod(0o711)

    def use_storage(self, path: str, *, is_restored: bool = False) -> None:
        """Have jobs and their code in this folder, by links to it; empty: they are in the state folder.

        Args:
            is_restored: this platform is a copy of the one that had the storage.

        Raises:
            StateError: they are elsewhere already, it is another platform's or user's, or it cannot be used.
        """
        try:
            storage = Path(path).expanduser().absolute() if path else self.path
            if is_restored:
                (storage / self.storage_id.name).unlink(missing_ok=True)
            self._link_storage(storage)
        except OSError as error:
            raise StateError(
                f"the storage {path} cannot be used ({error.strerror}); make the folder, mount its disk, or "
                "choose another one with --storage"
            ) from error

    def _link_storage(self, storage: Path) -> None:
        """Raises StateError, OSError."""
        for path in (storage, storage / self.jobs.name, storage / self.code.name):
            if path.exists():
                _refuse_open(path, path.stat().st_mode, "--storage")
                _refuse_owner(path, path.stat().st_uid or os.geteuid())  # root may do all in any case
        own = self.jobs.resolve().parent
        if storage.resolve() == own:
            return
        parts = (self.jobs, self.code)
        kept = [part for part in parts if part.is_symlink() or (part.is_dir() and any(part.iterdir()))]
        if kept:
            raise StateError(
                f"the jobs of this platform are in {own}; to have them in {storage}, end the platform with "
                f"`swell down`, move {own}/jobs and {own}/code there, and remove {kept[0]} if it is a link"
            )
        self._claim(storage)
        for part in parts:
            (storage / part.name).mkdir(exist_ok=True, mode=0o700)
            with suppress(FileNotFoundError):
                part.rmdir()
            part.symlink_to(storage / part.name)

    def _claim(self, storage: Path) -> None:
        """Have a storage for this platform alone. Raises StateError: another one has it."""
        if not self.storage_id.exists():
            write_whole(self.storage_id, f"{secrets.token_hex(16)}\n".encode())
        own, claim = self.storage_id.read_bytes(), storage / self.storage_id.name
        with suppress(FileExistsError), claim.open("xb") as file:
            file.write(own)
        if read_regular(claim, NOTICE_BYTES) != own:
            raise StateError(
                f"{storage} is the storage of another platform; choose another folder with --storage, or "
                f"remove {claim} if that platform is no more"
            )

    def _refuse_foreign(self) -> None:
        # Its mode is about to become 0700: that must not happen to a home folder or to /tmp.
        # Empty parts are left where a command gave up that would have written the first file.
        names = {entry.name for entry in self.path.iterdir() if not self._is_empty_part(entry)}
        ours = {file.name for file in (self.journal, self.token, self.lock, self.log, self.agent, self.users)}
        # Written before the first start:
        ours |= {self.webhooks_file.name, self.webhook_secret.name, self.storage_id.name}
        if names and not names & ours:
            raise StateError(
                f"{self.path} holds other files ({min(names)}, ...) and no state of Swell; "
                "choose an empty or a new folder with --state"
            )

    def _is_empty_part(self, path: Path) -> bool:
        if path.is_symlink():
            return False
        if path == self.users_lock:
            return path.is_file() and path.stat().st_size == 0
        return path in (self.jobs, self.profiles) and path.is_dir() and not any(path.iterdir())

    def check_owner(self) -> None:
        """Refuse a folder in which another user has, or could have, put anything. Root is a user like others.

        Such a token would open a platform that runs code as the caller; such a link could lead what the
        caller writes anywhere. No effect if there is no folder.

        Raises:
            StateError: names what belongs to another user, and the remedy.
        """
        try:
            status = self.path.stat()
            _refuse_owner(self.path, status.st_uid)
            names = os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise StateError(f"cannot read state folder {self.path} ({error.strerror})") from error
        if names:
            _refuse_open(self.path, status.st_mode, "--state")
        for path in map(self.path.joinpath, names):
            try:
                _refuse_owner(path, path.lstat().st_uid)
            except FileNotFoundError:
                pass  # a daemon has replaced it meanwhile

    def check_shared(self) -> None:
        """Refuse a folder in which others than its owner could have put something.

        It may be another user's, whom the caller trusts by naming it: nothing is written there, no token is
        read there, and only a process of its owner is sent one. No effect if there is no folder.

        Raises:
            StateError: names the fault and the remedy.
        """
        try:
            status = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise StateError(
                f"cannot read folder {self.path} ({error.strerror}); ask its owner to let you in"
            ) from error
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise StateError(
                f"others than its owner can write folder {self.path}, so a stranger could answer there; its "
                f"owner mends that with `chmod go-w {self.path}`"
            )

    @property
    def is_shared_by_another(self) -> bool:
        """Whether it is another account's, and has the socket of a platform which this account may open."""
        try:
            is_others = self.path.stat().st_uid != os.geteuid() and not self.journal.exists()
        except OSError:
            return False
        return is_others and os.access(self.socket, os.W_OK)

    def owner_uid(self) -> int:
        """Whose folder it is. Raises StateError."""
        try:
            return self.path.stat().st_uid
        except OSError as error:
            raise StateError(f"cannot read folder {self.path} ({error.strerror})") from error

    def ensure_token(self) -> str:
        """The token that opens the API; made again if there is none or if others could have read it."""
        return _ensure_secret(self.token)

    def ensure_metrics_token(self) -> str:
        """The token that opens the metrics, and nothing else; likewise."""
        return _ensure_secret(self.metrics_token)

    def ensure_webhook_secret(self) -> str:
        """What webhooks are signed with; as the owner has written it, or made again if there is none.

        Raises:
            StateError: others could have read it. Receivers know it, so it is not replaced unasked.
        """
        if _read_secret(self.webhook_secret) and _is_open_to_others(self.webhook_secret):
            raise StateError(
                f"others could have read {self.webhook_secret}: `chmod 600` it to keep it, or remove it, and "
                "a new one is made, which receivers of webhooks need to know"
            )
        random_bytes = secrets.token_bytes(32)
        return _ensure_secret(self.webhook_secret, lambda: "whsec_" + b64encode(random_bytes).decode())

    def read_token(self) -> str:
        """Empty if there is none."""
        return _read_secret(self.token)

    def page_port(self) -> int:
        """Port on which the page was last, so that one that is open goes on; 0: it was never asked for."""
        return (_load_sound(self.page, dict[str, int]) or {}).get("port", 0)

    def write_page_port(self, port: int) -> None:
        """Raises StateUnwritable."""
        _write(self.page, msgspec.json.encode({"port": port}))

    def write_endpoint(self, endpoint: ApiAddress) -> None:
        """Raises StateUnwritable."""
        _write(self.endpoint, msgspec.json.encode(endpoint))

    def read_endpoint(self) -> ApiAddress | None:
        """Where the daemon said it listens; None if it did not, or ended in good order. Raises StateError."""
        return _load(self.endpoint, ApiAddress, ": remove it and run `swell up`")

    def remove_endpoint(self) -> None:
        self.endpoint.unlink(missing_ok=True)

    def write_notice(self, message: str) -> None:
        """Why the platform ends or stands still; empty: it does no longer.

        Overwrites a page in place, so a full disk has room for it once it was written.
        """
        notice = StopMessage(at_s=time.time(), message=message[: NOTICE_BYTES // 8])
        text = msgspec.json.encode(notice) if message else b""
        try:
            descriptor = os.open(self.notice, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                file.write(text.ljust(NOTICE_BYTES))
                os.fsync(descriptor)
        except OSError as error:
            raise _unwritable(self.notice, error) from error

    def read_notice(self) -> StopMessage | None:
        """None if the platform ended in good order, or was killed."""
        return _load_sound(self.notice, StopMessage)

    def write_options(self, options: msgspec.Struct) -> None:
        """Remember what the platform is started with. Raises StateUnwritable."""
        _write(self.options, msgspec.json.encode(options))

    def read_options(self, kind: type[Options]) -> Options | None:
        """What it was last started with, options of this kind; None if it was never up. Raises StateError."""
        return _load(self.options, kind)


def default_path(environ: Mapping[str, str]) -> Path:
    """`$SWELL_STATE`, else `$XDG_STATE_HOME/swell`, else `~/.local/state/swell`."""
    if chosen := environ.get("SWELL_STATE"):
        return Path(chosen).expanduser().absolute()
    if base := environ.get("XDG_STATE_HOME"):
        return Path(base).absolute() / "swell"
    return Path.home() / ".local" / "state" / "swell"


def _refuse_owner(path: Path, uid: int) -> None:
    if uid != os.geteuid():
        raise StateError(
            f"{path} belongs to {named_user(uid)}, and you are {named_user(os.geteuid())}: a state folder is "
            "used by its owner only. If it is shared with you, set SWELL_TOKEN to your token; else run the "
            "command as its owner, choose another folder with --state or SWELL_STATE, or, if you trust what "
            "lies in it, make it yours with `chown -R`"
        )


def _refuse_open(path: Path, mode: int, option: str) -> None:
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StateError(
            f"others can write folder {path}, so what lies in it may not be yours; look at it, then "
            f"`chmod -R go-w {path}`, or choose another folder with {option}"
        )


def named_user(uid: int) -> str:
    """How a user of the machine is told."""
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def _started_ticks(pid: int) -> int | None:
    """When a process began; None if it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _ensure_secret(path: Path, make: Callable[[], str] = lambda: secrets.token_urlsafe(32)) -> str:
    secret = _read_secret(path)
    if secret and not _is_open_to_others(path):
        return secret
    secret = make()
    _write(path, secret.encode())
    return secret


def _is_open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def _read_secret(path: Path) -> str:
    return _read(path).decode("ascii", "replace").strip()


def _load_sound(path: Path, kind: type[T]) -> T | None:
    """What a file says that is written again if it says nothing, or cannot be read."""
    with suppress(StateError):
        return _load(path, kind)
    return None


def _load(path: Path, kind: type[T], remedy: str = "") -> T | None:
    """What a file says; None without one, or if it is empty. Raises StateError."""
    text = _read(path).strip()
    try:
        return msgspec.json.decode(text, type=kind) if text else None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateError(f"{path} cannot be read ({error}){remedy}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise StateError(
            f"cannot read {path} ({error.strerror}); it belongs to the user who ran `swell up`"
        ) from error


def _write(path: Path, content: bytes) -> None:
    """All or nothing, and readable by the owner only from the first byte on."""
    try:
        write_whole(path, content, is_synced=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> StateUnwritable:
    return StateUnwritable(
        f"cannot write {path} ({error.strerror}); make room on its disk, or make the folder writable for you"
    )
