"""Build the wheel and the source distribution, look inside, install each into a clean environment and try it.

The wheel is built from the source distribution, as an installer would.  The clean environment gets the
run-time dependencies that the wheel's own metadata asks for, held to the versions of requirements/dev.lock,
and nothing of this checkout: no pip, no development tool.  ``scripts/smoke.py`` then runs in it, from another folder.
The source distribution must install the same files, to the last byte.

    python scripts/check_distributions.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
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
    "scripts/check_distributions.py",
    "scripts/check_site.py",
    "scripts/smoke.py",
    "tests/project/test_public_signatures.py",
)


def main() -> None:
    """Run every check; an exception or a failing command ends it with a status other than 0."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="doxa-distributions-") as name:
        folder = Path(name)
        sdist, wheel = build(folder / "dist")
        check_sdist(sdist)
        check_wheel(wheel)

        python = make_clean_environment(folder / "environment")
        constraints = write_constraints(folder / "constraints.txt")
        install(python, "--constraint", str(constraints), str(wheel))
        smoke_test(python, folder, f"{wheel.name}")
        from_wheel = installed_files(python)
        install(python, "--force-reinstall", "--no-deps", str(sdist))
        check_same(from_wheel, installed_files(python), sdist)
    print(f"distributions: both install the same files, and they work ({time.monotonic() - started:.0f} s)")


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


def make_clean_environment(folder: Path) -> Path:
    """An environment with the standard library alone; return its Python."""
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def write_constraints(path: Path) -> Path:
    """The lock without its hashes: pip asks for a hash of everything as soon as it sees one, our wheel included."""
    lock = (ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8").splitlines()
    pins = [line.removesuffix("\\").rstrip() for line in lock if line and not line.startswith((" ", "#"))]
    path.write_text("\n".join(pins) + "\n", encoding="utf-8")
    return path


def install(python: Path, *arguments: str) -> None:
    """Install into the environment of ``python`` with the pip of ours."""
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", *arguments])


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
    elsewhere = folder / what.replace(".", "-")
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
