"""What goes wrong: why promises break, how long a failed job waits, how often unsaved training is lost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from swell.model.cluster import Cluster
from swell.model.failure import failure_sentence
from swell.model.quantities import span
from swell.model.retry import retry_pause_s
from swell.model.view import BorrowedNodes

OfJob = Literal["launch", "lost", "stopped", "resize", "suspend", "barred", "slow"]
OfPlatform = Literal["node", "leaving", "quotas", "clock", "down"]

#: What may befall a job, after the word for it.
OF_JOBS: dict[OfJob, str] = {
    "launch": "could not be started",
    "lost": "lost workers",
    "stopped": "was stopped, because it held devices that a promise lacked",
    "resize": "could not be resized",
    "suspend": "could not be saved",
    "barred": "does not run on every node",
    "slow": "is slower than was believed",
}
#: And the platform, which every promise of that time may suffer from; `{}` is a node.
OF_PLATFORM: dict[OfPlatform, str] = {
    "node": "node {} was lost",
    "leaving": "node {} was to be left",
    "quotas": "quotas were set",
    "clock": "the machine's clock was set forward",
    "down": "the platform was down",
}
#: A job whose gang was lost so often in a row without finishing a step has failed; so has one whose trial
#: run was lost so often in a row, and one that its memory limit ended so often without a newer checkpoint.
MAX_SETBACKS = 10
#: Wait so long after the first failure, twice as long after each further one.
FIRST_BACK_OFF_S = 1.0
LONGEST_BACK_OFF_S = 60.0
#: For `str.translate`.
NO_DIGITS = dict.fromkeys(map(ord, "0123456789"))


class LatestSetback(msgspec.Struct, frozen=True):
    """The latest one of its kind."""

    at_s: float
    of: str = ""  #: a job or a node


class Promise(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One that was made: what was believed then, and what its job has met with since."""

    made_s: float
    margin_share: float  #: by which steps might take longer at any size that the job may have
    slowdown_share: float = 0.0  #: by which they had already turned out to
    setbacks: dict[OfJob, int] = {}  #: how often
    changes_s: float = 0.0  #: that starts and resizes have taken since

    def note(self, kind: OfJob) -> None:
        self.setbacks[kind] = self.setbacks.get(kind, 0) + 1

    def told(self) -> list[str]:
        """The job's setbacks as clauses, without `slow`: the caller tells how slow the job is."""
        return [f"it {OF_JOBS[kind]}{_times(num)}" for kind, num in self.setbacks.items() if kind != "slow"]


class Setbacks(msgspec.Struct, omit_defaults=True):
    """Latest setback of each kind on a whole platform: of its jobs, and of the platform itself."""

    of_jobs: dict[OfJob, LatestSetback] = {}
    of_platform: dict[OfPlatform, LatestSetback] = {}

    def told_of_platform(self, since_s: float) -> list[str]:
        latest = self.of_platform.items()
        return [OF_PLATFORM[kind].format(one.of) for kind, one in latest if one.at_s >= since_s]

    def told_of_others(self, job_id: str, since_s: float) -> list[str]:
        latest = [(kind, one) for kind, one in self.of_jobs.items() if one.at_s >= since_s]
        return [f"job {one.of} {OF_JOBS[kind]}" for kind, one in latest if one.of != job_id]


def _times(num: int) -> str:
    return f" {num} times" if num > 1 else ""


