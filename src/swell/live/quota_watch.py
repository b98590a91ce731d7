"""Notices that the operator has changed quotas of tenants."""

from __future__ import annotations

import logging
from collections.abc import Callable

from swell.model.event import QuotasSet
from swell.model.quota import Quotas

#: Topic of the platform's warning that quotas are not as they were set.
ABOUT_QUOTAS = "quotas"

log = logging.getLogger("swell.platform")


class UnknownQuotas(RuntimeError):
    """The quotas that were set cannot be read or kept; the text says why, and names the remedy."""


class QuotaWatch:
    """Compares the quotas that were set with those the head knows. `look` belongs to the head's thread.

    Args:
        read: those that were set, as they are now; raises UnknownQuotas.
    """

    def __init__(self, read: Callable[[], Quotas]) -> None:
        self._read = read
        self.why = ""  #: why the head is told of none; empty: what was set holds

    def look(self, known: Quotas, now_s: float) -> QuotasSet | None:
        """What the head is to hear, if that is not what it knows."""
        try:
            quotas = self._read()
        except UnknownQuotas as error:
            if str(error) != self.why:
                log.warning("%s", error)
            self.why = str(error)
            return None
        self.why = ""
        return None if quotas == known else QuotasSet(at_s=now_s, quotas=dict(quotas))
