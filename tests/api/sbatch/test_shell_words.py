"""Words of a shell: what we read is what Bash gives a program."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick, pick

from swell.api.sbatch.errors import InvalidSbatchLine
from swell.api.sbatch.shell_lexer import shell_commands
from swell.api.sbatch.shell_variables import ShellVariables

VARIABLES = {"A": "a", "B": "one two", "EMPTY": "", "HOME": "/home/me"}
ARGUMENTS = ("first", "sec ond")
PIECES = pick(
    "x", "--lr", "=0.1", "a/b", "'", "single $A'", "''", '""', '"$B"', "$B", "${B}", "$A", "$EMPTY",
    "${EMPTY}x", r"\ ", r"\$A", r'"\$A \" \x"', '"a  b"', "'a  b'", "$1", '"$2"', ' "$@" ', " $@ ", ' "$*" ',
    "~", "~/d", "a#b", "\\\n", "$", '"$"', " ", "  ", "\t",
)  # fmt: skip


def words_of(text: str) -> list[str]:
    """The words of the one command of a script, expanded."""
    (command,) = shell_commands(f"run {text}\n")
    variables = ShellVariables(VARIABLES, ARGUMENTS)
    found = [one for word in command.words for one in variables.expanded(word)]
    return [variables.known(one, 1) for one in found[1:]]


def words_of_bash(text: str) -> list[str]:
    """What a program that Bash runs is given."""
    code = f'run() {{ printf \'%s\\0\' "$#" "$@"; }}\nrun {text}\n'
    done = subprocess.run(
        ["bash", "-c", code, "bash", *ARGUMENTS], capture_output=True, text=True, check=True, env=VARIABLES
    )
    number, *found = done.stdout.split("\0")[:-1]
    return found if int(number) else []


def is_whole(text: str) -> bool:
    """Whether its quotes are closed, and no name of a variable has grown by what follows."""
    return text.count("'") % 2 == 0 and not re.search(r"\$(?:A|B|EMPTY|\d)(?:\w|\\\n)|\$[a-z/'\"~$=\\]", text)


@settings(max_examples=fewer_if_quick(150))
@given(st.lists(PIECES, max_size=8).map("".join).filter(is_whole))
def test_words_are_those_of_bash(text: str) -> None:
    assert words_of(text) == words_of_bash(text)


@given(st.lists(st.text(st.characters(exclude_characters="\0\r", codec="utf-8"), max_size=12), max_size=5))
def test_quoted_words_come_back(words: list[str]) -> None:
    assert words_of(shlex.join(words)) == words


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a$(date)b", "$(date)"),
        ("`date`", "`date`"),
        ("$((1 + 2))", "$((1 + 2))"),
        ("${A%.*}", "${A%.*}"),
        ("*.tar", "pattern"),
        ("{1..3}", "pattern"),
        ("$NOTHING", "$NOTHING is not set"),
        ("$3", "behind --"),
        ("$SLURM_ARRAY_TASK_ID", "sweep"),
        ("$SLURM_JOB_ID", "set by Slurm"),
    ],
)
def test_what_is_not_known_is_named(text: str, told: str) -> None:
    with pytest.raises(InvalidSbatchLine, match="line 1: ") as caught:
        words_of(text)
    assert told in str(caught.value)


@pytest.mark.parametrize("text", ["'a", '"a', "$(a", "`a", "${a", "a=(b"])
def test_what_is_not_closed_is_told_with_its_line(text: str) -> None:
    with pytest.raises(InvalidSbatchLine, match=r"line 2: .* is not closed"):
        [*shell_commands(f"true\n{text}")]


def test_commands_have_their_lines_and_operators() -> None:
    text = "a && b ||\n c | d; e &\n\n# note\nf \\\n  g > out 2>&1 # note\n"
    found = [(command.line, command.before, command.source) for command in shell_commands(text)]
    assert found == [
        (1, "\n", "a"),
        (1, "&&", "b"),
        (2, "||", "c"),
        (2, "|", "d"),
        (2, ";", "e"),
        (5, "\n", "f g > out 2>&1"),
    ]
