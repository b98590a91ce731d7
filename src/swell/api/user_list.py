"""Users of a platform besides its owner, and limits and quotas of tenants: one file in the state folder.

Of each token only a digest is kept. Commands change the file while a platform runs. Each request reads it, so
a change holds from the next request on. The log of what users have changed is another file there.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import pwd
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from swell.api.role import Role
from swell.executors.local.accounts.messages import AccountRefused, account_of
from swell.live.watches import UnknownQuotas
from swell.model.errors import InvalidInput
from swell.model.quota import NO_CLAIMS, Claims, Quota, Quotas
from swell.model.webhook import Webhook
from swell.policies.registry import why_no_quotas
from swell.store.errors import StateError
from swell.store.folder import StateFolder
from swell.store.lock import exclusive
from swell.wire.whole_files import write_whole

#: Tells programs that look for secrets in repositories what they have found.
TOKEN_PREFIX = "swu_"  # noqa: S105 - what all of them begin with
TOKEN_BYTES = 32

log = logging.getLogger("swell.webhooks")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,39}", re.ASCII)


# ---------------------------------------------------------------- what they did
ACCESS_FILE = "access.jsonl"
#: More devices than this would be no limit.
MOST_DEVICES = 100_000
LEAST_WEIGHT = 0.001
ANY = "any"
#: The remedy on a platform whose policy cannot keep quotas, besides another policy.
HOW_TO_END = "take each quota away: `swell admin tenants limit TENANT --devices any --share any`"
_PERCENTAGE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%", re.ASCII)


@dataclass(frozen=True, slots=True)
class ApiUser:
    """Behind a token or a session of the page. Equal as long as nothing about them was changed."""

    name: str
    role: Role
    tenant: str = ""  #: whose jobs they submit; empty: they may name any
    added_s: float = 0.0  #: when the operator added them, seconds since 1970

    def may_change_jobs_of(self, tenant: str) -> bool:
        """Cancel them, say, or submit others."""
        return self.role >= Role.OPERATE or (self.role >= Role.SUBMIT and self.tenant == tenant)


#: Who holds the platform's own token.
OWNER = ApiUser("owner", Role.OPERATE)


class UserListError(StateError):
    """The list is damaged, or what was asked of it cannot be; the text names the remedy."""


class KnownUser(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A user as the file keeps it; the digest of a token is no use for sending requests."""

    sha256: str  #: of the token, in hexadecimal digits
    role: Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(role.word for role in Role)})$")]
    added_s: float  #: seconds since 1970
    tenant: str = ""

    def as_caller(self, name: str) -> ApiUser:
        return ApiUser(name, Role[self.role.upper()], self.tenant, self.added_s)


class TenantLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the jobs of a tenant may take together; None: any number."""

    open_jobs: int | None = None
    devices: Annotated[int, msgspec.Meta(ge=1)] | None = None
    share: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None  #: of the devices that are there
    weight: Annotated[float, msgspec.Meta(gt=0)] = 1.0  #: what the tenant has used is divided by it

    @property
    def quota(self) -> Quota | None:
        """Device quota of the tenant; None: it has none."""
        is_any = self.devices is None and self.share is None
        return None if is_any else Quota(devices=self.devices, share=self.share)


NO_LIMITS = TenantLimits()


class UserListContent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file holds."""

    users: dict[str, KnownUser] = {}
    tenants: dict[str, TenantLimits] = {}
    services: dict[
        str, tuple[str, ...]
    ] = {}  #: user -> addresses told of their jobs; the owner's name is empty


