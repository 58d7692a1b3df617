"""The documentation site: what its parts make of our sources, and a checker of links that finds what is broken.

``make docs`` builds the site with warnings as errors and checks it; here are the parts alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import doxa

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_site"))

from doxa_site import commands, navigation, reference, rooms  # noqa: E402

PRIVATE_ROOMS = {"doxa.cli", "doxa.report"}  # the commands and `doxa.report` are told elsewhere
MADE = {"reference/index", "reference/command-line", "reference/changelog"}


@pytest.fixture(scope="module")
def checker():
    spec = importlib.util.spec_from_file_location("check_site", ROOT / "scripts" / "check_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FIRST = """<!doctype html><html><head><link rel="stylesheet" href="_static/a.css?v=1"><link rel="author" href="https://x.org">
<style>p {{ background: url(figure.png) }}</style></head>
<body id="top-of-page"><a href="#top-of-page">up</a> <a href="sub/second.html#caf%C3%A9">on</a> <a name="old"></a>
<a href="https://example.org/page">away</a> <a href="mailto:a@example.org">write</a> <img src="figure.png"
srcset="figure.png 1x, figure.png 2x"><img src="data:image/png;base64,AA"><a href="#old">old</a> <a href="#top">top</a>
<script src="_static/a.js"></script>{}</body></html>"""
SECOND = '<html><body><p id="café"><a href="../index.html">back</a> <a href="../figure.png#xywh=1">part</a></p>'


def write_site(folder, extra="", style='@font-face { src: url("b.woff2") } /* url(none) */'):
    (folder / "_static").mkdir(parents=True)
    (folder / "sub").mkdir()
    (folder / "index.html").write_text(FIRST.format(extra), encoding="utf-8")
    (folder / "sub" / "second.html").write_text(SECOND, encoding="utf-8")
    (folder / "_static" / "a.css").write_text(style, encoding="utf-8")
    for name in ("_static/a.js", "_static/b.woff2", "figure.png"):
        (folder / name).write_bytes(b"x")
    return folder


def test_a_whole_site_has_no_problem(checker, tmp_path, capsys):
    site = write_site(tmp_path / "site")
    found = checker.check(site)
    assert found.problems == []
    assert found.external == ["https://example.org/page", "https://x.org", "mailto:a@example.org"]
    assert found.n_pages == 2
    assert checker.main([str(site)]) == 0
    assert "  https://example.org/page\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        ('<a href="gone.html">', "index.html: gone.html is no file of the site"),
        ('<a href="sub">', "index.html: sub is no file of the site"),
        ('<a href="#gone">', "index.html: #gone names an anchor that is not there"),
        ('<a href="sub/second.html#cafe">', "index.html: sub/second.html#cafe names an anchor that is not there"),
        (
            '<a href="/sub/second.html">',
            "index.html: /sub/second.html begins at the root, which a folder does not have",
        ),
        ('<a href="../README.md">', "index.html: ../README.md leads out of the site"),
        ('<img src="gone.png">', "index.html: gone.png is no file of the site"),
        ('<img srcset="figure.png 1x, gone.png 2x">', "index.html: gone.png is no file of the site"),
        ('<p style="background: url(gone.png)">', "index.html: gone.png is no file of the site"),
        ("<style>p { background: url(gone.png) }</style>", "index.html: gone.png is no file of the site"),
        ('<script src="https://cdn.org/a.js"></script>', "index.html: https://cdn.org/a.js is loaded from outside"),
        ('<link rel="stylesheet" href="//fonts.org/a.css">', "index.html: //fonts.org/a.css is loaded from outside"),
        ('<img src="http://x.org/a.png">', "index.html: http://x.org/a.png is loaded from outside"),
        ('<iframe src="https://x.org"></iframe>', "index.html: https://x.org is loaded from outside"),
        (
            '<meta http-equiv="refresh" content="0; url=https://x.org">',
            "index.html: https://x.org is loaded from outside",
        ),
    ],
)
def test_a_broken_page_is_found(checker, tmp_path, capsys, extra, problem):
    site = write_site(tmp_path / "site", extra)
    assert checker.check(site).problems == [problem]
    assert checker.main([str(site)]) == 1
    assert problem in capsys.readouterr().out


def test_a_broken_style_sheet_and_an_orphan_are_found(checker, tmp_path):
    site = write_site(tmp_path / "site", style='@import "https://fonts.org/a.css"; p { src: url(gone.woff2) }')
    (site / "alone.html").write_text("<p>", encoding="utf-8")
    assert checker.check(site).problems == [
        "_static/a.css: https://fonts.org/a.css is loaded from outside",
        "_static/a.css: gone.woff2 is no file of the site",
        "alone.html: no page links to it",
    ]


def test_a_folder_without_pages_is_no_site(checker, tmp_path):
    assert checker.main([str(tmp_path)]) == 1


def test_every_page_has_one_place_in_the_side_bar():
    named = [page for pages in navigation.pages_of(DOCS).values() for page in pages]
    named += [
        page
        for index in named
        if index.endswith("/index") and index not in MADE
        for page in navigation.beside(DOCS, index)
    ]
    written = {path.relative_to(DOCS).as_posix().removesuffix(".md") for path in DOCS.rglob("*.md")} - MADE
    assert sorted(set(named) - MADE) == sorted(written - {"index"})
    assert len(set(named)) == len(named)


def test_an_index_orders_its_folder(tmp_path):
    folder = tmp_path / "how-to"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.md").write_text("# x", encoding="utf-8")
    (folder / "index.md").write_text("[c](c.md), then [a](a.md)", encoding="utf-8")
    assert navigation.beside(tmp_path, "how-to/index") == ["how-to/c", "how-to/a", "how-to/b"]
    assert navigation.pages_of(tmp_path)["How to"] == ["how-to/index"]


def test_every_room_is_in_the_reference():
    packages = {f"doxa.{module.name}" for module in pkgutil.iter_modules(doxa.__path__) if module.ispkg}
    assert packages - PRIVATE_ROOMS <= {room.module for room in rooms.ROOMS}


def test_every_public_name_of_a_room_is_documented_once():
    entries = reference.entries()
    for room in rooms.ROOMS:
        for module_name in (room.module, *room.also):
            module = importlib.import_module(module_name)
            for name in getattr(module, "__all__", ()):
                value = getattr(module, name)
                if inspect.isclass(value) or inspect.isroutine(value):
                    assert [entry for entry in entries if entry.value is value and entry.page == room.module], name
    first = [entry.name for entry in entries if entry.first]
    assert len(set(first)) == len(first)
    assert {"doxa.learn", "doxa.structure.BDeu", "doxa.parameters.kernels.RandomWalk"} <= set(first)


def names_imported_by_the_pages():
    for path in sorted(DOCS.rglob("*.md")):
        page = path.read_text(encoding="utf-8")
        for module, names in re.findall(r"^(?:>>> )?from (doxa[\w.]*) import (\([^)]*\)|[^(\n]*)$", page, re.MULTILINE):
            yield from ((path.name, module, name) for name in re.findall(r"\w+", names.partition("#")[0]))


def test_what_the_pages_import_is_in_the_reference():
    documented = {id(entry.value) for entry in reference.entries()}
    imported = list(names_imported_by_the_pages())
    assert len(imported) > 10
    for page, module, name in imported:
        value = getattr(importlib.import_module(module), name)
        if inspect.isclass(value) or inspect.isroutine(value):
            assert id(value) in documented, (
                f"{page} imports {name} from {module}, which docs/_site/doxa_site/rooms.py leaves out"
            )


def test_a_class_of_the_reference_shows_members_and_commented_fields():
    page = reference.pages()["doxa.structure"]
    assert ".. autoclass:: doxa.structure.MarkovBlanket\n   :members: " in page
    sampled = page[page.index(".. autoclass:: doxa.structure.SampledGraph") :]
    assert ".. py:attribute:: log_score\n      :type: float\n" in sampled[:600]
    assert "nats" in sampled[:600]


def test_the_command_line_page_has_every_command_and_option():
    import typer.main

    from doxa.cli import app

    page = " ".join(commands.page().replace("\\", "").split())
    group = typer.main.get_command(app)
    assert len(group.commands) > 5
    for name, command in group.commands.items():
        assert f"doxa {name} ---" in page
        assert " ".join(command.help.split()) in page
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                assert option in page
            assert " ".join((parameter.help or "").split()) in page


def test_formulas_are_understood():
    errors = pytest.importorskip("docutils.utils.math")
    pytest.importorskip("sphinx")
    from doxa_site.mathematics import to_mathml

    half = to_mathml(r"\tfrac12 q")
    assert re.sub(r"\s", "", half).count("<mn>1</mn><mn>2</mn>") == 1
    assert to_mathml(r"1, \dots, n", block=True).count('display="block"') == 1
    small = to_mathml(r"\{-1, +1\}")
    assert small.count('stretchy="false">{') == small.count('stretchy="false">}') == 1
    assert "stretchy" not in to_mathml(r"\left\{ \sum_i x_i \right\}")
    for formula in (r"\Big[ x \Big]", r"\min\Big\{1, x\Big\}", r"\big( x \big)"):
        assert to_mathml(formula).count("minsize") == 2
    with pytest.raises(errors.MathError, match="nosuchcommand"):
        to_mathml(r"\nosuchcommand")


def test_bars_in_docstrings_mean_bars():
    pytest.importorskip("sphinx")
    from doxa_site.docstrings import with_plain_bars

    same = [
        "P(a | b) P(c | d) and ``|a|`` and :math:`|b|`",
        ".. math:: |x|",
        "    + |y|",
        "",
        ">>> print(f'|{x}|')",
        "|x|",
        "",
        "As here::",
        "",
        "    |x| in a block",
        "",
    ]
    assert with_plain_bars([*same, "sums of |J| and |n - 1|"]) == [*same, r"sums of \|J\| and \|n - 1\|"]


def test_pages_are_put_right_for_keyboards_once():
    pytest.importorskip("sphinx")
    from doxa_site.accessible import with_help

    page = with_help('<pre>x</pre><p class="caption" role="heading">Start</p>')
    assert page == '<pre tabindex="0">x</pre><p class="caption" role="heading" aria-level="2">Start</p>'
    assert with_help(page) == page
    signature = '<dl>\n<dd><em class="sig-param">table</em>,</dd>\n</dl>'
    assert with_help(signature) == '<span class="sig-params">\n<span><em class="sig-param">table</em>,</span>\n</span>'
    definitions = "<dl>\n<dd>not ours</dd>\n</dl>"
    assert with_help(definitions) == definitions
