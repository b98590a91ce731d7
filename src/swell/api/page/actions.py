"""What the page of a job offers to do with it: each a button, with a dialog that asks before it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from swell.api.resubmission import is_undone
from swell.api.times import with_offset
from swell.api.user_list import ApiUser
from swell.api.verbs import Verb, Verbs
from swell.api.words import offer
from swell.model.job import MOST_PRIORITY, Phase
from swell.model.view import JobView


class Field(NamedTuple):
    """What a dialog asks for."""

    name: str  #: in the body of the request, and after `--` on the command line
    label: str
    hint: str
    kind: str = "text"
    is_needed: bool = False


DEADLINE_HINT = "such as 18:00, 2h, tomorrow 08:00, 2030-01-31T18:00:00"
NEW_DEADLINE = Field("deadline", "New deadline (empty: as submitted)", DEADLINE_HINT)


class Action(NamedTuple):
    """One verb of the API, for jobs with which it can be done."""

    name: str
    verb: Verb
    label: str  #: of the button
    title: str
    text: str
    does: str  #: on the button of the dialog
    when: Callable[[JobView], bool]
    field: Field | None = None
    value: Callable[[JobView], str] = lambda view: ""  #: with which the field begins
    names: Callable[[JobView], tuple[str, ...]] = lambda view: ()  #: sent as `names`
    is_danger: bool = False
    command: str = ""  #: of the command line, where it is not called as the action


def _verb(name: str) -> Verb:
    found: Verb = getattr(Verbs, name).verb
    return found


def _offered(view: JobView) -> str:
    """The deadline that could be promised, as it means the same in the zone of the browser."""
    return str(with_offset(offer(view), 0.0))


def _is_open(view: JobView) -> bool:
    return not view.phase.is_end


ACTIONS = (
    Action(
        "hold",
        _verb("hold"),
        "Hold…",
        "Hold this job?",
        "It is saved and gives up its devices until it is resumed. A promise of its deadline is withdrawn.",
        "Hold the job",
        lambda view: _is_open(view) and not view.is_held,
    ),
    Action(
        "resume",
        _verb("resume"),
        "Resume…",
        "Resume this job?",
        "It goes on from where it was saved. A promise that was withdrawn is asked for again.",
        "Resume the job",
        lambda view: _is_open(view) and view.is_held,
    ),
    Action(
        "accept",
        _verb("accept_differences"),
        "Accept differences…",
        "Accept what its trial run has found?",
        "The differences that are listed above no longer limit it to its smallest number of workers: "
        "what it learns may depend on its size.",
        "Accept them",
        lambda view: _is_open(view) and bool(view.held_by),
        names=lambda view: view.held_by,
        command="accept-differences",
    ),
    Action(
        "prioritize",
        _verb("change_priority"),
        "Prioritize…",
        "Change its priority?",
        "Among jobs of its class those with the highest priority get devices first. Promises are kept.",
        "Change it",
        _is_open,
        Field(
            "priority",
            "Priority",
            f"from {-MOST_PRIORITY} to {MOST_PRIORITY}; 0 is the usual one",
            "number",
            True,
        ),
        value=lambda view: str(view.priority),
    ),
    Action(
        "promise",
        _verb("promise"),
        "Change deadline…",
        "Change its deadline?",
        "If the deadline cannot be promised, the job keeps what it has.",
        "Ask for it",
        _is_open,
        Field("deadline", "Deadline", DEADLINE_HINT, is_needed=True),
        value=_offered,
    ),
    Action(
        "cancel",
        _verb("cancel"),
        "Cancel…",
        "Cancel this job?",
        "Its training ends. Its checkpoints and logs stay.",
        "Cancel the job",
        _is_open,
        is_danger=True,
    ),
    Action(
        "continue",
        _verb("continue_job"),
        "Continue…",
        "Continue this job?",
        "It is submitted again, as a new job that goes on from the last checkpoint.",
        "Continue",
        lambda view: is_undone(view) and view.phase is not Phase.REJECTED,
        NEW_DEADLINE,
    ),
    Action(
        "retry",
        _verb("retry"),
        "Retry…",
        "Retry this job?",
        "It is submitted again, as a new job that begins at step 0.",
        "Retry",
        lambda view: is_undone(view) and not offer(view),
        NEW_DEADLINE,
    ),
    Action(
        "take-offer",
        _verb("retry"),
        "Submit again with the offer…",
        "Submit it again with the deadline that was offered?",
        "It is a new job, and is promised this deadline if the devices are still free for it.",
        "Submit again",
        lambda view: is_undone(view) and bool(offer(view)),
        NEW_DEADLINE,
        value=_offered,
        command="retry",
    ),
)


def allowed(view: JobView, caller: ApiUser) -> tuple[Action, ...]:
    """The actions that are the caller's to take; whether they can be taken now, `when` says."""
    if not caller.may_change_jobs_of(view.tenant):
        return ()
    return tuple(action for action in ACTIONS if caller.role >= action.verb.role)
