"""What tests of pages agree on: when a page was written, a name that would do harm where it is taken for markup."""

from __future__ import annotations

from datetime import UTC, datetime

WRITTEN = datetime(2025, 3, 1, 12, 30, tzinfo=UTC)
HOSTILE = "</script><img src=x onerror=alert(1)>"
