"""Changes of a gang's CPU share: many in a row are one line of its job's story."""

from __future__ import annotations

import msgspec

from swell.model.lengths import span
from swell.model.target import Configuration
from swell.model.view import Story


class ShareChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Since something else was told of the job. Times are head time; shares are in (0, 1]."""

    since_s: float  #: the first change
    until_s: float  #: the latest one
    num: int
    before: float  #: share until the first
    latest: float
    least: float  #: after any of them, as is the next
    most: float

    @classmethod
    def begin(cls, at_s: float, before: float, now: Configuration) -> ShareChanges:
        """The first one."""
        share = now.weight
        return cls(
            since_s=at_s,
            until_s=at_s,
            num=1,
            before=before,
            latest=share,
            least=share,
            most=share,
        )

    def then(self, at_s: float, share: float) -> ShareChanges:
        """These and another one."""
        return msgspec.structs.replace(
            self,
            until_s=at_s,
            num=self.num + 1,
            latest=share,
            least=min(self.least, share),
            most=max(self.most, share),
        )

    @property
    def story(self) -> Story:
        """The line, at the time of the latest change."""
        text = f"its CPU share went from {_told(self.before)} to {_told(self.latest)}"
        if self.num > 1:
            text += f" in {self.num} changes within {span(self.until_s - self.since_s)}"
            text += f", between {_told(self.least)} and {_told(self.most)}"
        return Story(at_s=self.until_s, code="share", text=text)


def _told(share: float) -> str:
    return f"{100 * share:.3g} %"
