"""The requirement files say what pyproject.toml says: a lower bound that nobody installs is a guess."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUNTIME = [Requirement(text) for text in PROJECT["dependencies"]]
EXTRAS = PROJECT["optional-dependencies"]
DEVELOPMENT = [Requirement(text) for text in EXTRAS["dev"]]
DOCUMENTATION = [Requirement(text) for text in EXTRAS["docs"]]


def pins(name: str) -> dict[str, set[Version]]:
    """Versions pinned in a requirement file; the lock may have two of a package, one for each range of Pythons."""
    found: dict[str, set[Version]] = {}
    for package, version in re.findall(
        r"^([\w.-]+)(?:\[[^]]*\])?==([^\s;]+)", (ROOT / "requirements" / name).read_text(encoding="utf-8"), re.MULTILINE
    ):
        found.setdefault(canonicalize_name(package), set()).add(Version(version))
    return found


def lower_bound(requirement: Requirement) -> Version:
    (specifier,) = requirement.specifier
    assert specifier.operator == ">=", f"{requirement} has no plain lower bound"
    return Version(specifier.version)


def test_the_lock_holds_every_requirement():
    locked = pins("dev.lock")
    for requirement in RUNTIME + DEVELOPMENT + DOCUMENTATION:
        versions = locked.get(canonicalize_name(requirement.name), set())
        assert versions, f"{requirement} is not in requirements/dev.lock; run `make lock`"
        assert all(requirement.specifier.contains(version) for version in versions), f"{requirement}: run `make lock`"


def test_the_demonstration_has_what_the_library_needs_at_the_locked_versions_and_no_tools():
    locked, demo = pins("dev.lock"), pins("demo.lock")
    for requirement in RUNTIME:
        assert canonicalize_name(requirement.name) in demo, f"{requirement} is not in demo.lock; run `make lock`"
    assert all(locked.get(name) == versions for name, versions in demo.items()), "run `make lock`"
    assert demo.keys().isdisjoint({"pytest", "sphinx", "selenium", "mypy", "ruff"})


def test_the_oldest_versions_are_the_lower_bounds():
    oldest = pins("oldest.txt")
    for requirement in RUNTIME:
        assert oldest[canonicalize_name(requirement.name)] == {lower_bound(requirement)}, f"{requirement}: `make lock`"


def test_the_oldest_test_tools_are_those_of_the_dev_extra():
    lines = (ROOT / "requirements" / "oldest.in").read_text(encoding="utf-8").splitlines()
    bounds = {str(requirement) for requirement in DEVELOPMENT}
    assert {str(Requirement(line)) for line in lines if line and not line.startswith("#")} <= bounds


@pytest.mark.parametrize("path", sorted((ROOT / "requirements").iterdir()), ids=lambda path: path.name)
def test_no_requirement_file_names_an_index(path):
    text = path.read_text(encoding="utf-8")
    assert "://" not in text, "an index is the choice of the person who installs"
    assert not re.search(r"^\s*-", text.replace("    --hash=", ""), re.MULTILINE), "an option changes what pip installs"
