"""Figure 4.2: the states that a chain comes to, whether all of them are within reach or not.

The chapter draws regions without a scale.  Here they are squares of a board on which a walk goes to a neighbouring
square or stays; a wall across the board makes the chain reducible.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from doxa.plots import panels
from doxa.testing import FiniteChain
from logistic_papers.claims import Claim, holds_if
from logistic_papers.script import Outcome

SIDE, WALL = 12, 6  # squares of a side; the column in which the wall stands
STEPS = 20_000
_SEED = 42


class Walk(NamedTuple):
    """One board."""

    chain: FiniteChain
    squares: NDArray[np.int64]  # (n_states, 2)
    visits: NDArray[np.int64]  # (n_states,), of one walk from the lower left


def run(quick: bool) -> Outcome:
    walks = {"irreducible": walk(wall=False, quick=quick), "reducible": walk(wall=True, quick=quick)}
    return Outcome(claims(walks), {"reachable_figure_4_2": draw(walks)})


def walk(*, wall: bool, quick: bool) -> Walk:
    squares = np.array([(x, y) for x in range(SIDE) for y in range(SIDE) if not (wall and x == WALL)])
    number = {tuple(square): k for k, square in enumerate(squares.tolist())}
    matrix = np.zeros((len(squares), len(squares)))
    for (x, y), k in number.items():
        for step in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            matrix[k, number.get((x + step[0], y + step[1]), k)] += 0.25
    rng = np.random.default_rng(_SEED)
    visits, here = np.zeros(len(squares), dtype=np.int64), number[0, 0]
    reach = np.cumsum(matrix, axis=1)
    for u in rng.random(STEPS // 10 if quick else STEPS).tolist():
        here = int(np.searchsorted(reach[here], u))
        visits[here] += 1
    return Walk(FiniteChain(matrix), squares, visits)


def claims(walks: dict[str, Walk]) -> list[Claim]:
    whole, cut = walks["irreducible"], walks["reducible"]
    own = next(set(part.states) for part in cut.chain.classes if 0 in part.states)
    seen = set(np.flatnonzero(cut.visits).tolist())
    return [
        Claim(
            "4.2 left", "an irreducible chain reaches every state, wherever it starts",
            f"{len(whole.chain.classes)} class; one walk of {whole.visits.sum():,} steps has been on "
            f"{(whole.visits > 0).sum()} of {len(whole.squares)} squares",
            holds_if(whole.chain.is_irreducible and len(whole.chain.classes) == 1),
            "`FiniteChain.is_irreducible`, before a step is made",
        ),
        Claim(
            "4.2 right", "a reducible chain explores the region of its start alone",
            f"{len(cut.chain.classes)} classes; the walk has been on {len(seen)} squares, all among the {len(own)} on "
            f"its side, of {len(cut.squares)}",
            holds_if(not cut.chain.is_irreducible and seen <= own),
            "`FiniteChain.stationary` refuses it: there is not one distribution but one for each class",
        ),
    ]  # fmt: skip


def draw(walks: dict[str, Walk]) -> Figure:
    figure, axes = panels(1, 2, width=8.0)
    for ax, (name, found) in zip(axes[0], walks.items(), strict=True):
        board = np.full((SIDE, SIDE), 2.0)  # black: no square of the board
        board[found.squares[:, 1], found.squares[:, 0]] = np.where(found.visits > 0, 1.0, 0.0)
        ax.imshow(board, origin="lower", cmap="Greys", vmin=0.0, vmax=2.0)
        ax.plot(0, 0, "ko", markersize=5)
        ax.set_title(name)
        ax.set_xticks([])
        ax.set_yticks([])
    return figure
