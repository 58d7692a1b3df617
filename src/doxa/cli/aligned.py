"""A table of texts for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["aligned"]


def aligned(rows: Sequence[Sequence[str]], n_left: int) -> str:
    """Lines of a table: the first ``n_left`` columns to the left, the others to the right.

    Columns are as wide as their widest cell, whatever the terminal: a cut name or number is worse than a long line.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(w) if column < n_left else cell.rjust(w)
            for column, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
