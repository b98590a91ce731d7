"""What a paper's evaluation is made of. A new paper is one file that declares a `Paper`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from swell.api.client import Client
from swell.model.errors import InvalidInput
from swell.model.view import ClusterView, JobView, Story
from swell_papers.findings import Findings

#: Is given a label and a number; what it gives is called with how many of them are done.
Watch = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


def unwatched(label: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """A `Watch` that shows nothing."""
    return nullcontext(lambda done: None)


#: A platform with these options of `swell up`, all in one state folder: it ends with its context.
Up = Callable[[Sequence[str]], AbstractContextManager[Client]]
Platforms = Callable[[], AbstractContextManager[Up]]


class Records(Protocol):
    """What a platform has noted; `api.client.Client` is one."""

    def jobs(self) -> Sequence[JobView]: ...
    def stories(self, job_id: str) -> Sequence[Story]: ...
    def cluster(self) -> ClusterView: ...


T = TypeVar("T")


def keep_record(record: object, folder: Path, name: str) -> Path:
    """Write what was played as `NAME.json`. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.json"
    file.write_bytes(msgspec.json.encode(record))
    return file


def read_record(folder: Path, name: str, kind: type[T], what: str = "it live") -> T:
    """Read what was played. Raises InvalidInput, with what to run: the file is missing, or of no use."""
    file = folder / f"{name}.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read ({error.strerror}); run {what} first") from error
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{file} is of another version ({error}); run {what} again") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What an experiment may use.

    Args:
        data: folder of public inputs, one subfolder a paper.
        policies: those that are run; None for all. Of the others there is only what was published.
        records: of a platform that runs, for what is measured on real processes.
        platforms: starts some of its own, one after the other, for what is played there.
        repetitions: of what is played on real processes.
        runs: folder in which the records of what was played are kept.
        played: folder of such records, which are told of again instead.
        shorter: what is played is so many times shorter than its experiment says.
        most_seeds: of experiments that take means over many, at most so many; None: as they say.
        image: of containers, in which it is played once more.
    """

    data: Path
    seed: int = 0
    policies: frozenset[str] | None = None
    records: Records | None = None
    watch: Watch = unwatched
    platforms: Platforms | None = None
    repetitions: int = 5
    runs: Path | None = None
    played: Path | None = None
    shorter: float = 1.0
    image: str = ""
    most_seeds: int | None = None

    def is_run(self, policy: str) -> bool:
        return self.policies is None or policy in self.policies

    def seeds(self, number: int) -> range:
        """Return so many seeds, or as many as may be."""
        return range(self.seed, self.seed + min(number, self.most_seeds or number))

    def run_all(self, label: str, runs: Iterable[Callable[[], T]]) -> list[T]:
        """Run them one after the other, which takes a while, and return what came of each."""
        wanted, found = list(runs), list[T]()
        with self.watch(label, len(wanted)) as advance:
            for run in wanted:
                found.append(run())
                advance(len(found))
        return found


class Experiment(Protocol):
    """One figure or table of a paper."""

    @property
    def name(self) -> str:
        """What a user calls it: `8a`."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Files and folders below the data folder without which it cannot run."""

    def run(self, context: Context) -> Findings:
        """Simulate or measure. Raises InvalidInput if an input is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper with the figures and tables that can be reproduced."""

    name: str
    title: str
    inputs: str  #: in a sentence, where they come from: for a reader who lacks them
    introduction: str  #: of its page, Markdown
    experiments: tuple[Experiment, ...]
    #: What its page begins with: a table, a picture and a few sentences of all that was found; then comes
    #: the introduction under its title.
    summary: Callable[[Sequence[Findings]], Findings] | None = None

    def chosen(self, names: Iterable[str]) -> tuple[Experiment, ...]:
        """Those of these names in the paper's order; all for none. Raises InvalidInput for an unknown one."""
        wanted = set(names)
        known = [experiment.name for experiment in self.experiments]
        unknown = sorted(wanted - set(known))
        if unknown:
            raise InvalidInput(
                f"{self.name} has no experiment {unknown[0]!r}; choose of {', '.join(known)}, "
                "or name none for all"
            )
        return tuple(found for found in self.experiments if not wanted or found.name in wanted)

    def check(self, experiments: Iterable[Experiment], data: Path) -> None:
        """Raises InvalidInput, naming all that is missing below the data folder."""
        self.check_files((name for experiment in experiments for name in experiment.needs), data)

    def check_files(self, names: Iterable[str], data: Path) -> None:
        """Raises InvalidInput, naming all of them that are missing below the data folder."""
        if missing := [name for name in dict.fromkeys(names) if not (data / name).exists()]:
            raise InvalidInput(
                f"{data} lacks {', '.join(missing)}: {self.inputs}; give their folder with --data"
            )
