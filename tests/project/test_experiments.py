"""The experiments run: their quick form prints its tables and draws its figures, with numbers that mean nothing."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
from pathlib import Path

import pytest

import doxa.plots

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "experiments").glob("*.py"))
GALLERY = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """What the script prints, and the folder of its figures."""
    folder, printed = tmp_path_factory.mktemp("figures"), io.StringIO()
    script = ROOT / "experiments" / "riggelsen_figures_4_5_to_4_8.py"
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(printed):
        patched.setattr(sys, "argv", [str(script), "--quick", "--figures", str(folder)])
        patched.syspath_prepend(script.parent)
        runpy.run_path(str(script), run_name="__main__")
    return printed.getvalue(), folder


def test_the_riggelsen_script_prints_every_claim(quick):
    text, _ = quick
    for heading in (
        "the chapter says",
        "we find (printed kernel)",
        "we find (corrected kernel)",
        "most frequent graph",
    ):
        assert heading in text
    for figure in ("4.5 top", "4.5 bottom", "4.6", "4.7", "4.8"):
        assert any(line.startswith(f"{figure} ") for line in text.splitlines()), f"figure {figure} is not in the table"
    assert "nan" not in text


def test_the_riggelsen_script_draws_every_figure(quick):
    _, folder = quick
    drawn = {path.name for path in folder.iterdir()}
    assert drawn == {path.name for path in (ROOT / "docs" / "figures").glob("riggelsen_*.png")}
    assert {f"riggelsen_figure_4_{n}.png" for n in (5, 6, 7, 8)} < drawn


def test_every_figure_of_the_documentation_is_small_and_shown():
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    for path in (ROOT / "docs" / "figures").glob("riggelsen_*.png"):
        assert path.stat().st_size < 120_000, f"{path.name} has {path.stat().st_size} bytes"
        assert f"(figures/{path.name})" in page, f"docs/experiments.md does not show {path.name}"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_is_named_on_the_page(script):
    assert f"experiments/{script.name}" in (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_gallery_has_the_command_of_every_script(script):
    assert f"$ python experiments/{script.name}\n" in GALLERY


def test_the_pictures_of_the_gallery_are_there_and_small_and_each_is_shown_once():
    shown = re.findall(r"^!\[[^]]+\]\(figures/(\S+\.png)\)$", GALLERY, re.MULTILINE)
    assert len(shown) == len(set(shown))
    for name in shown:
        size = (ROOT / "docs" / "figures" / name).stat().st_size
        assert size < (60_000 if name.startswith("plot_") else 120_000), f"{name} has {size} bytes"
    own = {name for name in shown if name.startswith("plot_")}
    assert own == {path.name for path in (ROOT / "docs" / "figures").glob("plot_*.png")}


def test_every_plot_of_the_library_is_in_the_gallery():
    for name in doxa.plots.__all__:
        if name.startswith("plot_"):
            assert f"{name}(" in GALLERY, f"docs/gallery.md does not show {name}"


def test_the_gallery_names_headings_that_exist():
    for page, anchor in re.findall(r"\]\((\S+\.md)#(\S+)\)", GALLERY):
        headings = re.findall(r"^#+ (.*)$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE)
        slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert anchor in slugs, f"{page} has no heading {anchor}"


def test_what_draws_in_experiments_draws_with_the_library():
    """Matplotlib's own calls are for what is particular to one figure."""
    drawing = [
        path
        for path in (ROOT / "experiments").rglob("*.py")
        if re.search(r"^from matplotlib.axes|\bpanels\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(drawing) >= 10
    for path in drawing:
        text = path.read_text(encoding="utf-8")
        assert "from doxa.plots import" in text, f"{path} draws by hand"
        assert "pyplot" not in text
