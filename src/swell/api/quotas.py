"""Quotas of tenants: as people write them, as the head is told of them, and who cannot keep them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from swell.api.user_list import UserList, UserListError
from swell.live.watches import UnknownQuotas
from swell.model.errors import InvalidInput
from swell.model.quota import Quota, Quotas
from swell.policies.registry import why_no_quotas

#: More devices than this would be no limit.
MOST_DEVICES = 100_000
ANY = "any"
#: The remedy on a platform whose policy cannot keep quotas, besides another policy.
HOW_TO_END = "take each quota away: `swell admin tenants limit TENANT --devices any --share any`"

_PERCENTAGE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%", re.ASCII)


class InvalidQuota(InvalidInput):
    """A text is no quota; it names the rule."""


def parse_devices(text: str) -> int:
    """Raises InvalidQuota."""
    is_number = text.isdecimal() and text.isascii() and len(text) <= len(str(MOST_DEVICES))
    if not is_number or not 1 <= int(text) <= MOST_DEVICES:
        raise InvalidQuota(f"{text!r} is not a number from 1 to {MOST_DEVICES}, nor `{ANY}`")
    return int(text)


def parse_share(text: str) -> float:
    """A fraction in (0, 1]. Raises InvalidQuota."""
    match = _PERCENTAGE.fullmatch(text)
    if match is None or not 0.0 < float(match[1]) <= 100.0:
        raise InvalidQuota(f"{text!r} is not a percentage above 0% and up to 100%, as 25%, nor `{ANY}`")
    return float(match[1]) / 100.0


def parse_quotas(texts: Iterable[str]) -> dict[str, Quota | None]:
    """TENANT=DEVICES, TENANT=PERCENTAGE or TENANT=any, each once at most for a tenant; None: any number.

    Raises InvalidQuota.
    """
    found: dict[str, Quota | None] = {}
    for text in texts:
        tenant, equals, most = text.rpartition("=")
        if not equals:
            raise InvalidQuota(f"--quota {text!r}: write TENANT=DEVICES or TENANT=SHARE, as ana=8 or ana=25%")
        try:
            quota = _parsed(most)
        except InvalidQuota as error:
            raise InvalidQuota(f"--quota {text!r}: {error}") from None
        found[tenant] = _both(found[tenant], quota, text) if tenant in found else quota
    return found


def _parsed(text: str) -> Quota | None:
    if text == ANY:
        return None
    return Quota(share=parse_share(text)) if "%" in text else Quota(devices=parse_devices(text))


def _both(before: Quota | None, quota: Quota | None, text: str) -> Quota:
    """A number of devices and a share."""
    if before is None or quota is None or (before.devices is None) == (quota.devices is None):
        raise InvalidQuota(
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


def set_quotas(users: UserList, policy: str) -> Callable[[], Quotas]:
    """What `QuotaWatch` reads on a platform with this policy."""

    why_none = why_no_quotas(policy)

    def read() -> Quotas:
        try:
            quotas = users.quotas()
        except UserListError as error:
            if why_none:
                raise UnknownQuotas(f"no quota of a tenant applies: {error}", {}) from error
            raise UnknownQuotas(f"quotas of tenants stay as they were: {error}") from error
        if quotas and why_none:
            raise UnknownQuotas(f"no quota of a tenant applies: {why_none}, or {HOW_TO_END}", {})
        return quotas

    return read
