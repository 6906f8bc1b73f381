"""Names of tensors in a table: whole for programs, shortened in the middle where a terminal is too narrow."""

from __future__ import annotations

_LEAST = 20  # characters that a name keeps however narrow the terminal is


def printable(text: str) -> str:
    """The text without characters that could control a terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)


def shortened(text: str, width: int) -> str:
    """At most ``width`` characters of a text: its begin and its end."""
    width = max(width, _LEAST)
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def fit(columns: list[list[str]], flexible: tuple[int, ...], width: int) -> list[list[str]]:
    """Columns of a table, the flexible ones shortened so that rows of all with a space between fit in ``width``."""
    widths = [max(map(len, column)) for column in columns]
    spare = width - (len(columns) - 1) - sum(w for n, w in enumerate(widths) if n not in flexible)
    left = sorted(flexible, key=lambda number: widths[number])
    result = list(columns)
    for position, number in enumerate(left):  # the narrow ones leave what they do not need to the wide ones
        share = max(spare // (len(left) - position), _LEAST)
        result[number] = [shortened(text, share) for text in columns[number]]
        spare -= min(widths[number], share)
    return result
