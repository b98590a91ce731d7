"""`swell admin users` and `swell admin tenants`: who may use a platform, and what tenants may take of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
import typer

from swell.api.role import Role
from swell.cli.options import Json, State, described, has_subcommand, own_state, parsed
from swell.cli.output import clock, print_json, print_table

if TYPE_CHECKING:
    from swell.api.user_list import TenantLimits
    from swell.model.quota import Quota, TenantDevices
    from swell.model.usage import AccountShare
    from swell.store.folder import StateFolder

users_app = typer.Typer(name="users", rich_markup_mode=None, add_completion=False)

UserName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]

tenants_app = typer.Typer(name="tenants", rich_markup_mode=None, add_completion=False)
HEADINGS = ("TENANT", "OPEN JOBS", "DEVICES", "SHARE", "WEIGHT", "IN USE", "USED LATELY")
#: By kind of device, of one tenant.
Held = Mapping[str, "TenantDevices"]
T = TypeVar("T")
#: More would be no limit, and its submissions of an hour are remembered.
MOST = 100_000


@users_app.callback(invoke_without_command=True)
def list_users(context: typer.Context, state: State = None, json: Json = False) -> None:
    """List the users besides the owner, with role and tenant. Their tokens are kept nowhere."""
    if has_subcommand(context, state, json):
        return
    from swell.api.user_list import UserList

    users = UserList(own_folder(state).path).users()
    shown = [(name, user.role, user.tenant, user.added_s) for name, user in users.items()]
    if json:
        print_json([dict(zip(("name", "role", "tenant", "added_s"), one, strict=True)) for one in shown])
    elif shown:
        now_s = time.time()
        rows = [(name, role, tenant or "-", clock(at_s, now_s)) for name, role, tenant, at_s in shown]
        print_table(("USER", "ROLE", "TENANT", "ADDED"), rows)
    else:
        print("no users besides you; add one with `swell admin users add NAME --role ROLE`")


@users_app.command()
@described("""
role: ROLE
    What the user may do: view (see everything), submit (also submit, cancel, retry and change deadlines of
    jobs of one tenant) or operate (everything).
tenant: TENANT
    With role submit: whose jobs.
""")
def add(name: UserName, role: str, tenant: str | None = None, state: State = None) -> None:
    """Add a user and print their token, once: it is kept nowhere."""
    from swell.api.fields import formed
    from swell.api.user_list import UserList

    known_role, its_tenant = _role(role), formed("tenant", tenant)
    folder = own_folder(state)
    folder.create()
    token = UserList(folder.path).add(name, known_role, its_tenant)
    log_access(folder, "users add", name)
    print(token)
    print(f"{name} sets the environment variable SWELL_TOKEN to this token", file=sys.stderr)


@users_app.command()
def remove(name: UserName, state: State = None) -> None:
    """End a user's token and sessions, from the next request on. Their jobs go on."""
    from swell.api.user_list import UserList

    folder = own_folder(state)
    UserList(folder.path).remove(name)
    log_access(folder, "users remove", name)
    print(f"user {name} is removed; jobs that they have submitted go on")


def own_folder(state: Path | None) -> StateFolder:
    """That of a platform, up or not, which is the caller's."""
    from swell.store.errors import StateError

    folder = own_state(state)
    folder.check_owner()
    if folder.endpoint.exists() and not folder.token.exists():
        raise StateError(
            f"{folder.path} is the folder that a platform shares with its users, who are kept in its state "
            "folder; name that with --state"
        )
    return folder


def log_access(folder: StateFolder, operation: str, about: str) -> None:
    """Log what the owner did by a command about users."""
    from swell.api.user_list import OWNER, AccessEntry, UserList

    role = OWNER.role.word
    entry = AccessEntry(
        at_s=time.time(), user=OWNER.name, role=role, operation=operation, about=about, status=200
    )
    UserList(folder.path).log_access(entry)


def _role(text: str) -> Role:
    words = {role.word: role for role in Role}
    if text not in words:
        raise typer.BadParameter(f"--role: {text!r} is not known; choose from {', '.join(words)}")
    return words[text]


@tenants_app.callback(invoke_without_command=True)
def list_tenants(context: typer.Context, state: State = None, json: Json = False) -> None:
    """List the tenants that have limits or have used devices lately, and what they use."""
    if has_subcommand(context, state, json):
        return
    from swell.api.user_list import NO_LIMITS, UserList

    folder = own_folder(state)
    limited = UserList(folder.path).tenants()
    held, used = _in_use(folder, limited)
    tenants = {**limited, **{name: NO_LIMITS for name in used if name not in limited}}
    told = [(name, limits, held.get(name), used.get(name)) for name, limits in tenants.items()]
    if json:
        print_json({one[0]: _as_told(*one[1:]) for one in told})
    elif told:
        print_table(HEADINGS, [_row(*one) for one in told])
    else:
        print("no tenant has limits; give some with `swell admin tenants limit TENANT --open-jobs N`")


