"""Variables of a Slurm script as far as they are known without running it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from swell.api.sbatch.errors import InvalidSbatchLine
from swell.api.sbatch.shell_lexer import PartKind, WordPart

#: Stands in a text for a value that is not known; the number tells why.
_MARK = re.compile("\0(\\d+)\0")
_PATTERN = re.compile(r"[*?]|\[[^\]]+\]|\{[^{}]*(?:,|\.\.)[^{}]*\}")
#: Variables that stand for all arguments.
_ALL = ("@", "*")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=", re.ASCII)


class ShellVariables:
    """Values of variables, and what words become with them.

    A value that is not known is no error until it reaches something that becomes a part of the job.

    Args:
        environ: variables of the shell that submits, which `sbatch` hands on.
        arguments: `$1`, `$2`, ...
        numbers: variables of Slurm that are known from the options.
        sizes: such variables that say how large the job is. They may reach a launcher and nothing else: how
            large a Swell job is changes.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        arguments: Sequence[str] = (),
        numbers: Mapping[str, str] | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self._values = {name: value for name, value in environ.items() if not name.startswith("SLURM_")}
        self._values |= numbers or {}
        self._sizes = dict(sizes or {})
        self._arguments = list(arguments)
        self._marks = list[tuple[str, str]]()  # name of a size or nothing, and why the value is not known

    def assign(self, name: str, value: str) -> None:
        """Set a variable. The value may hold marks of `expanded`."""
        self._sizes.pop(name, None)
        self._values[name] = value

    def unset(self, name: str) -> None:
        self._sizes.pop(name, None)
        self._values.pop(name, None)

    def value(self, name: str) -> str:
        """The value; a text with a mark if there is none."""
        if name in self._values:
            return self._values[name]
        if name in self._sizes:
            return self._mark(
                f"${name} is a size of the Slurm job, and Swell changes the size of a job while it runs; "
                "let the script read WORLD_SIZE instead",
                name,
            )
        if name in _ALL:
            return self._mark(f"${name} is a part of a word; write it alone")
        if name.isdigit() and 0 < int(name) <= len(self._arguments):
            return self._arguments[int(name) - 1]
        if name.isdigit():
            return self._mark(f"${name} is an argument of the script, and none is given; give it behind --")
        if name.startswith("SLURM_ARRAY_"):
            return self._mark(
                f"${name} numbers the tasks of an array, and Swell submits one job; "
                "write a job file with a `sweep` over what the number chooses"
            )
        if name.startswith("SLURM_"):
            return self._mark(f"${name} is set by Slurm and not by Swell; write its value, or do without it")
        return self._mark(f"${name} is not set in the script, nor here; set it, or write its value")

    def expanded(self, word: Sequence[WordPart]) -> list[str]:
        """The words that a word becomes. What is not known in them are marks, which `known` refuses."""
        if (arguments := self._all_arguments(word)) is not None:
            return arguments
        found, is_open, is_any = [""], True, False
        for place, part in enumerate(word):
            for text, splits in self._texts(part, place, len(word)):
                pieces = re.split(r"[ \t\n]+", text) if splits else [text]
                if not is_open:
                    found.append("")
                found[-1] += pieces[0]
                found += pieces[1:]
                is_open = True
            is_any = is_any or part.is_quoted or part.kind is PartKind.LITERAL
        return found if is_any else [piece for piece in found if piece]

    def _all_arguments(self, word: Sequence[WordPart]) -> list[str] | None:
        """What `$@` or `$*` becomes; None for any other word."""
        parts = [part for part in word if part.text]
        if len(parts) != 1 or parts[0].kind is not PartKind.VARIABLE or parts[0].text not in _ALL:
            return None
        if not parts[0].is_quoted:
            return [piece for one in self._arguments for piece in one.split()]
        return list(self._arguments) if parts[0].text == "@" else [" ".join(self._arguments)]

    def joined(self, word: Sequence[WordPart]) -> str:
        """The text that a word becomes where a shell does not split it, as in an assignment."""
        parts = enumerate(word)
        return "".join(text for place, part in parts for text, _ in self._texts(part, place, len(word)))

    def _texts(self, part: WordPart, place: int, length: int) -> Iterator[tuple[str, bool]]:
        """The text of a part of a word of so many parts, and whether blanks in it divide the word."""
        if part.kind is PartKind.OPAQUE:
            yield (
                self._mark(f"the value of `{part.text}` is not known before it runs; write the value"),
                False,
            )
        elif part.kind is PartKind.VARIABLE:
            yield self.value(part.text), not part.is_quoted
        elif not part.is_quoted and not place and re.match("~/" if length > 1 else "~(/|$)", part.text):
            yield self.value("HOME") + part.text[1:], False
        elif not part.is_quoted and (pattern := _PATTERN.search(part.text)):
            reason = (
                f"`{pattern[0]}` in `{part.text}` is a pattern of file names; quote it, or write the names"
            )
            yield part.text[: pattern.start()] + self._mark(reason) + part.text[pattern.end() :], False
        else:
            yield part.text, False

    def _mark(self, reason: str, size: str = "") -> str:
        self._marks.append((size, reason))
        return f"\0{len(self._marks) - 1}\0"

    def known(self, text: str, line: int) -> str:
        """The text. Raises InvalidSbatchLine if a part of it is not known."""
        if mark := _MARK.search(text):
            raise InvalidSbatchLine(line, self._marks[int(mark[1])][1])
        return text

    def with_sizes(self, text: str, line: int) -> str:
        """The same where the size of the Slurm job may be told, as to a launcher."""
        return self.known(_MARK.sub(self._size, text), line)

    def _size(self, mark: re.Match[str]) -> str:
        name = self._marks[int(mark[1])][0]
        return str(self._sizes[name]) if name in self._sizes else mark[0]


def without_marks(text: str) -> str:
    """The text as it can be shown, with ... for what is not known."""
    return _MARK.sub("...", text)