class Backoff(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The failures of one job, each kind counted in a row, and until when nothing is tried again."""

    until_s: float = 0.0
    num_setbacks: int = 0  #: losses of the gang without a finished step, or of the trial run
    num_races: int = 0  #: trial runs, in a row, that no host could begin
    num_failed_changes: int = 0  #: resizes and suspends that the gang could not do
    num_over_memory: int = 0  #: losses by the memory limit since a later step than `saved_steps` was saved
    saved_steps: int = 0  #: as far as was known at such a loss
    share_until_s: float = 0.0  #: its CPU share is not changed; all else may be
    num_refused_shares: int = 0  #: in a row
    cause: str = ""  #: of the latest failure, until the job goes on

    @property
    def is_last_loss(self) -> bool:
        """Whether the job fails by one more loss of its gang, or of its trial run."""
        return self.num_setbacks + 1 >= MAX_SETBACKS

    def note_loss(self, now_s: float) -> None:
        """The gang was lost, or the trial run."""
        self.wait(now_s, self.num_setbacks)
        self.num_setbacks += 1

    def wait(self, now_s: float, num_before: int) -> None:
        """Nothing is tried for a while, the longer the more often it failed before this."""
        self.until_s = now_s + _delay_s(num_before)

    @property
    def num_trials(self) -> int:
        """Trial runs that came to nothing, in a row: the number of the next one."""
        return self.num_setbacks + self.num_races

    def note_race(self, now_s: float) -> None:
        """The trial run could not begin on any host for now. That ends no job, however often."""
        self.until_s = now_s + _delay_s(self.num_races)
        self.num_races += 1

    def note_loss_by_memory(self, now_s: float, saved_steps: int) -> None:
        """The gang was lost to the job's memory limit. Steps that the next one has to do again count nothing.

        Args:
            saved_steps: that a checkpoint has, or any other sign of how far the job is.
        """
        self.note_loss(now_s)
        if saved_steps > self.saved_steps:
            self.num_over_memory, self.saved_steps = 0, saved_steps
        self.until_s = max(self.until_s, now_s + _delay_s(self.num_over_memory))
        self.num_over_memory += 1

    def note_failed_change(self, now_s: float, message: str) -> str:
        """The gang trains on, but could not be changed; that it makes steps does not mean that it can be now.

        Returns the cause as its story is to tell it: in full only where that is news.
        """
        cause = self._note_cause(self.num_failed_changes, message)
        self.until_s = now_s + _delay_s(self.num_failed_changes)
        self.num_failed_changes += 1
        return cause

    def note_refused_share(self, now_s: float, message: str) -> str:
        """Its machine would not give it another CPU share, which is no obstacle to any other change.

        Returns the cause as `note_failed_change` does.
        """
        cause = self._note_cause(self.num_refused_shares, message)
        self.share_until_s = now_s + _delay_s(self.num_refused_shares)
        self.num_refused_shares += 1
        return cause

    def _note_cause(self, num_before: int, message: str) -> str:
        before, self.cause = self.cause, message
        # The step at which it happened may be another.
        is_known = num_before > 0 and before.translate(NO_DIGITS) == message.translate(NO_DIGITS)
        return "for the same reason as before" if is_known else failure_sentence(message)

    def told(self, now_s: float, until: str = "after a failure before it is tried again") -> str:
        """Text for a job that waits without a gang: for how long, and why. `until`: for what."""
        return f"waits {span(max(self.until_s - now_s, 1.0))} {until}{self._told_cause}"

    def told_of_trial(self) -> str:
        """Text for a job in its trial run; if it is a repetition, why the run before came to nothing."""
        if self.cause:
            return f"is in its trial run again; the one before came to nothing{self._told_cause}"
        return "is in its trial run, which measures its speed"

    @property
    def _told_cause(self) -> str:
        return f": {failure_sentence(self.cause)}" if self.cause else ""

    def end_wait(self) -> None:
        """What is asked for now need not wait for an earlier failure."""
        self.until_s, self.num_failed_changes = 0.0, 0

    def go_on(self) -> None:
        """What had gone wrong before is over: it needs no explanation any more."""
        self.cause = ""


def _delay_s(num_failures: int) -> float:
    """Until the next try, after so many failures in a row before this one."""
    return retry_pause_s(num_failures + 1, FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S)


#: Assumed of owned nodes, with the weight of one loss: a machine fails, or is started again, once a month.
#: In published records of large clusters a node fails once in months or years; single machines are in
#: less careful hands.
OWNED_NODE_S = 30 * 86_400.0
#: Assumed of borrowed nodes, likewise: an idle node is taken back after half an hour.
BORROWED_NODE_S = 1_800.0


class NodeLossCounts(msgspec.Struct, kw_only=True):
    """Time that nodes were there, and how many of them were lost, or taken back."""

    num_there: int = 0  #: now
    num_lost: int = 0
    node_s: float = 0.0  #: at `as_of_s`, of all nodes that there ever were
    as_of_s: float = 0.0

    @classmethod
    def together(cls, every: Iterable[NodeLossCounts], now_s: float) -> NodeLossCounts:
        """Return the counts of several groups of nodes as one, at this moment."""
        whole = cls(as_of_s=now_s)
        for one in every:
            whole.num_there += one.num_there
            whole.num_lost += one.num_lost
            whole.node_s += one.total_s(now_s)
        return whole

    def note(self, num_there: int, now_s: float) -> None:
        """So many nodes are there from now on."""
        self.node_s = self.total_s(now_s)
        self.as_of_s = max(now_s, self.as_of_s)
        self.num_there = num_there

    def total_s(self, now_s: float) -> float:
        """Time that nodes were there until now, in seconds of a node."""
        return self.node_s + self.num_there * max(0.0, now_s - self.as_of_s)

    def per_node_s(self, now_s: float, assumed_s: float = 0.0) -> float:
        """Losses for each second that a node is there; 0 before there was a node.

        Args:
            assumed_s: time with one loss that counts as if it had been seen.
        """
        seen_s = assumed_s + self.total_s(now_s)
        num_lost = self.num_lost + (1 if assumed_s else 0)
        return num_lost / seen_s if seen_s > 0.0 else 0.0

    def view(self, now_s: float) -> BorrowedNodes | None:
        """Return what users are shown of borrowed nodes; None: there never was one."""
        if not self.num_there and not self.num_lost:
            return None
        return BorrowedNodes(
            num_there=self.num_there, num_given_back=self.num_lost, lent_s=self.total_s(now_s)
        )


class LossRates(msgspec.Struct, kw_only=True):
    """How often training that is not saved is lost: what is assumed, corrected by what was seen here.

    A gang goes on while one worker is left, for each has the whole state. So a gang on one node loses its
    training with that node, and one on several only if all are lost together.
    """

    #: Those were not told to leave before; gangs on owned nodes that lost workers alone count too.
    owned: NodeLossCounts = msgspec.field(default_factory=NodeLossCounts)
    borrowed: NodeLossCounts = msgspec.field(default_factory=NodeLossCounts)
    num_struck: int = 0  #: gangs on several nodes that have lost workers
    num_whole: int = 0  #: of them, those that have lost all

    def note_nodes(self, before: Cluster, after: Cluster, now_s: float) -> None:
        """The nodes are other ones from now on."""
        self.owned.note(len(after.nodes) - len(after.borrowed), now_s)
        self.borrowed.note(len(after.borrowed), now_s)
        self.borrowed.num_lost += len(before.borrowed - after.borrowed)

    def note_gang(self, num_nodes: int, is_whole: bool) -> None:
        """A gang on so many nodes has lost workers, all or some."""
        if num_nodes > 1:
            self.num_struck += 1
            self.num_whole += is_whole

    def mean_time_to_loss_s(self, cluster: Cluster, devices: tuple[str, ...], now_s: float) -> float:
        """Expected time until a gang on these devices loses training that is not saved.

        A gang on n nodes meets a loss n times as often as one on a single node.
        """
        nodes = set(map(cluster.node_of.get, devices)) - {None}
        num_borrowed = len(nodes & cluster.borrowed)
        per_s = num_borrowed * self.borrowed.per_node_s(now_s, BORROWED_NODE_S)
        per_s += (len(nodes) - num_borrowed) * self.owned.per_node_s(now_s, OWNED_NODE_S)
        if len(nodes) > 1:  # share of losses that take all; 1 before the first
            per_s *= (1 + self.num_whole) / (1 + self.num_struck)
        return 1.0 / per_s if per_s > 0.0 else OWNED_NODE_S
