"""The documents tell the truth where a program can tell: links lead somewhere, commands and options exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from swell.cli.commands import load_all

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "papers/docs").rglob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
#: Options of the program, before its commands.
OF_PROGRAM = ("--version", "--install-completion", "--show-completion")
SPAN = re.compile(r"`([^`]+)`")
INDENTED = re.compile(r"^ {4,}(.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
MODULE = re.compile(r"[\w./-]+\.pyx?d?\b")
OPTION = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*)")


def without_code(text: str) -> str:
    return SPAN.sub("", FENCE.sub("", text))


def commands_in(text: str) -> list[str]:
    """Everything that begins with `swell ` in code: command lines, and what is quoted in a sentence."""
    fenced = [match[3] for match in FENCE.finditer(text)]
    prose = FENCE.sub("", text)
    lines = [
        line.strip().removeprefix("$ ")
        for block in (*fenced, *INDENTED.findall(prose))
        for line in block.replace("\\\n", " ").splitlines()
    ]
    spans = [" ".join(match[1].split()) for match in SPAN.finditer(prose)]
    return [line for line in (*lines, *spans) if line.startswith("swell ")]


@cache
def options_of() -> dict[str, frozenset[str]]:
    """Command, or group and command -> its options, as the program has them."""
    commands = load_all()
    inner = {
        f"{name} {inner_name}": command
        for name, outer in commands.items()
        for inner_name, command in getattr(outer, "commands", {}).items()
    }
    return {
        name: frozenset({"--help", "-h"}.union(*(param.opts for param in command.params)))
        for name, command in {**commands, **inner}.items()
    }


def command_of(line: str) -> str:
    """The words of a command line that name the command."""
    _, name, *others = line.split()
    while others and others[0][0].islower() and any(known.startswith(f"{name} ") for known in options_of()):
        name = f"{name} {others.pop(0)}"
    return name


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """Its headings as links name them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return frozenset(
        re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-") for heading in headings
    )


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(without_code(page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        if (
            target.parent == ROOT / "docs/reference" or target == ROOT / "docs/adr/index.md"
        ):  # made of the program: `make docs` follows these links
            continue
        assert target.exists(), f"{link} leads nowhere"
        assert target.is_relative_to(ROOT), f"{link} leads out of the repository"
        assert not anchor or anchor in anchors_of(target), f"{link}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_command_and_option_exists(page: Path) -> None:
    for line in commands_in(page.read_text("utf-8")):
        name = command_of(line)
        own = re.sub(r"'[^']*'", "", re.split(r" -- |  +#| \| ", line)[0])
        if name.startswith("-"):
            assert name in (*OF_PROGRAM, "--help", "-h"), line
            continue
        if any(known.startswith(f"{name} ") for known in options_of()) and not OPTION.findall(own):
            continue  # a group
        assert name in options_of(), f"there is no command `swell {name}`: {line}"
        unknown = set(OPTION.findall(own)) - options_of()[name]
        assert not unknown, f"`swell {name}` has no {', '.join(sorted(unknown))}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_python_in_a_page_is_python(page: Path) -> None:
    for match in FENCE.finditer(page.read_text("utf-8")):
        if match[2] == "python":
            ast.parse(match[3])


@cache
def modules() -> frozenset[str]:
    """Files of Python in the repository, by each of their endings: `core/loop.py`, `loop.py`."""
    files = [
        file.relative_to(ROOT)
        for folder in ("src", "papers", "tests", "benchmarks", "examples", "docs", "deploy")
        for file in (ROOT / folder).rglob("*.p[xy]*")
    ]
    return frozenset("/".join(file.parts[start:]) for file in files for start in range(len(file.parts)))


#: Files of a reader, which pages tell to write, or those that a program makes.
OF_A_READER = ("train.py",)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_each_module_that_a_page_names_exists(page: Path) -> None:
    text = FENCE.sub("", page.read_text("utf-8"))
    named = {name for match in SPAN.finditer(text) for name in MODULE.findall(match[1])}
    assert named - modules() <= set(OF_A_READER)
