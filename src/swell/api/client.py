"""A running platform from Python: `swell.connect().submit(script="train.py", ...)`."""

from __future__ import annotations

import os
from types import TracebackType

from swell.api.admission_status import has_verdict
from swell.api.errors import AccessDenied, ApiError, NoPlatform, PlatformSilent
from swell.api.job_calls import JobCalls, has_ended
from swell.api.logs import LogOwner
from swell.api.operator_calls import OperatorCalls
from swell.api.token_file import named_token_file
from swell.api.transport import Transport, open_transport
from swell.model.errors import InvalidJob, Unavailable, UnknownJob, UnknownNode
from swell.model.job import Phase
from swell.model.view import JobView
from swell.store.folder import Endpoint, StateFolder

__all__ = [
    "AccessDenied",
    "ApiError",
    "Client",
    "InvalidJob",
    "LogOwner",
    "NoPlatform",
    "PlatformSilent",
    "Unavailable",
    "UnknownJob",
    "UnknownNode",
    "connect",
    "has_ended",
    "has_verdict",
    "is_refused",
]


def is_refused(job: JobView) -> bool:
    return job.phase is Phase.REJECTED


def connect(
    state: str | os.PathLike[str] | None = None, token_file: str | os.PathLike[str] | None = None
) -> Client:
    """The platform of a state folder; by default that of `swell up` without options.

    Args:
        token_file: of a user; by default $SWELL_TOKEN_FILE, else the caller is the owner of the folder.
            `state` is then the folder that the owner has shared.

    Raises:
        NoPlatform: none is running.
        PlatformSilent: its process lives, and does not answer.
        StateError: the folder belongs to another user, or the token file cannot be used.
        AccessDenied: the token in the file is not in force.
        ApiError: the user sends too many requests.
    """
    return Client(open_transport(StateFolder(state), named_token_file(token_file)))


def connect_as_owner(state: str | os.PathLike[str] | None = None) -> Client:
    """Connect to the platform of a state folder as its owner.

    As `connect`, but without the token file of the environment, which is for another platform.
    """
    return Client(open_transport(StateFolder(state), None))


class Client(JobCalls, OperatorCalls):
    """Calls of the control API. Made by `connect`; close it, or use it in a `with` statement."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @property
    def folder(self) -> StateFolder:
        """The platform's, or the one that its owner has shared."""
        return self._transport.folder

    @property
    def endpoint(self) -> Endpoint:
        """Addresses and pid of the process that answers."""
        return self._transport.endpoint

    def health(self) -> None:
        """Raises NoPlatform or ApiError if the platform does not answer as itself."""
        self._transport.health()

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
