"""Print a key of the sources: the first 12 hexadecimal digits of the SHA-256 of every ``src/**/*.py``.

Long benchmarks keep it with what they have done.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def source_key() -> str:
    """Hash of the names and the contents of the sources, the same on every platform."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py"), key=Path.as_posix):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    print(source_key())
