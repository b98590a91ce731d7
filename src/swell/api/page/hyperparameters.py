"""What a job was given to train with, by name: the options of its script, and the parameters of its sweep."""

from __future__ import annotations

import re
from collections.abc import Sequence

from swell.model.view import JobView

#: What a switch without a value has.
SWITCHED_ON = "on"

_NUMBER = re.compile(r"-\.?\d[\d.eE+-]*$")
_ASSIGNMENT = re.compile(r"([A-Za-z_][\w.\-/]*)=(.*)", re.DOTALL)


def hyperparameters(view: JobView) -> dict[str, str]:
    """Values by name. Of a name that both have, the script's option counts."""
    given = options(view.args)
    of_tags = (found for tag in view.tags if (found := _ASSIGNMENT.fullmatch(tag)))
    return given | {found[1]: found[2] for found in of_tags if found[1] not in given}


def options(args: Sequence[str]) -> dict[str, str]:
    """Read a command line as most scripts do: `--lr 0.1`, `--lr=0.1`, `-b 64`, `--amp`, `lr=0.1`.

    What follows an option up to the next one is its value, for the script alone knows how many words it
    takes. Words before all options are `argument 1` and so on.
    """
    found: dict[str, list[str]] = {}
    name, num_alone = "", 0
    for place, word in enumerate(args):
        if word == "--":
            return _values(found) | {
                f"argument {num_alone + n}": one for n, one in enumerate(args[place + 1 :], 1)
            }
        if word.startswith("-") and word != "-" and not _NUMBER.match(word):
            name, has_value, value = word.lstrip("-").partition("=")
            found.setdefault(name, []).extend([value] if has_value else [])
            name = "" if has_value else name
        elif name:
            found[name].append(word)
        elif assignment := _ASSIGNMENT.fullmatch(word):
            found.setdefault(assignment[1], []).append(assignment[2])
        else:
            num_alone += 1
            found[f"argument {num_alone}"] = [word]
    return _values(found)


def _values(found: dict[str, list[str]]) -> dict[str, str]:
    return {name: " ".join(words) or SWITCHED_ON for name, words in found.items()}
