"""A program that runs containers.

Docker and Podman take the same words for all that is used here. Apptainer has no daemon, and containers of no
name: their processes are children of the program.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from swell.executors.local.machine_offer import MachineOffer
from swell.model.quantities import span

#: An engine that does not answer is down.
ANSWER_WITHIN_S = 30.0


class ContainerKind(StrEnum):
    """Which program runs containers (`swell up --containers`)."""

    AUTO = "auto"  #: the first that is installed
    DOCKER = "docker"
    PODMAN = "podman"
    APPTAINER = "apptainer"
    OFF = "off"  #: none: jobs that name an image fail


#: How each is asked whether it works, and says its version; in order of preference.
_QUESTIONS = {
    ContainerKind.DOCKER: ("version", "--format", "{{.Server.Version}}"),
    ContainerKind.PODMAN: ("info", "--format", "{{.Version.Version}}"),
    ContainerKind.APPTAINER: ("--version",),
}
#: Exit status of Apptainer where it could start nothing.
APPTAINER_FAILED = 255


class EngineUnavailable(RuntimeError):
    """The engine cannot be used now; the text says why."""


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """Methods wait for the program: they are for threads."""

    name: str

    @property
    def program(self) -> str:
        """The path of the program, as far as it is installed."""
        return shutil.which(self.name) or self.name

    @property
    def is_podman(self) -> bool:
        return self.name == ContainerKind.PODMAN

    @property
    def is_apptainer(self) -> bool:
        return self.name == ContainerKind.APPTAINER

    def call(self, *words: str, limit_s: float = ANSWER_WITHIN_S) -> tuple[str, str]:
        """Return its output, and the last line of its complaint, which is empty if it did what was asked.

        Never raises: a program that is gone, or hangs, is an answer too.
        """
        command = [self.program, *words]
        try:
            done = subprocess.run(
                command, capture_output=True, stdin=subprocess.DEVNULL, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            return "", f"{self.name} did not answer within {span(limit_s)}"
        except OSError as error:
            return "", f"{self.name} cannot be run ({error.strerror})"
        output, complaint = (text.decode(errors="replace").strip() for text in (done.stdout, done.stderr))
        return output, (complaint or "it does not say why").splitlines()[-1] if done.returncode else ""

    def user_words(self, user: str = "") -> Sequence[str]:
        """Options of `run`: what it writes belongs to this user; empty: the one of this process.

        Raises ValueError: this machine has no such user.
        """
        if user:
            try:
                entry = pwd.getpwnam(user)
            except KeyError:
                raise ValueError(f"this machine has no user {user!r}") from None
            return "--user", f"{entry.pw_uid}:{entry.pw_gid}"
        mapped = ("--userns", "keep-id") if self.is_podman and os.geteuid() else ()
        return (*mapped, "--user", f"{os.geteuid()}:{os.getegid()}")

    def gpu_words(self, gpus: Sequence[str]) -> Sequence[str]:
        """Options of `run` that show GPUs with these UUIDs: Docker's own, and for Podman those of CDI."""
        if self.is_podman:
            return [word for gpu in gpus for word in ("--device", f"nvidia.com/gpu={gpu}")]
        return ("--gpus", f'"device={",".join(gpus)}"') if gpus else ()

    def main_pid(self, container: str) -> int | None:
        """Return the pid of a container's first process, as this process sees it; None if it does not run."""
        if self.is_apptainer:  # it is a child of the program, and in the groups of that
            return None
        output, error = self.call("inspect", "--format", "{{.State.Pid}}", container)
        return None if error or not output.isdecimal() else int(output) or None

    def check_image(self, image: str) -> None:
        """Raises EngineUnavailable; ValueError: this machine has no such image."""
        if self.is_apptainer:
            if not (os.path.isfile(image) or "://" in image):
                raise ValueError(
                    f"there is no image {image} on this machine: Apptainer runs PATH.sif or docker://NAME"
                )
            return
        if self.call("image", "inspect", "--format", "{{.Id}}", image)[1]:
            offer = _offer(ContainerKind(self.name))
            if offer.is_offered:
                why = f"there is no image {image} on this machine; get it with `{self.name} pull {image}`"
                raise ValueError(why)
            raise EngineUnavailable(f"{self.name} cannot be used: {offer.why_not}")

    def remove(self, container: str) -> str:
        """End a container, with all its processes; return why it may still be there. Empty: there is none."""
        if self.is_apptainer:  # the zygote has ended what was left of a child of its own
            return ""
        _, error = self.call("rm", "--force", container)
        if not error:
            return ""
        left, unknown = self.call("ps", "--all", "--quiet", "--filter", f"name=^{container}$")
        return error if left or unknown else ""


def engine_offers() -> tuple[MachineOffer, ...]:
    """Return all engines, in order of preference. Asking each program takes about a tenth of a second."""
    return tuple(_offer(name) for name in _QUESTIONS)


def engine_of(choice: ContainerKind) -> ContainerEngine | None:
    """The program of a choice that is used on this machine; None: none of it is installed."""
    names = {ContainerKind.AUTO: [*_QUESTIONS], ContainerKind.OFF: []}.get(choice, [choice])
    return next((ContainerEngine(name) for name in names if shutil.which(name) is not None), None)


def _offer(name: ContainerKind) -> MachineOffer:
    if shutil.which(name) is None:
        return MachineOffer(name=name, why_not="it is not installed", remedy=f"install {name}")
    version, error = ContainerEngine(name).call(*_QUESTIONS[name])
    if version and not error:
        return MachineOffer(name=name, note=version)
    return MachineOffer(name=name, why_not=error or "it gives no version")
