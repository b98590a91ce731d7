"""The state of a job's request for a promise: what was asked, what is agreed upon, what was refused."""

from __future__ import annotations

import msgspec

from swell.core.setbacks import Promise
from swell.model.job import JobClass


class AskedDeadline(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A deadline that the policy has yet to decide on, in place of the one in the job's specification.

    Times are seconds since 1970, as there.
    """

    deadline_s: float
    accept_until_s: float | None = None  #: a counter-offer that is no later is taken
    #: It is the counter-offer to the job's own request; else its owner asks for a change, and if that is
    #: refused, the job stays as it was.
    is_offer: bool = False


class Admission(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What became of the job's wish for a promise, and what is agreed upon since it was submitted."""

    job_class: JobClass | None = None  #: None: that of the specification
    deadline_s: float | None = None  #: seconds since 1970; None: that of the specification
    is_decided: bool = False
    is_promised: bool = False
    promise: Promise | None = None  #: as it was made; None: there is none
    counter_offer_s: float | None = None  #: the earliest deadline that could have been promised
    is_unpromised: bool = False  #: its deadline could not be promised, and is tried all the same
    refusal: str = ""  #: why its owner's latest request was refused, of a job that goes on
    asked: AskedDeadline | None = None
