"""What a paper's evaluation is made of: a `Paper` declares its studies, a study its cases and claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar

import msgspec

from swell.api.client import Client
from swell.model.errors import InvalidInput
from swell.model.view import ClusterView, JobView, Story
from swell_papers.findings import Findings, Missed, Part, Shortfall, findings, table
from swell_papers.program_version import program_version

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
        only: inputs or truths whose names begin so; empty: all.
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
    only: tuple[str, ...] = ()

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


K = TypeVar("K")
#: How our figure is to be to the one that is printed or wanted: at least, at most, near it.
Way = Literal[">=", "<=", "~"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Generic[K, T]):
    """A figure that is printed or to be reached, beside which ours stands.

    Args:
        of: ours, of what came of the cases by their keys. KeyError: its cases were not asked for.
        way: how ours is to be: at least the figure, at most, or near it.
        within: share of the figure within which ours is near.
        is_target: a study whose figure is not reached has missed it; of others the table of claims tells so.
        why: it does not come out, for the page.
    """

    text: str
    figure: float
    of: Callable[[Mapping[K, T]], float]
    way: Way = "~"
    within: float = 0.25
    is_target: bool = False
    why: str = ""

    @property
    def told_way(self) -> str:
        return f"within {self.within:.0%}" if self.way == "~" else self.way

    def comes_out(self, ours: float) -> bool:
        match self.way:
            case ">=":
                return ours >= self.figure
            case "<=":
                return ours <= self.figure
        return abs(ours - self.figure) <= self.within * abs(self.figure)


@dataclass(frozen=True, kw_only=True)
class Study(Generic[K, T]):
    """One figure or table of a paper: cases that are run, and what is told of them.

    Args:
        cases: what is run, by its key. The same key is run once.
        tell: tables, charts and sentences of what came of the cases.
        claims: figures beside which ours stand.
        truth: the conditions, a line each; the program's version is added to the first.
        remarks: sentences behind those of `tell`.
        needs: files and folders below the data folder without which it cannot run.
    """

    name: str
    title: str
    cases: Callable[[Context], Mapping[K, Callable[[], T]]]
    tell: Callable[[Context, Mapping[K, T]], Iterable[Part]]
    truth: str | Callable[[Context, Mapping[K, T]], Iterable[str]]
    claims: Sequence[Claim[K, T]] = ()
    remarks: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    num_seeds: int = 0  #: of which means are taken, unless the context says fewer

    def run(self, context: Context) -> Findings:
        """Run all cases. Raises InvalidInput if an input is wrong."""
        cases = self.cases(context)
        found = dict(zip(cases, context.run_all(self.name, cases.values()), strict=True))
        parts = (*self.tell(context, found), *told_claims(self.name, self.claims, found), *self.remarks)
        return findings(self.name, self.title, self._truth(context, found), parts)

    def _truth(self, context: Context, found: Mapping[K, T]) -> Iterator[str]:
        first, *others = (self.truth,) if isinstance(self.truth, str) else self.truth(context, found)
        seeds = context.seeds(self.num_seeds)
        drawn = f"; seeds {seeds[0]} to {seeds[-1]}" if seeds else ""
        only = f"; run were only {', '.join(sorted(context.policies))}" if context.policies else ""
        yield f"{first}{drawn}; {program_version()}{only}"
        yield from others


#: Of the table of claims.
CLAIM_COLUMNS = ("claim", "figure", "ours", "wanted", "comes out")


def told_claims(name: str, claims: Iterable[Claim[K, T]], found: Mapping[K, T]) -> Iterator[Part]:
    """A table of the claims whose cases were run, and of each that does not come out the reason."""
    judged = [(claim, ours) for claim in claims if (ours := _ours(claim, found)) is not None]
    if not judged:
        return
    claim_column, figure, ours_column, wanted, comes_out = CLAIM_COLUMNS
    heading = (claim_column, (figure, 3), (ours_column, 3), wanted, comes_out)
    rows = (
        (claim.text, claim.figure, ours, claim.told_way, "yes" if claim.comes_out(ours) else "no")
        for claim, ours in judged
    )
    yield table(f"{name}-claims", "what is printed or to be reached, and what comes out here", heading, rows)
    missed = [(claim, ours) for claim, ours in judged if not claim.comes_out(ours)]
    for claim, ours in missed:
        if claim.is_target:
            way = claim.way if claim.way != "~" else ""
            yield Missed(f"{claim.text}: {ours:,.3f}; to reach: {way} {claim.figure:,.3f}")
    for why in dict.fromkeys(claim.why for claim, _ in missed if claim.why and not claim.is_target):
        yield Shortfall(name, why)


def _ours(claim: Claim[K, T], found: Mapping[K, T]) -> float | None:
    try:
        return claim.of(found)
    except KeyError:
        return None


class Experiment(Protocol):
    """One figure or table of a paper; a `Study` is one."""

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
