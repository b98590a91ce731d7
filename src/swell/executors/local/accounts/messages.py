"""What the platform asks the helper process of root for, and how it is answered.

A connection is of one request: a line of JSON that comes with exactly the descriptors of its kind. The answer
is a line, and of a process that was started another one when it has ended, with all that it started.

Of which users of the machine jobs may run the platform and the helper judge alike, see `account_of`.
"""

from __future__ import annotations

import grp
import os.path
import pwd
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

#: The folder of the helpers' sockets, which belongs to root.
FOLDER = Path("/run/swell")
MAX_REQUEST_BYTES = 64 << 10
#: For a whole request to come.
REQUEST_S = 5.0
#: Live connections of one helper.
MAX_CONNECTIONS = 256
#: Modes of folders that are given: what a job's processes write in; its code, which the platform has written.
WORK_MODE, CODE_MODE = 0o2770, 0o2750
#: Below are the accounts of the system.
MIN_UID = 1000
NO_SHELLS = frozenset({"nologin", "false"})


class AccountRefused(ValueError):
    """Nothing is done as this user, or with what was asked for; the text names the rule and the remedy."""


class HelperRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """What is asked for. `user` is a name; numbers are looked up by the helper."""

    num_descriptors: ClassVar[int]
    user: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}\Z")]


class ZygoteRequest(HelperRequest, frozen=True, kw_only=True, tag="zygote"):
    """A zygote. Descriptors: its channel, its log, and a lock that the keeper holds in its place."""

    num_descriptors = 3
    python: Annotated[str, msgspec.Meta(pattern=r"\A/[^\x00]{1,4095}\Z")]  #: its interpreter
    modules: tuple[Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z_][\w.]*\Z")], ...]  #: that it imports
    environ: dict[str, str]  #: names that `ENVIRON` allows


class Intake(HelperRequest, frozen=True, kw_only=True, tag="intake"):
    """A process that reads scripts and folders of the user. Descriptors: its channel, its log."""

    num_descriptors = 2
    limits: str  #: as `swell.api.intake_process.main` reads them


class Remove(HelperRequest, frozen=True, kw_only=True, tag="remove"):
    """A folder is emptied. Descriptor: the folder."""

    num_descriptors = 1


class Give(HelperRequest, frozen=True, kw_only=True, tag="give"):
    """A folder of the platform, with what it has put there, becomes the user's, or is it.

    Starts no process. Descriptor: the folder.
    """

    num_descriptors = 1
    mode: int


class End(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True, tag="end"):
    """The helper ends; what it has started goes on."""

    num_descriptors: ClassVar[int] = 0


AnyRequest = ZygoteRequest | Intake | Remove | Give | End

#: Variables of the platform's own environment that a zygote is given; the others may hold secrets.
ENVIRON = (
    r"SWELL_PROCESS|LANG|TZ|PYTHONHASHSEED|LD_LIBRARY_PATH|JE_ARROW_MALLOC_CONF"
    r"|(LC|MALLOC|OMP|MKL|OPENBLAS|NUMEXPR|CUDA|NCCL|GLOO|TORCH|PYTORCH)_[A-Z0-9_]+"
)


class HelperAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The helper's or the keeper's word."""

    why: str = ""  #: it was refused; else empty
    pid: int = 0  #: of the process that was started
    status: int | None = None  #: of one that has ended, or 0 of a folder that was given


def socket_path(platform_uid: int) -> Path:
    """Where the helper of a platform's account listens."""
    return FOLDER / f"runas-{platform_uid}.sock"


def account_of(name: str, group: str) -> pwd.struct_passwd:
    """Return the user of this name if jobs may run as them. Raises AccountRefused."""
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise AccountRefused(f"this machine has no user {name!r}; make one, as `useradd` does") from None
    try:
        allowed = grp.getgrnam(group)
    except KeyError:
        raise AccountRefused(f"this machine has no group {group!r}, whose members jobs may run as") from None
    if entry.pw_uid < MIN_UID:
        raise AccountRefused(
            f"user {name!r} has the number {entry.pw_uid}, and jobs run as no account of the system (below "
            f"{MIN_UID}); submit as another user"
        )
    if name not in allowed.gr_mem and entry.pw_gid != allowed.gr_gid:
        raise AccountRefused(
            f"user {name!r} is no member of the group {group!r}, as which alone jobs run; "
            f"`sudo usermod -aG {group} {name}` lets them"
        )
    if os.path.basename(entry.pw_shell) in NO_SHELLS:
        raise AccountRefused(
            f"user {name!r} may not log in (shell {entry.pw_shell}), so no job runs as them; "
            f"`sudo chsh -s /bin/bash {name}` lets them"
        )
    return entry
