"""Draw the pictures of docs/gallery.md by running the code on the page: what stands there is what made them.

    python scripts/gallery_figures.py [FOLDER]

Each block of Python is run in turn, in one namespace; the picture shown after it is that of its ``ax``.  FOLDER is
docs/figures unless given.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from doxa.plots import save_png

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```|^!\[[^]]*\]\(figures/(?P<picture>plot_\w+\.png)\)$", re.M | re.S)
MOST = 60_000  # bytes of a picture


def draw(folder: Path) -> None:
    """Run the page and write its pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    namespace: dict[str, object] = {"__name__": "gallery"}
    begin = time.process_time()
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    for found in BLOCK.finditer(page):
        if found["code"]:
            namespace.pop("ax", None)
            above = "\n" * page.count("\n", 0, found.start("code"))  # errors show the line of the page
            exec(compile(above + found["code"], "docs/gallery.md", "exec"), namespace)
            continue
        path = save_png(namespace["ax"].figure, folder / found["picture"], dpi=80)  # type: ignore[attr-defined]
        size = path.stat().st_size
        if size > MOST:
            sys.exit(f"{path} has {size} bytes; at most {MOST} are wanted")
        print(f"{path} ({size / 1000:.0f} kB, {time.process_time() - begin:.1f} CPU seconds so far)")


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "figures")
