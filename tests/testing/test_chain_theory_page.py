"""The page on chains prints what it says it prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "chains.md"

EXAMPLE = re.compile(r"^```python\n(?P<code>.*?)^```\n\n```text\n(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_prints_what_it_says():
    page, namespace = PAGE.read_text(encoding="utf-8"), {}
    examples = list(EXAMPLE.finditer(page))
    assert len(examples) == page.count("```python") > 10
    for example in examples:
        printed = io.StringIO()
        source = "\n" * page.count("\n", 0, example.start("code")) + example["code"]  # so that tracebacks show the line
        with contextlib.redirect_stdout(printed):
            exec(compile(source, str(PAGE), "exec"), namespace)
        assert printed.getvalue() == example["output"]
