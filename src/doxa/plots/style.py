"""The quiet style of every picture: colours, lines and marks, figures that pyplot does not know of, small PNGs.

Colours are those of Okabe & Ito (2008), which people with any of the common forms of colour blindness tell apart.
What is told by colour is told by the line or the mark as well, so that a picture can be printed in black and white.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PINK, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
BLACK, GREY = "#000000", "#888888"

Line: TypeAlias = str | tuple[float, tuple[float, ...]]  # as matplotlib takes it: "--", or on and off in points

_SMALL = 8  # points: letters of legends
_RARE = 128  # colours of a palette that are chosen to be far apart
_STYLES: tuple[Line, ...] = ("-", "--", "-.", ":")
_CHAIN_COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY, RED, BLACK)


class Look(NamedTuple):
    """How one thing is drawn in every panel of a figure."""

    colour: str
    line: Line = "-"
    mark: str = ""  # a marker of matplotlib; none by default


LOOKS = (
    Look(BLUE, "-", "o"),
    Look(ORANGE, "--", "s"),
    Look(GREEN, "-.", "^"),
    Look(PINK, ":", "D"),
    Look(SKY, (0.0, (6.0, 1.0, 1.0, 1.0, 1.0, 1.0)), "v"),
    Look(RED, (0.0, (1.0, 1.0)), "P"),
    Look(BLACK, (0.0, (8.0, 3.0)), "X"),
)
LAW_LOOKS = (Look(RED, "-"), Look(ORANGE, "--"), Look(GREEN, "-."), Look(PINK, ":"))  # approximations over draws


def chain_look(chain: int) -> Look:
    """Colour and line of a chain; 28 chains can be told apart."""
    return Look(_CHAIN_COLOURS[chain % len(_CHAIN_COLOURS)], _STYLES[chain // len(_CHAIN_COLOURS) % len(_STYLES)])


def panels(
    rows: int, columns: int, *, width: float = 10.0, height: float = 3.4, **keywords: Any
) -> tuple[Figure, NDArray[Any]]:
    """A figure and its axes.

    Parameters
    ----------
    rows, columns : int
        At least 1.
    width : float, default=10.0
        Of the whole figure, inches.
    height : float, default=3.4
        Of each row, inches.
    **keywords
        Handed to `matplotlib.figure.Figure.subplots`, such as ``sharex=True``.

    Returns
    -------
    figure : matplotlib.figure.Figure
        Not one of pyplot's: no window opens and nothing has to be closed.
    axes : ndarray of matplotlib.axes.Axes, shape (rows, columns)

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ArgumentError, ArgumentTypeError
        If ``rows`` or ``columns`` is not a whole number of at least 1.

    Examples
    --------
    >>> figure, axes = panels(2, 3, sharex=True)
    >>> axes.shape, figure.get_size_inches().tolist()
    ((2, 3), [10.0, 6.8])
    """
    rows, columns = check_whole("rows", rows, 1), check_whole("columns", columns, 1)
    figure = new_figure("panels", (width, height * rows))
    return figure, np.asarray(figure.subplots(rows, columns, squeeze=False, **keywords))


def save_png(figure: Figure, path: str | os.PathLike[str], *, dpi: float = 90.0) -> Path:
    """Write a small PNG: a palette of 256 colours in place of full ones, a third of the size.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : str or path
        Written over if it exists.
    dpi : float, default=90.0
        Dots an inch.

    Returns
    -------
    pathlib.Path
        The path. The same picture gives the same bytes: there is no date in the file.

    Examples
    --------
    >>> import tempfile
    >>> figure, _ = panels(1, 1, width=4.0)
    >>> path = save_png(figure, Path(tempfile.mkdtemp()) / "empty.png")
    >>> path.stat().st_size < 4000
    True
    """
    from PIL import Image  # which matplotlib needs, so it is there

    image = Image.fromarray(_drawn(figure, dpi)).convert("RGB")
    covering = image.quantize(_RARE, method=Image.Quantize.MAXCOVERAGE).getpalette() or []
    places, palette = _indexed(np.asarray(image), np.reshape(covering, (-1, 3)))
    small = Image.fromarray(places)
    small.putpalette(palette.ravel().tolist())
    target = Path(path)
    small.save(target, "PNG", optimize=True)
    return target


def _drawn(figure: Figure, dpi: float) -> NDArray[np.uint8]:
    """What ``savefig`` writes, shape (height, width, 4), without the rehearsal that it draws before."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    own_canvas, own_dpi = figure.canvas, figure.dpi
    canvas: Any = FigureCanvasAgg(figure)
    try:
        figure.dpi = dpi
        canvas.draw()
        return np.array(canvas.buffer_rgba())
    finally:
        figure.dpi = own_dpi
        figure.set_canvas(own_canvas)


def _indexed(pixels: NDArray[np.uint8], rare: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Each pixel's place in a palette: of the colours that fill most of the picture, as they are, and of rare ones."""
    packed = pixels.reshape(-1, 3).astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
    colours, kind, counts = np.unique(packed, return_inverse=True, return_counts=True)
    apart = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1)
    frequent = np.argsort(-counts, kind="stable")[: 256 - len(rare)]
    palette = np.concatenate([apart[frequent], rare[:_RARE]])
    corners = palette.astype(np.float32)  # exact: squares are below 200,000
    squares = (corners**2).sum(axis=1)
    parts = np.array_split(apart.astype(np.float32), len(apart) // 10_000 + 1)
    nearest = np.concatenate([(squares - 2 * part @ corners.T).argmin(axis=1) for part in parts]).astype(np.uint8)
    return nearest[kind].reshape(pixels.shape[:2]), palette


def legend_below(figure: Figure, ax: Axes, columns: int = 4) -> None:
    """One legend for a whole figure, below its panels.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        With constrained layout, as `panels` makes it.
    ax : matplotlib.axes.Axes
        The panel whose names are shown, each once.
    columns : int, default=4

    Examples
    --------
    >>> figure, ((left, right),) = panels(1, 2)
    >>> for ax in (left, right):
    ...     _ = ax.plot([1, 2], label="the same in both")
    >>> legend_below(figure, left)
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['the same in both']
    """
    handles, labels = ax.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    legend = figure.legend(
        list(once.values()), list(once), loc="outside lower center", ncols=columns, frameon=False, fontsize=_SMALL
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def new_figure(caller: str, size: tuple[float, float]) -> Figure:
    """A figure of so many inches; MissingExtraError, in the caller's name, where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"{caller} needs the package matplotlib: pip install 'doxa[plot]'") from error
    return Figure(figsize=size, layout="constrained")


def axes_or_new(ax: Axes | None, caller: str, size: tuple[float, float]) -> Axes:
    """The axes given, or those of a new figure."""
    return new_figure(caller, size).add_subplot() if ax is None else ax


def name_axes(ax: Axes, x: str, y: str, title: str = "") -> None:
    """Label the axes; names are shown as they are, dollar signs and all."""
    ax.set_xlabel(x, parse_math=False)
    ax.set_ylabel(y, parse_math=False)
    if title:
        ax.set_title(title, fontsize=10, parse_math=False)


def quiet_legend(ax: Axes, *, beside: bool = False, **keywords: Any) -> None:
    """A legend without a frame, inside or right of the axes, where there is something to tell."""
    handles, labels = ax.get_legend_handles_labels()
    if not handles:
        return
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0} if beside else {}
    legend = ax.legend(handles, labels, frameon=False, fontsize=_SMALL, **(place | keywords))
    for text in legend.get_texts():
        text.set_parse_math(False)
