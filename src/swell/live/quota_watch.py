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
    """The quotas that were set cannot be read or kept; the text says why, and names the remedy.

    Args:
        instead: those that hold; None: as the head knows them.
    """

    def __init__(self, why: str, instead: Quotas | None = None) -> None:
        super().__init__(why)
        self.instead = instead


class QuotaWatch:
    """Compares the quotas that were set with those the head knows. `look` belongs to the head's thread.

    Args:
        read: those that were set, as they are now; raises UnknownQuotas.
    """

    def __init__(self, read: Callable[[], Quotas]) -> None:
        self._read = read
        self.why = ""  #: why what was set does not hold; empty: it does

    def look(self, known: Quotas, now_s: float) -> QuotasSet | None:
        """What the head is to hear, if that is not what it knows."""
        why = ""
        try:
            quotas = self._read()
        except UnknownQuotas as error:
            why, quotas = str(error), known if error.instead is None else error.instead
        if why and why != self.why:
            log.warning("%s", why)
        self.why = why
        return None if quotas == known else QuotasSet(at_s=now_s, quotas=dict(quotas))
