"""Check the links of a built site: every file and anchor that a page names is there; nothing is loaded from outside.

    python scripts/check_site.py [site]

The site must work from a folder, without a network: what a page loads (scripts, styles, fonts, pictures) must be a
file of the site, named relative to the page.  Links that a reader may follow elsewhere are listed, not fetched.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent

_CSS_URL = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s;]+)""")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# rel of <link> that a browser follows by itself; the others (next, search, author ...) are for the reader
_LOADING_RELS = {
    "stylesheet",
    "icon",
    "shortcut",
    "preload",
    "prefetch",
    "modulepreload",
    "manifest",
    "preconnect",
    "dns-prefetch",
}
_LOADING_ATTRIBUTES = {
    "script": ("src",), "img": ("src", "srcset"), "source": ("src", "srcset"), "iframe": ("src",), "embed": ("src",),
    "video": ("src", "poster"), "audio": ("src",), "track": ("src",), "object": ("data",), "input": ("src",),
    "image": ("href", "xlink:href"), "use": ("href", "xlink:href"), "body": ("background",),
}  # fmt: skip


class Link(NamedTuple):
    """What a page or a style sheet names."""

    target: str
    loaded: bool  # by the browser, unasked


class Page(NamedTuple):
    """One file of the site, read."""

    anchors: frozenset[str]
    links: tuple[Link, ...]


class Findings(NamedTuple):
    """What was found in a site."""

    problems: list[str]
    external: list[str]
    n_pages: int
    n_links: int


def main(arguments: list[str] | None = None) -> int:
    """Print what is wrong with a site; the status of the command."""
    parser = argparse.ArgumentParser(description="Check the links of a built site.")
    parser.add_argument("site", nargs="?", type=Path, default=ROOT / "site")
    found = check(parser.parse_args(arguments).site)
    if found.external:
        print("links that leave the site, not fetched:", *found.external, sep="\n  ")
    print(*found.problems, sep="\n", end="\n" if found.problems else "")
    print(f"site: {found.n_pages} pages, {found.n_links} links, {len(found.problems)} problems")
    return 1 if found.problems or not found.n_pages else 0


def check(site: Path) -> Findings:
    """Follow every link of every page and style sheet of a folder."""
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    read = {file: read_page(site / file) for file in sorted(files) if file.endswith((".html", ".css"))}
    problems: dict[str, None] = {}
    external: set[str] = set()
    linked = {"index.html"}
    for file, page in read.items():
        for link in page.links:
            parts = urlsplit(link.target)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                external.add(link.target)
                problem = "is loaded from outside" if link.loaded else None
            else:
                target = posixpath.normpath(posixpath.join(posixpath.dirname(file), unquote(parts.path)))
                target = target if parts.path else file
                linked |= {target} - {file}
                problem = why_broken(parts.path, target, unquote(parts.fragment), files, read)
            if problem:
                problems[f"{file}: {link.target} {problem}"] = None
    pages = [file for file in read if file.endswith(".html")]
    problems |= {f"{file}: no page links to it": None for file in pages if file not in linked}
    return Findings(list(problems), sorted(external), len(pages), sum(len(page.links) for page in read.values()))


def why_broken(named: str, target: str, fragment: str, files: set[str], read: dict[str, Page]) -> str | None:
    """What is wrong with a link within the site; None where it leads somewhere."""
    if named.startswith("/"):
        return "begins at the root, which a folder does not have"
    if target.startswith("../"):
        return "leads out of the site"
    if target not in files:
        return "is no file of the site"
    if not fragment or fragment == "top" or not target.endswith(".html"):
        return None  # an anchor in a file of another kind, such as a picture, is not ours to check
    return None if fragment in read[target].anchors else "names an anchor that is not there"


def read_page(path: Path) -> Page:
    """The anchors and links of a page or a style sheet."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        return Page(frozenset(), tuple(style_links(text)))
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return Page(frozenset(reader.anchors), tuple(reader.links))


def style_links(text: str) -> Iterator[Link]:
    """What a style sheet loads."""
    for match in _CSS_URL.finditer(_COMMENT.sub("", text)):
        yield Link(match[1], loaded=True)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[Link] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given and (name == "id" or tag == "a")}
        self.links.extend(style_links(given.get("style", "")))
        self._in_style = tag == "style"
        if tag in ("a", "area", "link") and "href" in given:
            loaded = tag == "link" and bool(_LOADING_RELS & set(given.get("rel", "").split()))
            self.links.append(Link(given["href"], loaded))
        for name in _LOADING_ATTRIBUTES.get(tag, ()):
            if name in given:
                several = given[name].split(",") if name == "srcset" else [given[name]]
                self.links.extend(Link(one.split()[0], loaded=True) for one in several if one.strip())
        if tag == "meta" and given.get("http-equiv", "").lower() == "refresh" and "=" in given.get("content", ""):
            self.links.append(Link(given["content"].partition("=")[2].strip(), loaded=True))

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.links.extend(style_links(data))

    def handle_endtag(self, tag: str) -> None:
        if tag == "style":
            self._in_style = False


if __name__ == "__main__":
    sys.exit(main())
