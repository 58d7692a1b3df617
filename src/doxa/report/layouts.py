"""The kinds of page: of each its sections, scripts and libraries, so that no page carries what it does not use."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["LAYOUTS", "Layout"]

_FIRST = ("text.js", "theme.js", "table.js", "verdict.js")


class Layout(NamedTuple):
    """What a kind of page is made of."""

    sections: str  # the file that holds them
    links: tuple[tuple[str, str], ...]  # id and title of each, in order
    modules: tuple[str, ...]  # scripts, in the order in which they are put together
    libraries: tuple[str, ...]
    styles: tuple[str, ...]


LAYOUTS = {
    "graphs": Layout(
        "graphs.html",
        (
            ("verdict", "Verdict"),
            ("network", "Network"),
            ("inspector", "Inspector"),
            ("evidence", "Evidence"),
            ("tables", "Tables"),
        ),
        (
            *_FIRST,
            "packing.js",
            "views.js",
            "network.js",
            "network_keys.js",
            "plots.js",
            "figures.js",
            "evidence.js",
            "bars.js",
            "inspector.js",
            "query.js",
            "start_graphs.js",
        ),
        ("Cytoscape.js", "uPlot"),
        ("page.css", "cytoscape.css"),
    ),
    "parameters": Layout(
        "parameters.html",
        (("verdict", "Verdict"), ("coefficients", "Parameters"), ("method", "Method"), ("evidence", "Evidence")),
        (
            *_FIRST,
            "packing.js",
            "plots.js",
            "figures.js",
            "coefficients.js",
            "fit_method.js",
            "fit_evidence.js",
            "start_parameters.js",
        ),
        ("uPlot",),
        ("page.css",),
    ),
    "values": Layout(
        "values.html",
        (
            ("verdict", "Verdict"),
            ("grid", "Grid"),
            ("marginals", "Marginals"),
            ("method", "Method"),
            ("tables", "Table"),
        ),
        (*_FIRST, "packing.js", "bars.js", "grid.js", "marginals.js", "start_values.js"),
        (),
        ("page.css",),
    ),
}
