"""Colours, and small PNGs.  The colours are those of Okabe & Ito (2008); curves also differ in their lines."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.figure import Figure

__all__ = ["BLACK", "BLUE", "GREEN", "GREY", "ORANGE", "PINK", "RED", "SKY", "panels", "save"]

BLUE, ORANGE, GREEN, PINK, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
BLACK, GREY = "#000000", "#888888"
_COLOURS = 256  # of a palette: lines and contours on white need no more


def panels(rows: int, columns: int, *, width: float = 10.0, height: float = 3.4, **keywords: object):
    """A figure and its axes, an array of ``rows`` x ``columns``."""
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **keywords)


def save(figure: Figure, path: Path) -> Path:
    """Write a small PNG: with a palette in place of full colours."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    image = Image.open(buffer).convert("RGB")
    image.quantize(_COLOURS, method=Image.Quantize.MAXCOVERAGE).save(path, optimize=True)  # keeps rare colours apart
    return path