class UserList:
    """Thread-safe; several processes may change the file."""

    def __init__(self, folder: Path, now_s: Callable[[], float] = time.time, group: str = "") -> None:
        """`group`: whose members on this machine are users too, and have jobs run as them; empty: no one."""
        self.folder, state = folder, StateFolder(folder)
        self.group = group
        self._path, self._lock = state.users, state.users_lock
        self._now_s = now_s
        self._read: tuple[bytes, UserListContent] = (b"", UserListContent())

    # ------------------------------------------------------------ for requests
    def find(self, token: str) -> ApiUser | None:
        """Whose token it is; None: no user's.

        How long it takes tells nothing of the digests. Raises UserListError.
        """
        digest, found = _digest(token), None
        for name, user in self.users().items():
            if hmac.compare_digest(digest, user.sha256):
                found = user.as_caller(name)
        return found

    def is_current(self, caller: ApiUser) -> bool:
        """Whether the caller of an earlier request may send others: for sessions. Raises UserListError."""
        with suppress(AccountRefused):
            return self._named(caller.name) == caller
        return False

    def knows(self, name: str) -> bool:
        """Whether a user of this name may send requests. Raises UserListError."""
        with suppress(AccountRefused):
            return bool(self._named(name))
        return False

    def at_socket(self, uid: int) -> ApiUser:
        """The user of the machine who sends a request.

        Raises:
            AccountRefused: they are not admitted; UserListError.
        """
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            raise AccountRefused(f"user {uid} has no name on this machine") from None
        self.check_account(name)
        return self._named(name)

    def check_account(self, name: str) -> None:
        """Raises AccountRefused: no job runs as the user of the machine that has the name of this user."""
        account_of(name, self.group)
        if name == OWNER.name or not NAME.fullmatch(name):
            raise AccountRefused(f"the name {name!r} is no user of a platform; submit as another one")

    def _named(self, name: str) -> ApiUser:
        """Raises AccountRefused: the operator has not added them, nor is it a user of the machine."""
        if name == OWNER.name:
            return OWNER
        if (user := self.users().get(name)) is not None:
            return user.as_caller(name)
        if not self.group:
            raise AccountRefused(f"there is no user {name!r}; `swell admin users` lists them")
        self.check_account(name)
        return ApiUser(name, Role.SUBMIT, tenant=name)

    def limits_of(self, tenant: str) -> TenantLimits:
        """Raises UserListError."""
        return self._content().tenants.get(tenant, NO_LIMITS)

    # ------------------------------------------------------------ where users are told of their jobs
    def services_of(self, user: str) -> tuple[Webhook, ...]:
        """Services of a user, the owner's name is empty; none if the list cannot be read."""
        try:
            urls = self._content().services.get(user, ())
        except UserListError as error:
            log.warning("services of users are told nothing: %s", error)
            return ()
        return tuple(Webhook(url=url, is_service=True) for url in urls)

    def set_services(self, user: str, urls: tuple[str, ...]) -> None:
        """Tell these services of the user's jobs, in place of those before. Raises UserListError, OSError."""
        with self._changing() as content:
            others = {name: kept for name, kept in content.services.items() if name != user}
            services = {**others, user: urls} if urls else others
            self._write(msgspec.structs.replace(content, services=services))

    @property
    def is_there(self) -> bool:
        """Whether there may be users; a single look at its folder."""
        return bool(self.group) or os.path.exists(self._path)

    # ------------------------------------------------------------ for the operator
    def users(self) -> Mapping[str, KnownUser]:
        """Return the users by name. Raises UserListError."""
        return self._content().users

    def tenants(self) -> Mapping[str, TenantLimits]:
        """Those that have limits. Raises UserListError."""
        return self._content().tenants

    def quotas(self) -> Quotas:
        """Return the device quotas by tenant, for tenants that have one. Raises UserListError."""
        limits = self.tenants().items()
        return {name: quota for name, limit in limits if (quota := limit.quota) is not None}

    def weights(self) -> dict[str, float]:
        """Weights by tenant, of those that have another one than 1. Raises UserListError."""
        return {name: limits.weight for name, limits in self.tenants().items() if limits.weight != 1.0}

    def add(self, name: str, role: Role, tenant: str = "") -> str:
        """A new user's token, which is kept nowhere else. Raises UserListError, OSError."""
        if not NAME.fullmatch(name) or name == OWNER.name:
            raise UserListError(
                f"user name {name!r} cannot be used; a name has 1 to 40 letters, digits and . _ @ -, a "
                f"letter or digit first, and is not {OWNER.name!r}: choose another one"
            )
        if (role is Role.SUBMIT) != bool(tenant):
            raise UserListError(_about_tenant(role))
        token = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        user = KnownUser(sha256=_digest(token), role=role.word, added_s=self._now_s(), tenant=tenant)
        with self._changing() as content:
            if name in content.users:
                raise UserListError(
                    f"there is a user {name!r}; `swell admin users remove {name}` removes it first, which "
                    "ends its token, or choose another name"
                )
            self._write(msgspec.structs.replace(content, users={**content.users, name: user}))
        return token

    def remove(self, name: str) -> None:
        """Its token and sessions are refused from now on. Raises UserListError, OSError."""
        _refuse_unknown(name, self.users())  # nothing is written for that, not even the lock
        with self._changing() as content:
            _refuse_unknown(name, content.users)
            users = {other: user for other, user in content.users.items() if other != name}
            services = {other: urls for other, urls in content.services.items() if other != name}
            self._write(msgspec.structs.replace(content, users=users, services=services))

    def limit(self, tenant: str, limits: TenantLimits) -> None:
        """Give a tenant these limits in place of those it had. Raises UserListError, OSError."""
        with self._changing() as content:
            tenants = {**content.tenants, tenant: limits}
            if limits == NO_LIMITS:
                del tenants[tenant]
            self._write(msgspec.structs.replace(content, tenants=tenants))

    # ------------------------------------------------------------ the file
    def _content(self) -> UserListContent:
        """What stands in the file now. It is read each time: its time of change may hide a second change."""
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return UserListContent()
        except OSError as error:
            raise UserListError(f"cannot read {self._path} ({error.strerror}); make it readable") from error
        read, content = self._read
        if text != read:
            try:
                content = msgspec.json.decode(text, type=UserListContent)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise UserListError(
                    f"{self._path} is damaged ({error}); it must be the list of users that Swell wrote: "
                    "restore it, or remove it and add every user again"
                ) from error
            self._read = (text, content)
        return content

    def log_access(self, entry: AccessEntry) -> None:
        """Add a line at the end of the access log, which a tool such as logrotate may move away.

        Several processes and threads may write: a line is one write. Raises OSError.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with os.fdopen(os.open(self.folder / ACCESS_FILE, flags, 0o600), "wb", buffering=0) as file:
            file.write(msgspec.json.encode(entry) + b"\n")

    @contextmanager
    def _changing(self) -> Iterator[UserListContent]:
        with exclusive(self._lock):
            yield self._content()

    def _write(self, content: UserListContent) -> None:
        write_whole(self._path, msgspec.json.encode(content), mode=0o600, is_synced=True)


def _refuse_unknown(name: str, users: Mapping[str, KnownUser]) -> None:
    if name not in users:
        known = ", ".join(sorted(users)) or "none"
        raise UserListError(f"there is no user {name!r}; users are: {known}")


def _about_tenant(role: Role) -> str:
    if role is Role.SUBMIT:
        return "role submit needs a tenant, whose jobs the user may submit and cancel; name it with --tenant"
    reach = "sees all tenants" if role is Role.VIEW else "may name any tenant"
    return f"role {role.word} has no tenant, because it {reach}; leave out --tenant"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class AccessEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request, without what it carried. Times are seconds since 1970."""

    at_s: float
    user: str = ""  #: empty: the request had no token that is in force
    role: str = ""
    operation: str = ""  #: as in the API's document; empty: it was refused before that was known
    about: str = ""  #: id of the job, or name of the node, user or tenant
    status: int  #: of the answer


