"""What people are told of a job. The head decides nothing by it."""

from __future__ import annotations

import msgspec

#: Topics of warnings about the processes of a gang, which the next gang's need not share.
OF_GANG = ("checkpoint", "output")
#: Topics that a job has warnings about at once; of others nothing is kept.
MOST_TOPICS = 20


class JobStatus(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Times are head time."""

    started_s: float | None = None
    start_s: float | None = None  #: length of the latest start
    finished_s: float | None = None
    estimated_finish_s: float | None = None
    begins_s: float | None = None  #: when the gang has started, as the estimate expects of one that has not
    pids: tuple[int, ...] = ()  #: of all workers that it has had
    live_pids: tuple[int, ...] = ()
    step_s: float | None = None
    batch: int = 0  #: samples of the steps that were told of last; 0: none were
    noise_scale: float | None = None  #: of its gradients, in samples; None: nothing was measured
    loss: float | None = None
    metrics: dict[str, float] = {}
    reason_code: str = "submitted"
    reason: str = "has just been submitted"
    message: str = ""
    warnings: dict[str, str] = {}  #: topic -> what its owner should know for as long as it is so

    def note_pids(self, pids: tuple[int, ...]) -> None:
        """These are its workers now."""
        self.live_pids = pids
        self.pids += tuple(pid for pid in pids if pid not in self.pids)

    def warn(self, about: str, message: str) -> bool:
        """Set the warning of a topic, or end it with an empty message.

        Returns:
            False: it stands so already, or there are too many topics.
        """
        if self.warnings.get(about, "") == message:
            return False
        if about not in self.warnings and len(self.warnings) >= MOST_TOPICS:
            return False
        kept = {topic: text for topic, text in self.warnings.items() if topic != about}
        self.warnings = {**kept, about: message} if message else kept
        return True

    def end_warnings_of_gang(self) -> None:
        """Its processes are new: they warn again if the cause lasts."""
        self.warnings = {topic: text for topic, text in self.warnings.items() if topic not in OF_GANG}
