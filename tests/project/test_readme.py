"""The examples of the README and of the documentation print what the pages say they print.

Every page under docs/ that has examples is run. Blocks are run in the order of the page, each page in a folder
and a namespace of its own:

- a ```` ```python ```` block is executed; the ```` ```text ```` block right after it is its output, and
  a block without one prints nothing;
- where a Python block begins with `>>>` it is a doctest, and no block after it is its output;
- in a ```` ```console ```` block each line `$ doxa ...` is run (a final backslash continues it on the next line), and
  the lines up to the next `$` are its output. The pages in `INSTALLED` call the installed command, the others its entry
  point in this process, which saves the imports. Lines `$ make`, `$ pip`, `$ git`, `$ python` and `$ cd` are not run.
- `$ cat FILE` shows a file: one that an earlier block wrote must hold what is shown, another one is made so.

Outputs are compared line by line without trailing blanks, which editors remove. A block to be read and not run has the
comment `<!-- not run: the reason -->` on the line before it.

After a change of what is printed, read it, and have the pages say it:

    DOXA_UPDATE_SNAPSHOT=1 python -m pytest tests/project/test_readme.py -k structure.md
"""

from __future__ import annotations

import contextlib
import doctest
import io
import logging
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from doxa import cli

ROOT = Path(__file__).parents[2]

ELSEWHERE = ("docs/chains.md",)  # tests/testing/test_chain_theory_page.py runs it

INSTALLED = ("README.md", "docs/how-to/infer-values.md")  # their commands are processes of their own

NOT_RUN = ("make", "pip", "git", "python", "cd")  # set-up, which other checks try

# what a verdict says of a run that took long on this machine
CLOCK = re.compile(r"(warmup=\d+), about [\d.]+ (?:seconds|minutes|hours|days)")
COMPILING = re.compile(r"^doxa: compiling, once for this version of doxa.*\n", re.MULTILINE)  # with an empty cache

FENCE = re.compile(
    r"^(?P<skip><!-- not run: \S.*-->\n+)?```(?P<kind>[a-z]*)\n(?P<body>.*?)^```$(?P<gap>\n*)", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """One example: what to run, and what it prints."""

    kind: str  # "python", "console" or "file"
    line: int  # in the page
    code: str
    output: str
    at: int = -1  # where in the page the output begins; -1: there is none


def blocks(page: str) -> Iterator[Block]:
    """The examples of a page, in order."""
    fences = list(FENCE.finditer(page))
    for position, fence in enumerate(fences):
        line = page.count("\n", 0, fence.start("kind")) + 1
        if fence["skip"] or fence["kind"] not in ("python", "console"):
            continue
        if fence["kind"] == "console":
            yield from commands(fence["body"], line + 1, fence.start("body"))
            continue
        follower = fences[position + 1] if position + 1 < len(fences) else None
        printed = follower and follower["kind"] == "text" and follower.start() == fence.end()
        output, at = (follower["body"], follower.start("body")) if follower and printed else ("", -1)
        yield Block("python", line, fence["body"], output, at)


def commands(body: str, first_line: int, begin: int) -> Iterator[Block]:
    """The `$ doxa` commands of a console block that begins there, each with the lines printed after it."""
    for prompt in re.finditer(r"^\$ (?P<code>(?:.*\\\n)*.*)\n(?P<output>(?:(?!\$ ).*\n)*)", body, re.MULTILINE):
        line = first_line + body.count("\n", 0, prompt.start())
        code = prompt["code"].replace("\\\n", " ")
        program = code.split()[0]
        assert program in ("doxa", "cat", *NOT_RUN), f"line {line}: no rule says how to run {program!r}"
        if program == "doxa":
            yield Block("console", line, code, prompt["output"], begin + prompt.start("output"))
        if program == "cat":
            yield Block("file", line, code.split()[1], prompt["output"])


def run_python(block: Block, namespace: dict[str, object], name: str) -> str:
    printed = io.StringIO()
    if block.code.startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.code, namespace, name, name, block.line)
        doctest.DocTestRunner().run(test, out=printed.write, clear_globs=False)  # writes of failures only
        namespace.update(test.globs)
        return printed.getvalue()
    # the blank lines make a traceback show the line of the page
    source = "\n" * block.line + block.code
    with contextlib.redirect_stdout(printed):
        exec(compile(source, name, "exec", dont_inherit=True), namespace)  # as in a script
    return printed.getvalue()


def shown_file(block: Block, folder: Path) -> str:
    file = folder / block.code
    if not file.exists():
        file.write_text(block.output, encoding="utf-8")
    return file.read_text(encoding="utf-8")


def run_command(block: Block, folder: Path, call: Callable[[list[str], Path], tuple[int, str]]) -> str:
    with mock.patch.dict(os.environ, COLUMNS="100", NO_COLOR="1", TERM="dumb", PYTHONUTF8="1"):
        status, printed = call(shlex.split(block.code), folder)
    assert status == 0, f"`{block.code}` ended with status {status}:\n{printed}"
    return COMPILING.sub("", printed)


