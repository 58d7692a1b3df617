"""Build the wheel and the source distribution, look inside, install each into a clean environment and try it.

The wheel is built from the source distribution, as an installer would.  The clean environment gets the
run-time dependencies that the wheel's own metadata asks for, held to the versions of requirements/dev.lock,
and nothing of this checkout: no pip, no development tool.  ``scripts/smoke.py`` then runs in it, from another folder.
The source distribution must install the same files, to the last byte.  The version is the one that CITATION.cff states,
and that of the tag where the commit has one.

    python scripts/check_distributions.py [--every-python]

With ``--every-python``, as before a release, the libraries of the report must be in both, and the wheel is tried with
every supported Python that is found on the path or below pyenv's folder.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What must be in the source distribution beside src/: enough to run the tests from it.
SDIST_MUST_HOLD = (
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "docs/_site/conf.py",
    "docs/index.md",
    "pyproject.toml",
    "requirements/dev.lock",
    "scripts/build_page.py",
    "scripts/check_distributions.py",
    "scripts/check_site.py",
    "scripts/fetch_page_assets.py",
    "scripts/smoke.py",
    "tests/project/test_public_signatures.py",
)


_SUPPORTED = range(11, 15)  # minor versions of Python 3


def main() -> None:
    """Run every check; an exception or a failing command ends it with a status other than 0."""
    parser = argparse.ArgumentParser(description="Build the distributions, and try them in clean environments.")
    parser.add_argument("--every-python", action="store_true", help="with every supported Python that is found")
    every = parser.parse_args().every_python
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="doxa-distributions-") as name:
        folder = Path(name)
        if every:
            fetch_page_assets()
        sdist, wheel = build(folder / "dist")
        check_sdist(sdist)
        check_wheel(wheel)
        check_version(wheel)

        python = make_clean_environment(folder / "environment", Path(sys.executable))
        constraints = write_constraints(folder / "constraints.txt")
        install(python, "--constraint", str(constraints), str(wheel))
        smoke_test(python, folder, f"{wheel.name}")
        from_wheel = installed_files(python)
        install(python, "--force-reinstall", "--no-deps", str(sdist))
        check_same(from_wheel, installed_files(python), sdist)
        for version, other in other_pythons().items() if every else ():
            python = make_clean_environment(folder / f"environment-{version}", other)
            install(python, "--constraint", str(constraints), str(wheel))
            smoke_test(python, folder, f"{wheel.name} with Python {version}")
    print(f"distributions: both install the same files, and they work ({time.monotonic() - started:.0f} s)")


def fetch_page_assets() -> None:
    """The libraries of the report are there; what is in src/doxa must be in both distributions."""
    run([sys.executable, str(ROOT / "scripts" / "fetch_page_assets.py")])


def build(target: Path) -> tuple[Path, Path]:
    """Build both; return the source distribution and the wheel."""
    # no isolation: hatchling is in the lock, so the same version builds on every machine
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(ROOT)], quiet=True)
    (sdist,) = target.glob("doxa-*.tar.gz")
    (wheel,) = target.glob("doxa-*-py3-none-any.whl")
    return sdist, wheel


def check_sdist(sdist: Path) -> None:
    """The source distribution holds the package, the tests and what runs them."""
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    needed = {f"src/{name}" for name in package_files()} | set(SDIST_MUST_HOLD)
    needed |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    if missing := needed - held:
        raise SystemExit(f"{sdist.name} lacks {listed(missing)}")


def check_wheel(wheel: Path) -> None:
    """The wheel holds every file of src/doxa, its metadata and nothing else."""
    information = f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info/"
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.startswith(information)}
        metadata = archive.read(f"{information}METADATA").decode()
    if stray := held - package_files():
        raise SystemExit(f"{wheel.name} holds files that are not of the package: {listed(stray)}")
    if missing := package_files() - held:
        raise SystemExit(f"{wheel.name} lacks {listed(missing)}")
    for line in ("License-Expression: MIT", "Requires-Python: >=3.11"):
        if line not in metadata.splitlines():
            raise SystemExit(f"the metadata of {wheel.name} lacks {line!r}")


def package_files() -> set[str]:
    """Paths below src/ that belong to the package."""
    made = {"__pycache__", ".DS_Store"}
    files = (path for path in (ROOT / "src" / "doxa").rglob("*") if path.is_file() and not made & set(path.parts))
    return {path.relative_to(ROOT / "src").as_posix() for path in files}


def check_version(wheel: Path) -> None:
    """The version is the one that is cited, and that of the tag, where there is git and the commit has a tag."""
    version = wheel.name.split("-")[1]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    if cited is None or cited[1] != version:
        raise SystemExit(f"{wheel.name} has the version {version}, and CITATION.cff does not state that")
    if shutil.which("git") is None:
        return
    command = ["git", "-C", str(ROOT), "tag", "--points-at", "HEAD"]
    tags = subprocess.run(command, check=False, text=True, capture_output=True).stdout.split()
    if tags and f"v{version}" not in tags:
        raise SystemExit(f"{wheel.name} has the version {version}, and the commit has the tag {listed(tags)}")


def other_pythons() -> dict[str, Path]:
    """The supported Pythons of this machine beside this one, by version: two that differ in the last number are two."""
    names = [f"python3.{minor}" for minor in _SUPPORTED]
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    folders += sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin"))
    pythons: dict[str, Path] = {}
    for python in (path for name in names for folder in folders if (path := folder / name).exists()):
        script = "import ensurepip, platform; print(platform.python_version())"
        done = subprocess.run([str(python), "-c", script], check=False, text=True, capture_output=True)
        if done.returncode == 0:  # a shim may stand for a version that is not there, and some have no environments
            pythons.setdefault(done.stdout.strip(), python)
    pythons.pop(platform.python_version(), None)
    return pythons


def make_clean_environment(folder: Path, python: Path) -> Path:
    """An environment of this Python with the standard library alone; return the Python in it."""
    run([str(python), "-m", "venv", "--without-pip", str(folder)])
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def write_constraints(path: Path) -> Path:
    """The lock as constraints: without hashes, or pip asks for one of our wheel, and without extras."""
    lock = (ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8").splitlines()
    pins = [line.removesuffix("\\").rstrip() for line in lock if line and not line.startswith((" ", "#"))]
    pins = [re.sub(r"^([\w.-]+)\[[^]]*\]", r"\1", pin) for pin in pins]
    path.write_text("\n".join(pins) + "\n", encoding="utf-8")
    return path


def install(python: Path, *arguments: str) -> None:
    """Install into the environment of ``python`` with the pip of ours; bytecode is made of what is imported."""
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "--no-compile", *arguments])


def installed_files(python: Path) -> dict[str, str]:
    """Name and hash of every file of the installed package, from its record."""
    script = (
        "import importlib.metadata, json\n"
        "files = importlib.metadata.files('doxa')\n"
        "print(json.dumps({str(f): f.hash.value for f in files if f.parts[0] == 'doxa' and f.hash is not None}))"
    )
    done = subprocess.run([str(python), "-I", "-c", script], check=True, text=True, capture_output=True)
    return dict(json.loads(done.stdout))


def check_same(from_wheel: dict[str, str], from_sdist: dict[str, str], sdist: Path) -> None:
    """Both installed the same files."""
    if not from_wheel:
        raise SystemExit("the record of the installed package names no file")
    if differ := {name for name, _ in from_wheel.items() ^ from_sdist.items()}:
        raise SystemExit(f"{sdist.name} and the wheel install other contents of {listed(differ)}")


def smoke_test(python: Path, folder: Path, what: str) -> None:
    """Run scripts/smoke.py outside the checkout, isolated from it."""
    print(f"distributions: trying {what}", flush=True)
    elsewhere = folder / re.sub(r"\W", "-", what)
    elsewhere.mkdir()
    run([str(python), "-I", str(ROOT / "scripts" / "smoke.py"), str(ROOT)], cwd=elsewhere)


def run(command: list[str], *, cwd: Path | None = None, quiet: bool = False) -> None:
    """Run a command; show what a quiet one printed only if it fails."""
    done = subprocess.run(command, cwd=cwd, check=False, text=True, capture_output=quiet)
    if done.returncode:
        if quiet:
            print(done.stdout, done.stderr, sep="\n")
        raise SystemExit(f"failed with status {done.returncode}: {' '.join(command)}")


def listed(names: Iterable[str]) -> str:
    """The names in order, with commas."""
    return ", ".join(sorted(names))


if __name__ == "__main__":
    main()
