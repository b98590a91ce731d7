"""Copies of a platform's state, and the files that they carry beside the journal.

They carry what people have written or chosen. Webhooks that wait to be sent are in the journal: put back
later, they are sent again, under the ids that they had.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from swell.api.user_list import decode_users
from swell.api.webhook_file import decode_webhooks
from swell.executors.remote.certificate import CERTIFICATE_FILE
from swell.executors.remote.token_list import TOKENS_FILE, parse_tokens
from swell.live.webhooks import check_secret
from swell.platform_options import PlatformOptions
from swell.store import backup
from swell.store.backup import BackedUp, Restored
from swell.store.copied_files import CarriedFile
from swell.store.folder import StateFolder
from swell.store.lock import StateLock


def _check_options(content: bytes) -> None:
    """Raises ValueError: these are no options of a platform."""
    msgspec.json.decode(content, type=PlatformOptions)


#: What is wrong with the content of each file, by its name: see `CarriedFile`.
CHECKS: dict[str, Callable[[bytes], object]] = {
    "users.json": decode_users,
    "options.json": _check_options,
    "webhooks.yaml": decode_webhooks,
    "webhook-secret": check_secret,
    "metrics-token": bytes.decode,
    CERTIFICATE_FILE: bytes.decode,
    TOKENS_FILE: parse_tokens,
}


def back_up(folder: StateFolder, file: Path) -> BackedUp:
    """See `store.backup.back_up`."""
    return backup.back_up(folder, file, _carried(folder))


def restore(folder: StateFolder, file: Path) -> Restored:
    """See `store.backup.restore`. Nothing else works in the folder meanwhile. Raises StateError."""
    with StateLock(folder.lock):
        return backup.restore(folder, file, _carried(folder))


def secrets_of(copy: BackedUp, folder: StateFolder) -> str:
    """What others must not read in the copy, for people. Jobs are in every journal."""
    found = ["values of --env and addresses of webhooks"]
    if folder.webhook_secret.name in copy.files:
        found.append("what webhooks are signed with")
    if CERTIFICATE_FILE in copy.files:
        found.append("the key by which hosts trust this head")
    return ", and ".join(found)


def _carried(folder: StateFolder) -> tuple[CarriedFile, ...]:
    return tuple(CarriedFile(folder.path / name, check) for name, check in CHECKS.items())
