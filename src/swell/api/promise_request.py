"""Another deadline for a job that is open, as users write it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from swell.api import fields
from swell.api.submission import Number, declared
from swell.model.job import JobClass


class PromiseRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A deadline that is to be promised, earlier or later than the one before, or the job's first."""

    deadline: Annotated[str | Number, declared()["deadline"].meta]
    accept_until: Annotated[str | Number | None, declared()["accept_until"].meta] = None

    def times(self, now_s: float) -> tuple[float, float | None]:
        """The deadline, and until when a counter-offer is taken. Raises InvalidField."""
        deadline_s = fields.deadline(self.deadline, now_s) or now_s
        return deadline_s, fields.accept_until(self.accept_until, JobClass.STRICT, deadline_s, now_s)
