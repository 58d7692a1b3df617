"""What every script of an experiment prints first: a table of claims, each with its verdict."""

from __future__ import annotations

from collections.abc import Sequence


def check_claims(printed: str, heads: Sequence[str]) -> None:
    """Hold the first block of what was printed to the form of such a table."""
    assert "nan" not in printed
    head, rule, *rows = printed.split("\n\n")[0].splitlines()
    assert head == "| " + " | ".join(heads) + " |"
    assert set(rule) == set("|- ")
    assert rows
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == len(heads)
        assert cells[1]
        assert cells[2]
        assert cells[3] in ("holds", "in part", "does not hold", "cannot be told"), row
