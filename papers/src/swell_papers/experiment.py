"""What a paper's evaluation is made of: a `Paper` declares its studies, a study its cases and claims."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from scipy.stats import t

from swell import __version__
from swell.api.client import Client
from swell.model.errors import InvalidInput
from swell_papers.findings import (
    Cell,
    Chart,
    Findings,
    Missed,
    Part,
    Table,
    chart,
    table,
)

#: Is given a label and a number; what it gives is called with how many of them are done.
Watch = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


#: A platform with these options of `swell up`, which ends with its context.
Up = Callable[[Sequence[str]], AbstractContextManager[Client]]


T = TypeVar("T")


#: Of an interval of means over seeds.
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A mean, and half of its 95 % confidence interval (Student's t); 0 for a single value."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Return the mean of at least one value, and how far it may be off."""
        mean, num = float(np.mean(values)), len(values)
        if num < 2:
            return cls(mean, 0.0)
        factor = float(t.ppf(0.5 + CONFIDENCE / 2.0, num - 1))
        return cls(mean, factor * float(np.std(values, ddof=1)) / num**0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What an experiment may use.

    Args:
        data: folder of public inputs, one subfolder a paper.
        policies: those that are run; None for all. Of the others there is only what was printed.
        records: of a platform that runs, for what is measured on real processes.
        platform: starts one of its own, for what is played there.
        repetitions: of what is played on real processes.
        runs: folder in which the records of what was played are kept.
        played: folder of such records, which are told of again instead.
        shorter: what is played is so many times shorter than its experiment says.
        only: inputs or truths whose names begin so; empty: all.
        image: of containers, in which it is played.
    """

    data: Path
    seed: int = 0
    policies: frozenset[str] | None = None
    records: Client | None = None
    watch: Watch = lambda label, total: nullcontext(lambda done: None)
    platform: Up | None = None
    repetitions: int = 5
    runs: Path | None = None
    played: Path | None = None
    shorter: float = 1.0
    image: str = ""
    only: tuple[str, ...] = ()

    def is_run(self, policy: str) -> bool:
        return self.policies is None or policy in self.policies

    def seeds(self, number: int) -> range:
        """So many seeds, from the one that is asked for."""
        return range(self.seed, self.seed + number)

    def chosen(self, known: Mapping[str, T], what: str) -> list[T]:
        """Those whose name begins as `only` says. Raises InvalidInput for words with which no name begins."""
        for begin in self.only:
            if not any(name.startswith(begin) for name in known):
                raise InvalidInput(
                    f"--only names {begin!r}, and no {what} begins so; there are {', '.join(known)}"
                )
        return [one for name, one in known.items() if not self.only or name.startswith(self.only)]


#: Of a case: words and numbers, with the seed behind them where means are taken over several.
Key = tuple[str | float | None, ...]
#: How our figure is to be to the one that is printed or wanted: at least, at most, near it.
Way = Literal[">=", "<=", "~"]
#: What is to be equal may differ by this share.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Measure(Generic[T]):
    """A figure of a run: a column of its study's table."""

    name: str
    of: Callable[[T], float | None]
    digits: int = 3
    has_interval: bool = False  #: half of the 95 % interval over seeds stands beside it

    def at(self, *key: str | float | None) -> Callable[[Results[T]], float]:
        """Its mean of a case, as a claim has it."""
        return lambda found: found.mean(self.of, *key)


class Results(dict[Key, T]):
    """What came of the cases of a study, by their keys.

    Args:
        num_words: of a key, without its seed.
    """

    def __init__(self, found: Mapping[Key, T], num_words: int) -> None:
        super().__init__(found)
        self.runs: dict[Key, list[T]] = {}  #: one for each seed, by the key without it
        for key, run in found.items():
            self.runs.setdefault(key[:num_words], []).append(run)

    def interval(self, of: Callable[[T], float | None], *key: str | float | None) -> Interval | None:
        """The mean over seeds of what there is; None for nothing. Raises KeyError: the case was not run."""
        values = [value for run in self.runs[key] if (value := of(run)) is not None]
        return Interval.of(values) if values else None

    def mean(self, of: Callable[[T], float | None], *key: str | float | None) -> float:
        """The same as a number. Raises KeyError for nothing, too."""
        found = self.interval(of, *key)
        if found is None:
            raise KeyError(key)
        return found.mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Generic[T]):
    """A figure that is printed or to be reached, beside which ours stands.

    Args:
        figure: itself, or what it is of the results.
        of: ours, of the results. KeyError, of both: its cases were not asked for.
        way: how ours is to be: at least the figure, at most, or near it.
        within: share of the figure within which ours is near.
        is_target: a study whose figure is not reached has missed it; of others the table of claims tells so.
    """

    text: str
    figure: float | Callable[[Results[T]], float]
    of: Callable[[Results[T]], float]
    way: Way = "~"
    within: float = 0.25
    is_target: bool = False

    def judged(self, found: Results[T]) -> tuple[float, float, bool] | None:
        """The figure, ours, and whether it comes out; None where the cases were not run."""
        try:
            figure = self.figure(found) if callable(self.figure) else self.figure
            ours = self.of(found)
        except KeyError:
            return None
        within = ROUNDING if self.way != "~" else self.within
        above, below = (ours - figure >= -within * abs(figure), ours - figure <= within * abs(figure))
        return figure, ours, {">=": above, "<=": below, "~": above and below}[self.way]

    @property
    def told_way(self) -> str:
        return f"within {self.within:.0%}" if self.way == "~" else self.way


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart of a study's figures.

    Places along the x axis, lines and panels are each the words of one column of the study's keys, or
    `measure`; empty: there is one.

    Args:
        measures: names of those that are shown.
        name: behind that of the study.
    """

    measures: tuple[str, ...]
    x: str
    lines: str = "measure"
    panels: str = ""
    kind: Literal["bars", "lines"] = "bars"
    y_label: str = ""
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Study(Generic[T]):
    """One figure or table of a paper: cases that are run, and what is told of them.

    Args:
        cases: what is run, by its key. The same key is run once.
        keys: what the words of keys are: the first columns of its table.
        measures: the other columns. Those in which there is nothing are left out; none: there is no table.
        caption: of the table.
        claims: figures beside which ours stand.
        tell: further tables, charts and sentences.
        truth: the conditions, a line each; the program's version is added to the first.
        remarks: sentences behind those of `tell`.
        needs: files and folders below the data folder without which it cannot run.
    """

    name: str
    title: str
    truth: str | Callable[[Context, Results[T]], Iterable[str]]
    cases: Callable[[Context], Mapping[Key, Callable[[], T]]] = lambda context: {}
    keys: tuple[str, ...] = ()
    measures: Sequence[Measure[T]] = ()
    caption: str = ""
    pictures: Sequence[Picture] = ()
    claims: Sequence[Claim[T]] = ()
    tell: Callable[[Context, Results[T]], Iterable[Part]] = lambda context, found: ()
    remarks: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    num_seeds: int = 0  #: of which means are taken

    def run(self, context: Context) -> Findings:
        """Run all cases. Raises InvalidInput if an input is wrong."""
        cases, runs = self.cases(context), dict[Key, T]()
        with context.watch(self.name, len(cases)) as advance:
            for key, run in cases.items():
                runs[key] = run()
                advance(len(runs))
        found = Results(runs, len(self.keys) or max(map(len, runs), default=0))
        parts: list[Part] = [self._table(found)] if self.measures else []
        parts += self._claims(found, is_judged=context.shorter == 1.0)
        parts += (self._chart(picture, found) for picture in self.pictures)
        parts += (*self.tell(context, found), *self.remarks)
        return Findings(
            name=self.name,
            title=self.title,
            truth=tuple(self._truth(context, found)),
            tables=tuple(part for part in parts if isinstance(part, Table)),
            charts=tuple(part for part in parts if isinstance(part, Chart)),
            notes=tuple(part for part in parts if isinstance(part, str) and not isinstance(part, Missed)),
            missed=tuple(str(part) for part in parts if isinstance(part, Missed)),
        )

    def _truth(self, context: Context, found: Results[T]) -> Iterator[str]:
        first, *others = (self.truth,) if isinstance(self.truth, str) else self.truth(context, found)
        seeds = context.seeds(self.num_seeds)
        drawn = f"; seeds {seeds[0]} to {seeds[-1]}" if seeds else ""
        only = f"; run were only {', '.join(sorted(context.policies))}" if context.policies else ""
        yield f"{first}{drawn}; {program_version()}{only}"
        yield from others

    def _table(self, found: Results[T]) -> Table:
        told: list[list[Cell]] = [[*key] for key in found.runs]
        heading: list[str | tuple[str, int]] = [*self.keys]
        for measure in self.measures:
            column = [found.interval(measure.of, *key) for key in found.runs]
            if all(one is None for one in column):
                continue
            heading += [(measure.name, measure.digits), ("+-", measure.digits)][: 1 + measure.has_interval]
            for row, one in zip(told, column, strict=True):
                row += (one or (None, None))[: 1 + measure.has_interval]
        return table(self.name, self.caption or self.title, heading, told)

    def _claims(self, found: Results[T], is_judged: bool) -> Iterator[Part]:
        """A table of the claims whose cases were run, and the judged targets that were missed."""
        told = [(claim, *one) for claim in self.claims if (one := claim.judged(found)) is not None]
        if told:
            caption = "what is printed or to be reached, and what comes out here"
            heading = ("claim", ("figure", 3), ("ours", 3), "wanted", "comes out")
            rows = (
                (claim.text, figure, ours, claim.told_way, "yes" if comes_out else "no")
                for claim, figure, ours, comes_out in told
            )
            yield table(f"{self.name}-claims", caption, heading, rows)
        for claim, figure, ours, comes_out in told:
            if is_judged and claim.is_target and not comes_out:
                way = claim.way if claim.way != "~" else ""
                yield Missed(f"{claim.text}: {ours:,.3f}; to reach: {way} {figure:,.3f}")

    def _chart(self, picture: Picture, found: Results[T]) -> Chart:
        measures = {one.name: one.of for one in self.measures if one.name in picture.measures}
        places: dict[str, tuple[Any, ...]] = {"measure": tuple(measures), "": ("",)}
        for at, name in enumerate(self.keys):
            places[name] = tuple(dict.fromkeys(key[at] for key in found.runs))

        def value(**chosen: object) -> float | None:
            words = {name: some[0] for name, some in places.items() if some} | chosen
            key = tuple(words[name] for name in self.keys)
            one = found.interval(measures[words["measure"]], *key) if key in found.runs else None
            return None if one is None else one.mean

        panels = {
            str(one): {
                str(line): [
                    value(**{picture.x: x, picture.lines: line, picture.panels: one})
                    for x in places[picture.x]
                ]
                for line in places[picture.lines]
            }
            for one in places[picture.panels]
        }
        x = (picture.x, tuple(map(str, places[picture.x])))
        y_label = picture.y_label or ", ".join(measures)
        return chart(f"{self.name}{picture.name}", self.title, picture.kind, x, y_label, panels=panels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper with the figures and tables that can be reproduced."""

    name: str
    title: str
    inputs: str  #: in a sentence, where they come from: for a reader who lacks them
    introduction: str  #: of its page, Markdown
    experiments: tuple[Study[Any], ...]

    @classmethod
    def with_page(cls, name: str, title: str, inputs: str, *experiments: Study[Any]) -> Paper:
        """Add what its page says beside the figures: `pages/NAME.md` has an introduction, and remarks on
        studies, in paragraphs below the name of each."""
        text = (Path(__file__).parent / "pages" / f"{name}.md").read_text(encoding="utf-8")
        introduction, *sections = text.split("\n## ")
        parts = (section.strip().split("\n\n") for section in sections)
        remarks = {study: tuple(" ".join(one.split("\n")) for one in told) for study, *told in parts}
        told = tuple(replace(study, remarks=remarks.get(study.name, ())) for study in experiments)
        return cls(name=name, title=title, inputs=inputs, introduction=introduction.strip(), experiments=told)

    def chosen(self, names: Iterable[str]) -> tuple[Study[Any], ...]:
        """Those of these names in the paper's order; all for none. Raises InvalidInput for an unknown one."""
        wanted, known = set(names), {experiment.name: experiment for experiment in self.experiments}
        if unknown := sorted(wanted - known.keys()):
            raise InvalidInput(
                f"{self.name} has no experiment {unknown[0]!r}; choose of {', '.join(known)}, "
                "or name none for all"
            )
        return tuple(found for name, found in known.items() if not wanted or name in wanted)

    def check_files(self, names: Iterable[str], data: Path) -> None:
        """Raises InvalidInput, naming all of them that are missing below the data folder."""
        if missing := [name for name in dict.fromkeys(names) if not (data / name).exists()]:
            raise InvalidInput(
                f"{data} lacks {', '.join(missing)}: {self.inputs}; give their folder with --data"
            )


#: Characters of a commit.
SHOWN = 10


@cache
def program_version() -> str:
    """`swell 0.1.0, commit 1a2b3c4d5e`, and whether it has uncommitted changes; only in a clone."""
    commit = version_at(Path(__file__).parent)
    return f"swell {__version__}" + (f", {commit}" if commit else "")


def version_at(folder: Path) -> str:
    """The commit of a folder's files; empty if Git does not know them."""
    if not _git(folder, "ls-files", "--error-unmatch", "."):
        return ""
    commit = _git(folder, "rev-parse", f"--short={SHOWN}", "HEAD")
    is_changed = bool(_git(folder, "status", "--porcelain", "--untracked-files=no", ":/src", ":/papers"))
    return f"commit {commit}" + (" with uncommitted changes" if is_changed else "") if commit else ""


def _git(folder: Path, *words: str) -> str:
    """What it prints; empty if it fails, or is not there."""
    if (git := shutil.which("git")) is None:
        return ""
    return subprocess.run([git, "-C", str(folder), *words], capture_output=True, text=True).stdout.strip()
