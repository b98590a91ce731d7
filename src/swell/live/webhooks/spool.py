"""Messages that are yet to be delivered, on disk, and how far the platform's turns were looked through."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from swell.live.webhooks.message import WebhookMessage
from swell.wire.whole_files import write_whole

#: Messages that wait at most: of one address, and in all.
MOST_OF_ADDRESS = 1000
MOST = 10_000

log = logging.getLogger("swell.webhooks")


class WebhookProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Written after the messages of the turns that it tells of."""

    seq: int  #: of the last batch whose turn was looked through
    told: dict[str, tuple[str, ...]] = {}  #: open job -> what was told of it and is not told again


class Spool:
    """A folder, which one platform uses. Files that cannot be read are left out, and told in the log."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._progress = folder / "pending", folder / "progress.json"

    def put(self, message: WebhookMessage) -> None:
        """It is on disk when this returns. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._path(message.id), msgspec.json.encode(message), is_synced=True)

    def remove(self, message: WebhookMessage) -> None:
        """It was delivered, or is given up. Raises OSError."""
        self._path(message.id).unlink(missing_ok=True)

    def messages(self) -> list[WebhookMessage]:
        """All that wait, oldest first."""
        found = []
        for path in self._folder.glob("msg_*.json"):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=WebhookMessage))
            except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
                log.warning("%s is no message, and is left out: %s", path, error)
        return sorted(found, key=lambda message: (message.created_s, message.id))

    def write_progress(self, progress: WebhookProgress) -> None:
        """Raises OSError."""
        self._progress.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._progress, msgspec.json.encode(progress))

    def read_progress(self) -> WebhookProgress | None:
        """None: no turn was looked through yet, or that is not known."""
        try:
            return msgspec.json.decode(self._progress.read_bytes(), type=WebhookProgress)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.warning("%s cannot be read, what ended before now is not told: %s", self._progress, error)
            return None

    def _path(self, message_id: str) -> Path:
        return self._folder / f"{message_id}.json"