def installed(words: list[str], folder: Path) -> tuple[int, str]:
    """The exit status of the installed command, and what it prints."""
    done = subprocess.run(
        [str(Path(sysconfig.get_path("scripts")) / "doxa"), *words[1:]],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return done.returncode, done.stdout


def in_this_process(words: list[str], folder: Path) -> tuple[int, str]:
    """The same of the command's entry point, which leaves nothing changed behind."""
    printed, log = io.StringIO(), logging.getLogger("doxa")
    level = log.level
    with (
        contextlib.chdir(folder),
        mock.patch.multiple(sys, argv=words, stdin=io.StringIO(), excepthook=sys.excepthook),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        pytest.raises(SystemExit) as left,
    ):
        cli.main()
    log.setLevel(level)
    return left.value.code, printed.getvalue()


def tidy(text: str) -> list[str]:
    """Lines without trailing blanks and times of this machine, and without blank lines at either end."""
    text = CLOCK.sub(r"\1", text)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").splitlines()


def printed_by(page: str, folder: Path, name: str) -> Iterator[tuple[Block, str]]:
    """Each example with what it prints."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    call = installed if name in INSTALLED else in_this_process
    for block in blocks(page):
        if block.kind == "python":
            yield block, run_python(block, namespace, name)
        else:
            yield block, run_command(block, folder, call) if block.kind == "console" else shown_file(block, folder)


def reprinted(page: str, folder: Path, name: str = "page.md") -> str:
    """The page with what its examples print today."""
    parts, done = [], 0
    for block, printed in printed_by(page, folder, name):
        if block.at >= 0 and tidy(printed) != tidy(block.output):
            lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
            end = "\n\n" if block.output.endswith("\n\n") else "\n"
            parts += [page[done : block.at], "\n".join(lines) + end]
            done = block.at + len(block.output)
    return "".join([*parts, page[done:]])


def assert_prints_what_it_says(page: str, folder: Path, name: str = "page.md") -> None:
    for block, printed in printed_by(page, folder, name):
        assert tidy(printed) == tidy(block.output), (
            f"{name}, line {block.line}, prints\n\n{printed}\n\nand says\n\n{block.output}"
        )


def pages_with_examples() -> list[str]:
    """README.md and the pages under docs/ that have something to run, by their paths from the root."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = [file.relative_to(ROOT).as_posix() for file in files if any(blocks(file.read_text(encoding="utf-8")))]
    return [name for name in names if name not in ELSEWHERE and "/_" not in name]  # folders that make the site


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a page may read a file in one short line
@pytest.mark.parametrize("name", pages_with_examples())
def test_a_page_prints_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    page = (ROOT / name).read_text(encoding="utf-8")
    if os.environ.get("DOXA_UPDATE_SNAPSHOT"):
        (ROOT / name).write_text(reprinted(page, tmp_path, name), encoding="utf-8")
        return
    assert_prints_what_it_says(page, tmp_path, name)


def test_the_pages_with_examples_are_found():
    names = pages_with_examples()
    assert {"README.md", "docs/structure.md", "docs/tutorials/votes.md", "docs/how-to/missing-cells.md"} <= set(names)
    found = {(block.kind, bool(block.output)) for block in blocks((ROOT / "README.md").read_text(encoding="utf-8"))}
    assert ("python", True) in found, "README.md has no python block followed by its output"
    assert ("console", True) in found, "README.md has no `$ doxa` command with its output"


EXAMPLE = """
```python
x = 6
```

Words.

```python
print(x * 7, "\\nend ")
```

```text
42
end
```

<!-- not run: shows a mistake -->
```python
1 / 0
```

```console
$ pip install doxa
$ doxa --version
doxa {version}
$ cat rows.csv
smoke
yes
```

```python
from pathlib import Path

print(Path("rows.csv").read_text())
```

```text
smoke
yes
```
"""


def test_a_page_is_read_as_its_author_meant(tmp_path, monkeypatch):
    from doxa import __version__

    page = EXAMPLE.format(version=__version__)
    assert [(block.kind, block.line, block.output) for block in blocks(page)] == [
        ("python", 2, ""),
        ("python", 8, "42\nend\n"),
        ("console", 24, f"doxa {__version__}\n"),
        ("file", 26, "smoke\nyes\n"),
        ("python", 31, "smoke\nyes\n"),
    ]
    monkeypatch.chdir(tmp_path)
    assert_prints_what_it_says(page, tmp_path)


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("\nend\n", "\nand\n"),
        ("42\n", ""),
        ("x = 6", "x = 6; print(x)"),
        ("doxa {version}\n", "doxa 0.0.0\n"),
        ("* 7", "* 8"),
        ("smoke\nyes\n```\n\n```python", "smoke\nno\n```\n\n```python"),
    ],
)
def test_a_page_that_lies_is_caught(said, instead, tmp_path, monkeypatch):
    from doxa import __version__

    monkeypatch.chdir(tmp_path)
    assert said in EXAMPLE
    page = EXAMPLE.replace(said, instead).format(version=__version__)
    with pytest.raises(AssertionError, match=r"page\.md, line "):
        assert_prints_what_it_says(page, tmp_path)


def test_a_page_that_lies_is_mended(tmp_path, monkeypatch):
    from doxa import __version__

    monkeypatch.chdir(tmp_path)
    page = EXAMPLE.format(version=__version__)
    wrong = page.replace("42\nend\n", "41\n").replace(f"doxa {__version__}", "doxa 0.0.0")
    assert wrong != page
    assert reprinted(wrong, tmp_path) == page
    assert reprinted(page, tmp_path) == page


def test_an_unknown_program_is_not_skipped():
    with pytest.raises(AssertionError, match="no rule says how to run 'curl'"):
        list(blocks("```console\n$ curl example\n```\n"))
