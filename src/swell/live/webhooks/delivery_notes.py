"""What became of deliveries that did not succeed at once, in the folder of the job that they told of."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from swell.live.webhooks.message import WebhookMessage
from swell.model.view import Story
from swell.model.webhook import place_of

FILE = "deliveries.jsonl"
#: Of the story lines.
CODE = "webhook"

log = logging.getLogger("swell.webhooks")


class DeliveryNotes:
    """A line for each, which `swell explain` shows. They go with the folder when the job is pruned."""

    def __init__(self, jobs_dir: Path) -> None:
        self._jobs_dir = jobs_dir

    def note(self, message: WebhookMessage, what: str, at_s: float) -> None:
        """
        Args:
            what: became of it, in words that follow its event and address.
            at_s: seconds since 1970.
        """
        story = Story(at_s=at_s, code=CODE, text=f"{message.event}, to {_shown(message)}: {what}")
        path = self._path(message.job_id)
        try:
            with open(path, "ab", opener=_private) as file:
                file.write(msgspec.json.encode(story) + b"\n")
        except FileNotFoundError:
            log.info("job %s has no folder any more, and no note of a delivery", message.job_id)
        except OSError as error:
            log.warning("cannot write %s (%s); `swell explain` will miss it", path, error.strerror)

    def of(self, job_id: str) -> list[Story]:
        """Oldest first, with calendar times. A line that was cut off is left out."""
        try:
            lines = self._path(job_id).read_bytes().splitlines()
        except OSError:
            return []
        return [story for line in lines if (story := _read(line)) is not None]

    def _path(self, job_id: str) -> Path:
        return self._jobs_dir / job_id / FILE


def _private(path: str, flags: int) -> int:
    """An opener of files that their owner alone can read. Raises OSError."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _shown(message: WebhookMessage) -> str:
    """An address that the platform's operator has named is no concern of the job's owner."""
    return place_of(message.url) if message.is_of_job else "an address of webhooks.yaml"


def _read(line: bytes) -> Story | None:
    try:
        return msgspec.json.decode(line, type=Story)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