def parse_devices(text: str) -> int:
    """Raises InvalidInput."""
    is_number = text.isdecimal() and text.isascii() and len(text) <= len(str(MOST_DEVICES))
    if not is_number or not 1 <= int(text) <= MOST_DEVICES:
        raise InvalidInput(f"{text!r} is not a number from 1 to {MOST_DEVICES}, nor `{ANY}`")
    return int(text)


def parse_share(text: str) -> float:
    """A fraction in (0, 1]. Raises InvalidInput."""
    match = _PERCENTAGE.fullmatch(text)
    if match is None or not 0.0 < float(match[1]) <= 100.0:
        raise InvalidInput(f"{text!r} is not a percentage above 0% and up to 100%, as 25%, nor `{ANY}`")
    return float(match[1]) / 100.0


def parse_quotas(texts: Iterable[str]) -> dict[str, Quota | None]:
    """TENANT=DEVICES, TENANT=PERCENTAGE or TENANT=any, each once at most for a tenant; None: any number.

    Raises InvalidInput.
    """
    found: dict[str, Quota | None] = {}
    for text in texts:
        tenant, equals, most = text.rpartition("=")
        if not equals:
            raise InvalidInput(f"--quota {text!r}: write TENANT=DEVICES or TENANT=SHARE, as ana=8 or ana=25%")
        try:
            quota = _parsed(most)
        except InvalidInput as error:
            raise InvalidInput(f"--quota {text!r}: {error}") from None
        found[tenant] = _both(found[tenant], quota, text) if tenant in found else quota
    return found