def _in_use(
    folder: StateFolder, tenants: Mapping[str, TenantLimits]
) -> tuple[Mapping[str, Held], Mapping[str, AccountShare]]:
    """Devices held and allowed, by tenant that has a quota and kind, and what accounts have used.

    Both are empty if no platform answers.
    """
    from swell.api.client import connect_as_owner
    from swell.api.errors import ApiError, NoPlatform
    from swell.model.job import Phase
    from swell.model.quota import devices_of_tenants

    quotas = {name: quota for name, limits in tenants.items() if (quota := limits.quota) is not None}
    try:
        with connect_as_owner(folder.path) as client:
            cluster = client.cluster()
            open_jobs = client.jobs([phase for phase in Phase if phase.holds_devices])
    except (ApiError, NoPlatform):
        return {}, {}
    found: dict[str, dict[str, TenantDevices]] = {}
    for (tenant, kind), devices in devices_of_tenants(quotas, cluster.nodes, open_jobs).items():
        found.setdefault(tenant, {})[kind] = devices
    return found, {account.name: account for account in cluster.accounts}


def _as_told(limits: TenantLimits, held: Held | None, used: AccountShare | None) -> dict[str, object]:
    told = msgspec.to_builtins(limits)
    if used is not None:
        told |= {"used_device_h": used.used_device_h, "share_device_h": used.share_device_h}
    if held is not None:
        told["held"] = {kind: {"devices": found.num_held, "most": found.most} for kind, found in held.items()}
    return dict(told)


def _row(name: str, limits: TenantLimits, held: Held | None, used: AccountShare | None) -> tuple[str, ...]:
    from swell.model.quota import told_share, told_tenant

    return (
        told_tenant(name),
        _shown(limits.open_jobs),
        _shown(limits.devices),
        _shown(limits.share, told_share),
        f"{limits.weight:g}",
        _shown_held(held),
        "-" if used is None else used.told,
    )


def _shown_held(held: Held | None) -> str:
    if not held:
        return "-"
    told = {kind: f"{found.num_held} of {found.most}" for kind, found in held.items()}
    return ", ".join(told.values() if len(told) == 1 else (f"{kind} {text}" for kind, text in told.items()))


def _shown(limit: T | None, told: Callable[[T], str] = str) -> str:
    return "any" if limit is None else told(limit)


@tenants_app.command()
@described("""
tenant (argument): TENANT
    As jobs name it.
open_jobs: N
    Most jobs that have not ended; any: no limit. Default: as before.
devices: N
    Devices that its jobs claim together, of each kind: more only while no other job needs them; any: no
    limit. Default: as before.
share: PERCENTAGE
    The same as a share of the devices that are there, as 25%; any: no limit. Default: as before.
weight: NUMBER
    With 2 the tenant may use twice as much as one with 1 before others come first. Default: as before.
""")
def limit(
    tenant: str,
    open_jobs: str | None = None,
    devices: str | None = None,
    share: str | None = None,
    weight: str | None = None,
    state: State = None,
) -> None:
    """Limit what a tenant submits, from the next submission on, and how many devices its jobs hold.

    Jobs that it has go on. A quota of devices holds within seconds; promised deadlines come first.
    """
    from swell.api.fields import formed
    from swell.api.user_list import TenantLimits, UserList, parse_devices, parse_share, parse_weight
    from swell.model.quota import told_share

    if (open_jobs, devices, share, weight) == (None, None, None, None):
        raise typer.BadParameter("give --open-jobs, --devices, --share or --weight")
    folder, name = own_folder(state), formed("tenant", tenant)
    users = UserList(folder.path)
    before = users.limits_of(name)
    limits = TenantLimits(
        open_jobs=_parsed("open-jobs", open_jobs, before.open_jobs, _number),
        devices=_parsed("devices", devices, before.devices, parse_devices),
        share=_parsed("share", share, before.share, parse_share),
        weight=_parsed("weight", weight, before.weight, parse_weight) or 1.0,
    )
    if limits.quota is not None and limits.quota != before.quota:
        _check_kept(folder, name, limits.quota)
    folder.create()
    users.limit(name, limits)
    log_access(folder, "tenants limit", name)
    print(
        f"tenant {name}: open jobs: {_shown(limits.open_jobs)}, devices: {_shown(limits.devices)}, "
        f"share of devices: {_shown(limits.share, told_share)}, weight: {limits.weight:g}"
    )


def _check_kept(folder: StateFolder, name: str, quota: Quota) -> None:
    """Refuses what the running platform would not keep; one that is down refuses it when it starts."""
    from swell.api.client import connect_as_owner
    from swell.api.errors import NoPlatform
    from swell.api.user_list import refuse_unkept

    try:
        with connect_as_owner(folder.path) as client:
            policy = client.cluster().policy
    except NoPlatform:
        return
    refuse_unkept([policy], {name: quota}, "`swell down`, then `swell up --policy NAME`")


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) > MOST:
        raise ValueError(f"{text!r} is not a number from 0 to {MOST}, nor `any`")
    return int(text)


def _parsed(option: str, text: str | None, before: T | None, parse: Callable[[str], T]) -> T | None:
    if text is None:
        return before
    if text == "any":
        return None
    return parsed(option, parse, text)
