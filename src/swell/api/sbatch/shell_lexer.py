"""Simple commands of a shell script, with what their words are made of. Nothing is run or expanded here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from swell.api.sbatch.errors import InvalidSbatchLine


class PartKind(Enum):
    """What a part of a word stands for."""

    LITERAL = "literal"
    VARIABLE = "variable"  #: the text is its name
    OPAQUE = "opaque"  #: the output of a command, arithmetic, or another form whose value is not known


@dataclass(frozen=True, slots=True)
class WordPart:
    """A run of one kind within a word of the shell."""

    kind: PartKind
    text: str
    is_quoted: bool = False


@dataclass(slots=True)
class ShellCommand:
    """One simple command: words between two operators."""

    line: int
    before: str  #: the operator before it; a new line is one
    words: list[tuple[WordPart, ...]] = field(default_factory=list)
    redirections: list[str] = field(default_factory=list)
    source: str = ""


_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_REDIRECTION = re.compile(r"\d*(?:<<<|<<|>>|>&|<&|>\||<|>)|&>>?")
_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[;|&()\n]")
_PLAIN = re.compile(r"[^\s'\"\\$`&|;()<>]+")
_QUOTED_PLAIN = re.compile(r"[^\"\\$`]+")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*|\d+|[@*#?$!])\}|([A-Za-z_]\w*|\d|[@*#?$!]))", re.ASCII)
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_CLOSING = {"(": ")", "{": "}"}


def shell_commands(text: str) -> Iterator[ShellCommand]:
    """The simple commands of a script, in its order. Raises InvalidSbatchLine for anything else."""
    return _ShellLexer(text.replace("\r\n", "\n")).commands()


class _ShellLexer:
    """The reading of one script."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    def commands(self) -> Iterator[ShellCommand]:
        before = "\n"
        while self.at < len(self.text):
            command = self._command(before)
            before = self._match(_OPERATOR) or "\n"
            if before in ("(", ")", ";;"):
                raise _logic(command.line, before)
            if command.words or command.redirections:
                yield command
            while before in ("&&", "||", "|", "|&") and self.text[self.at : self.at + 1] == "\n":
                self.at += 1

    def _command(self, before: str) -> ShellCommand:
        self._skip()
        start = end = self.at
        command = ShellCommand(line=self.line, before=before)
        while self.at < len(self.text):
            if redirection := self._match(_REDIRECTION):
                self._redirect(command, redirection)
            elif _OPERATOR.match(self.text, self.at):
                break
            else:
                command.words.append(self._word())
            end = self.at
            self._skip()
        command.source = " ".join(self.text[start:end].replace("\\\n", " ").split())
        return command

    def _redirect(self, command: ShellCommand, operator: str) -> None:
        if operator.endswith("<<"):
            raise _logic(command.line, "<<")
        self._skip()
        start = self.at
        if self.at < len(self.text) and not _OPERATOR.match(self.text, self.at):
            self._word()
        command.redirections.append(operator + self.text[start : self.at])

    def _skip(self) -> None:
        self._match(_BLANK)
        self._match(_COMMENT)

    def _match(self, form: re.Pattern[str]) -> str:
        match = form.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match[0] if match else ""

    def _word(self) -> tuple[WordPart, ...]:
        parts = list[WordPart]()
        while self.at < len(self.text):
            if self.text[self.at] == "(" and len(parts) == 1 and _ARRAY.fullmatch(parts[0].text):
                parts.append(WordPart(PartKind.OPAQUE, self._balanced("(")))
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif not self._is_in_word():
                break
            else:
                parts += self._parts()
        return tuple(parts)

    def _is_in_word(self) -> bool:
        return self.text[self.at] not in " \t\n&|;()<>"

    def _parts(self) -> Iterator[WordPart]:
        """The next part of an unquoted word, or the parts of the next quoted text."""
        found = self.text[self.at]
        if plain := self._match(_PLAIN):
            yield WordPart(PartKind.LITERAL, plain)
        elif found == "'":
            end = self._find("'", self.at + 1)
            yield WordPart(PartKind.LITERAL, self.text[self.at + 1 : end], is_quoted=True)
            self.at = end + 1
        elif found == '"':
            yield from self._double_quoted()
        elif found == "\\":
            yield WordPart(PartKind.LITERAL, self.text[self.at + 1 : self.at + 2], is_quoted=True)
            self.at += 2
        else:
            yield self._expansion(is_quoted=False)

    def _double_quoted(self) -> Iterator[WordPart]:
        start, self.at = self.at, self.at + 1
        yield WordPart(PartKind.LITERAL, "", is_quoted=True)
        while self.at < len(self.text) and self.text[self.at] != '"':
            if plain := self._match(_QUOTED_PLAIN):
                yield WordPart(PartKind.LITERAL, plain, is_quoted=True)
            elif self.text[self.at] == "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                kept = "" if escaped in '$`"\\\n' else "\\"
                yield WordPart(PartKind.LITERAL, kept + escaped.replace("\n", ""), is_quoted=True)
                self.at += 2
            else:
                yield self._expansion(is_quoted=True)
        if self.at >= len(self.text):
            self.at = start
            raise self._unclosed('"')
        self.at += 1

    def _expansion(self, is_quoted: bool) -> WordPart:
        if match := _VARIABLE.match(self.text, self.at):
            self.at = match.end()
            return WordPart(PartKind.VARIABLE, match[1] or match[2], is_quoted)
        start = self.at
        if self.text[start] == "`":
            self.at = self._find("`", start + 1) + 1
        elif self.text[start + 1 : start + 2] in _CLOSING and self.text[start + 1 : start + 2]:
            self.at += 1
            self._balanced(self.text[self.at])
        else:
            self.at += 1
            return WordPart(PartKind.LITERAL, "$", is_quoted)
        return WordPart(PartKind.OPAQUE, self.text[start : self.at], is_quoted)

    def _balanced(self, opening: str) -> str:
        """The text from an opening bracket to the one that closes it; quoted ones do not count."""
        start, depth = self.at, 0
        while self.at < len(self.text):
            found = self.text[self.at]
            if found in "'\"":
                self.at = self._find(found, self.at + 1)
            elif found == "\\":
                self.at += 1
            depth += (found == opening) - (found == _CLOSING[opening])
            self.at += 1
            if not depth:
                return self.text[start : self.at]
        self.at = start
        raise self._unclosed(opening)

    def _find(self, mark: str, start: int) -> int:
        end = self.text.find(mark, start)
        if end < 0:
            raise self._unclosed(mark)
        return end

    def _unclosed(self, mark: str) -> InvalidSbatchLine:
        return InvalidSbatchLine(self.line, f"{mark} is not closed; close it")


def _logic(line: int, what: str) -> InvalidSbatchLine:
    return InvalidSbatchLine(
        line,
        f"`{what}` is shell logic, and Swell runs no shell; write plain commands with their values, or "
        "submit the file that trains with `swell submit --script`",
    )


#: Words that begin what is no simple command, or belong to it.
_KEYWORDS = "if then elif else fi for while until do done case esac select function { } [[ ! coproc"


def refuse_logic(command: ShellCommand) -> None:
    """Raises InvalidSbatchLine for a command that a keyword of the shell begins."""
    first = command.words[0] if command.words else ()
    if len(first) == 1 and not first[0].is_quoted and first[0].text in _KEYWORDS.split():
        raise _logic(command.line, first[0].text)