def parse_weights(text: str) -> dict[str, float]:
    """Weights by tenant: TENANT=NUMBER,... Raises InvalidInput."""
    pairs = (one.rpartition("=") for one in text.split(",") if one)
    return {name: parse_weight(number) for name, _, number in pairs}


def parse_weight(text: str) -> float:
    """Raises InvalidInput."""
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not LEAST_WEIGHT <= weight <= 1.0 / LEAST_WEIGHT:
        raise InvalidInput(f"{text!r} is not a weight from {LEAST_WEIGHT:g} to {1.0 / LEAST_WEIGHT:g}")
    return weight


def _parsed(text: str) -> Quota | None:
    if text == ANY:
        return None
    return Quota(share=parse_share(text)) if "%" in text else Quota(devices=parse_devices(text))


def _both(before: Quota | None, quota: Quota | None, text: str) -> Quota:
    """A number of devices and a share."""
    if before is None or quota is None or (before.devices is None) == (quota.devices is None):
        raise InvalidInput(
            f"--quota {text!r}: its tenant has one already; give each tenant a number of devices and a share "
            "at most once"
        )
    return Quota(devices=before.devices or quota.devices, share=before.share or quota.share)


def refuse_unkept(policies: Iterable[str], quotas: Quotas, remedy: str) -> None:
    """Raises InvalidInput for a policy that cannot keep quotas, if there are any; UnknownPolicy.

    Args:
        remedy: besides another policy.
    """
    for policy in policies if quotas else ():
        if why := why_no_quotas(policy):
            raise InvalidInput(f"{why}, or {remedy}")


def set_quotas(users: UserList, policy: str) -> Callable[[], Claims]:
    """What `QuotaWatch` reads on a platform with this policy."""

    why_none = why_no_quotas(policy)

    def read() -> Claims:
        try:
            quotas, weights = users.quotas(), users.weights()
        except UserListError as error:
            if why_none:
                raise UnknownQuotas(f"no quota of a tenant applies: {error}", NO_CLAIMS) from error
            raise UnknownQuotas(f"quotas of tenants stay as they were: {error}") from error
        if quotas and why_none:
            why = f"no quota of a tenant applies: {why_none}, or {HOW_TO_END}"
            raise UnknownQuotas(why, Claims({}, weights))
        return Claims(quotas, weights)

    return read
