"""The page is one file that allows nothing but itself, holds any name unharmed, and is written whole or not at all."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib import import_module

import pytest
from page_cases import HOSTILE, WRITTEN

import doxa
from doxa.errors import ArgumentError, DoxaError
from doxa.report import page_text, write_report
from doxa.report.document import LAYOUTS, AssetsMissingError, document, libraries, own_text
from doxa.report.numbers import json_block, significant

pytestmark = pytest.mark.usefixtures("bundled")
KILOBYTE = 1000


class Reader(HTMLParser):
    """Elements, the texts of scripts and styles, and all attributes."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.open = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.open = (tag, dict(attrs))

    def handle_data(self, data):
        if self.open:
            self.texts.append((*self.open, data))

    def handle_endtag(self, tag):
        if self.open and tag == self.open[0]:
            self.open = None

    @property
    def policy(self):
        (policy,) = (a["content"] for t, a in self.attributes if a.get("http-equiv") == "Content-Security-Policy")
        return dict(part.split(" ", 1) for part in policy.split("; "))

    @property
    def data(self):
        (text,) = (text for _, attributes, text in self.texts if attributes.get("type") == "application/json")
        return json.loads(text)


@pytest.fixture(scope="module")
def text(reinis):
    return page_text(reinis, written=WRITTEN)


def hashed(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def test_the_policy_allows_the_scripts_and_styles_that_are_there_and_no_others(text):
    page = Reader(text)
    for tag in ("script", "style"):
        own = [hashed(body) for kind, attributes, body in page.texts if kind == tag and "type" not in attributes]
        assert page.policy[f"{tag}-src"].split(" ") == own or set(page.policy[f"{tag}-src"].split(" ")) == set(own)
    assert page.policy["default-src"] == "'none'"
    assert page.policy["img-src"] == "data:"
    assert set(page.policy) == {"default-src", "script-src", "style-src", "img-src", "base-uri", "form-action"}
    assert "unsafe" not in " ".join(page.policy.values())


def test_nothing_is_loaded_from_anywhere(text):
    for tag, attributes in Reader(text).attributes:
        assert not {"src", "srcset", "action", "style", "ping"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert attributes.get("href", "#").startswith(("#", "data:,")), tag


@pytest.mark.parametrize("name", sorted({name for layout in LAYOUTS.values() for name in layout.modules}))
def test_our_scripts_make_no_markup_and_no_code(name):
    source = own_text(name)
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "fetch("):
        assert word not in source
    assert not any(line.count("`") % 2 for line in source.splitlines())  # such a text would lose its indentation


def test_libraries_come_with_their_licences(text):
    for library in libraries():
        assert f"{library.name} {library.version}" in text
        assert library.script in text
        assert "Permission is hereby granted, free of charge" in library.licence
        assert library.licence.strip().splitlines()[0] in text


def test_hostile_names_are_data_and_nothing_else(hostile):
    text = page_text(hostile, title=f"On {HOSTILE} & more", written=WRITTEN)
    page = Reader(text)
    assert "img" not in page.tags
    assert page.tags.count("script") == 4
    assert page.data["graphs"]["names"] == list(hostile.names)
    assert page.data["nodes"]["states"] == [list(states) for states in hostile.table.states]
    assert "\u2028" not in text
    assert HOSTILE not in text
    assert f"<title>On {HOSTILE}".lower() not in text.lower()


def test_json_that_cannot_end_its_element():
    data = {"</script><!--": ["<", ">", "&", "\u2028", "\u2029", "\ud800", "é🦉"]}
    block = json_block(data)
    assert not set("<>&\u2028\u2029") & set(block)
    assert json.loads(block) == data
    block.encode("utf-8")
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_block([float("nan")])


def test_short_numbers():
    assert significant([0.0, 3.14159, 123456.0, -0.00098765, float("nan")], 3) == [0, 3.14, 123000, -0.000988, None]


def test_the_same_posterior_makes_the_same_bytes(reinis, text):
    reinis.__dict__.pop("_usual_draws", None)
    assert page_text(reinis, written=WRITTEN) == text
    assert page_text(reinis) != text


def test_a_page_of_alarm_is_small(alarm, tmp_path, monkeypatch):
    for module, name, few in (("simulation", "_MOST_TABLES", 4000), ("of_graphs", "_NETWORKS", 20)):
        monkeypatch.setattr(import_module(f"doxa.report.{module}"), name, few)  # of which the page has no less to show
    path = write_report(alarm, tmp_path / "alarm.html", written=WRITTEN)
    assert path.stat().st_size < 800 * KILOBYTE


def test_an_older_page_is_replaced_whole_or_not_at_all(reinis, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("older")
    monkeypatch.setattr(import_module("doxa.report.writing"), "document", lambda data: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(reinis, path)
    assert path.read_text() == "older"
    monkeypatch.undo()
    assert write_report(reinis, path) == path
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_that_is_not_there(reinis, tmp_path):
    with pytest.raises(ArgumentError, match="there is no folder"):
        write_report(reinis, tmp_path / "none" / "report.html")


def test_missing_libraries_say_what_makes_them(reinis, monkeypatch, tmp_path):
    monkeypatch.setattr(import_module("doxa.report.document"), "files", lambda package: tmp_path)
    libraries.cache_clear()
    try:
        with pytest.raises(AssetsMissingError, match=re.escape("python scripts/fetch_page_assets.py")) as error:
            libraries()
    finally:
        libraries.cache_clear()
    assert isinstance(error.value, DoxaError)


def test_a_script_that_would_end_early_is_refused(monkeypatch):
    monkeypatch.setitem(LAYOUTS, "values", LAYOUTS["values"]._replace(modules=("page.html",)))
    with pytest.raises(ValueError, match="ends it early"):
        document({"kind": "values", "title": "x"})


def test_importing_doxa_does_not_load_the_page():
    import subprocess
    import sys

    code = "import sys, doxa; sys.exit('doxa.report' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert doxa.__name__ == "doxa"
