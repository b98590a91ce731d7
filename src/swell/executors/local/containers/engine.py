"""A program that runs containers. Docker and Podman take the same words for all that is used here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from swell.model.lengths import span

#: An engine that does not answer is down.
ANSWER_WITHIN_S = 30.0
#: Exit status of `run` if the engine itself failed.
ENGINE_FAILED = 125
#: The same if the image's program could not be started.
NO_PROGRAM = (126, 127)


class ContainerChoice(StrEnum):
    """Which program runs containers (`swell up --containers`)."""

    AUTO = "auto"  #: Docker if it can be used, else Podman
    DOCKER = "docker"
    PODMAN = "podman"
    OFF = "off"  #: none: jobs that name an image fail


class EngineDown(RuntimeError):
    """No engine can be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """What a call of the program came to."""

    status: int
    text: str  #: its output
    error: str  #: last line of its complaint

    @property
    def is_good(self) -> bool:
        return self.status == 0


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """Methods wait for the program: they are for threads."""

    name: str
    program: str  #: path

    def call(self, *words: str, limit_s: float = ANSWER_WITHIN_S) -> EngineAnswer:
        """Never raises: a program that is gone, or hangs, is an answer too."""
        try:
            done = subprocess.run(
                [self.program, *words],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return EngineAnswer(ENGINE_FAILED, "", f"{self.name} did not answer within {span(limit_s)}")
        except OSError as error:
            return EngineAnswer(ENGINE_FAILED, "", f"{self.program} cannot be run ({error.strerror})")
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        complaint = _complaint(lines) if done.returncode else ""
        return EngineAnswer(done.returncode, done.stdout.decode(errors="replace").strip(), complaint)

    @property
    def user_words(self) -> tuple[str, ...]:
        """The container's user is this one, so that what it writes belongs to it."""
        mapped = ("--userns", "keep-id") if self.name == ContainerChoice.PODMAN and os.geteuid() else ()
        return (*mapped, "--user", f"{os.geteuid()}:{os.getegid()}")

    def gpu_words(self, gpus: Sequence[str]) -> tuple[str, ...]:
        """Options of `run` that show GPUs with these UUIDs: Docker's own, and for Podman those of CDI."""
        if self.name == ContainerChoice.PODMAN:
            return tuple(word for gpu in gpus for word in ("--device", f"nvidia.com/gpu={gpu}"))
        return ("--gpus", f'"device={",".join(gpus)}"') if gpus else ()

    @property
    def empty_options(self) -> str:
        """Mount options of an empty folder in memory.

        Without them Podman would copy into it what it is to hide.
        """
        return "mode=755,notmpcopyup" if self.name == ContainerChoice.PODMAN else "mode=755"

    def main_pid(self, container: str) -> int | None:
        """Return the pid of a container's first process, as this process sees it; None if it does not run."""
        found = self.call("inspect", "--format", "{{.State.Pid}}", container)
        return int(found.text) if found.is_good and found.text.isdecimal() and int(found.text) else None

    def has_image(self, image: str) -> bool:
        return self.call("image", "inspect", "--format", "{{.Id}}", image).is_good

    def remove(self, container: str) -> None:
        """End a container, with all its processes. No effect if there is none of this name."""
        self.call("rm", "--force", container)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOffer:
    """Whether one of the programs can be used here."""

    name: str
    program: str = ""  #: path; empty: it is not installed
    version: str = ""
    why_not: str = ""  #: empty: it can be used
    remedy: str = ""

    @property
    def is_offered(self) -> bool:
        return not self.why_not


#: How each is asked whether it works, and says its version.
_QUESTIONS = {
    ContainerChoice.DOCKER: ("version", "--format", "{{.Server.Version}}"),
    ContainerChoice.PODMAN: ("info", "--format", "{{.Version.Version}}"),
}


def engine_offers() -> tuple[EngineOffer, ...]:
    """Return all engines, in order of preference. Asking each program takes about a tenth of a second."""
    return tuple(_offer(name) for name in _QUESTIONS)


def find_engine(choice: ContainerChoice) -> ContainerEngine:
    """The one to use. Raises EngineDown."""
    names = list(_QUESTIONS) if choice is ContainerChoice.AUTO else [choice]
    offers = [_offer(name) for name in names]
    for offer in offers:
        if offer.is_offered:
            return ContainerEngine(offer.name, offer.program)
    raise EngineDown("; ".join(f"{offer.name} cannot be used: {offer.why_not}" for offer in offers))


def _offer(name: ContainerChoice) -> EngineOffer:
    program = shutil.which(name)
    if program is None:
        return EngineOffer(name=name, why_not="it is not installed", remedy=f"install {name}")
    answer = ContainerEngine(name, program).call(*_QUESTIONS[name])
    if answer.is_good and answer.text:
        return EngineOffer(name=name, program=program, version=answer.text)
    return EngineOffer(
        name=name,
        program=program,
        why_not=answer.error or "it gives no version",
        remedy=_remedy(answer.error),
    )


def _remedy(error: str) -> str:
    if "permission denied" in error.lower():
        return "let this user use its socket (group docker), or use rootless Podman"
    return "start its service (`systemctl start docker`)" if "daemon" in error.lower() else ""


def _complaint(lines: list[str]) -> str:
    """The last line that says something; Docker ends with advice to read its help."""
    told = [line for line in lines if line.strip() and not line.startswith(("See '", "Run '"))]
    return told[-1].strip() if told else ""
