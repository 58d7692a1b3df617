"""`docs/papers.md` against the papers' numbering and against the code: no number is left out, no name is invented.

The page has a table for each source.  Every equation, figure, table, algorithm, theorem and definition of the source is
a row; what its call column names can be imported from a documented module, has the arguments that are named and takes
their values; its tests and scripts exist.  Pages that break one of these rules are rejected.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import typing
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from doxa.errors import ArgumentError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "papers.md"
sys.path.insert(0, str(ROOT / "docs" / "_site"))

from doxa_site.rooms import ROOMS  # noqa: E402

HEAD = "| item | what it says | call | test | experiment |"


def counted(kind: str, most: int, pattern: str = "{}") -> list[str]:
    return [f"{kind} {pattern.format(k)}" for k in range(1, most + 1)]


# What each source numbers, by a word of its heading; the formulas of the notes are numbered by the page.
NUMBERED = {
    "Freitas": [*counted("eq.", 17), *counted("figure", 16), "table 1", "proposition 1", "corollary 1"],
    "Jaakkola": [*counted("eq.", 69), *counted("figure", 9)],
    "Riggelsen": [*counted("eq.", 13, "4.{}"), *counted("figure", 8, "4.{}"), "algorithm 1", "theorem 4.1"],
    "slides": [
        *counted("eq.", 22),
        *counted("definition", 6),
        *counted("theorem", 3),
        "example 1",
        *(f"step {k}" for k in range(7)),
    ],
    "notes": counted("formula", 32),
}
NOT_NUMBERED = re.compile(r'section (\d|")')  # rows that the page adds


class Row(NamedTuple):
    item: str
    what: str
    call: str
    test: str
    experiment: str


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_page_has_every_number_and_is_true(page):
    assert problems(page) == []


def broken(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def without(text: str, start: str) -> str:
    lines = text.splitlines()
    gone = [line for line in lines if line.startswith(start)]
    assert gone
    return "\n".join(line for line in lines if line != gone[-1])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: without(t, "| eq. 69 |"), "Jaakkola: no row for 'eq. 69'"),
        (lambda t: without(t, "| figure 4.3 |"), "Riggelsen: no row for 'figure 4.3'"),
        (lambda t: without(t, "| step 0 |"), "slides: no row for 'step 0'"),
        (lambda t: without(t, "| formula 17 |"), "notes: no row for 'formula 17'"),
        (lambda t: broken(t, "| table 1 |", "| table 2 |"), "Freitas: 'table 2' is no item of the source"),
        (lambda t: broken(t, "| table 1 |", "| figure 1 |"), "Freitas: two rows for 'figure 1'"),
        (lambda t: broken(t, "log_logistic_bound`", "log_logistic_bund`"), "has no public name 'log_logistic_bund'"),
        (lambda t: broken(t, "LogisticNetwork.log_joint`", "LogisticNetwork.log_point`"), "has no 'log_point'"),
        (lambda t: broken(t, "`doxa.fit`", "`doxa.parameters.methods.choose`"), "is in no documented module"),
        (lambda t: broken(t, "`doxa.fit`", "`doxa.fit._check`"), "is not public"),
        (lambda t: broken(t, "(starts=)", "(starters=)"), "takes no 'starters'"),
        (lambda t: broken(t, 'method="block"', 'method="blocks"'), "method='blocks', which is none of"),
        (lambda t: broken(t, 'form="mean_field"', 'form="naive"'), "form='naive', which is none of"),
        (
            lambda t: broken(t, 'approximation="sequential"', 'approximation="sequel"'),
            "approximation='sequel', which is",
        ),
        (lambda t: broken(t, 'sampler="emc3"', 'sampler="emc4"'), "sampler='emc4', which is none of"),
        (lambda t: broken(t, "(starts=)", "(starts=5)"), "nothing says which values starts= takes"),
        (
            lambda t: broken(t, "`parameters/kernels/test_adaptation.py", "`parameters/test_adoption.py"),
            "there is no tests/parameters/test_ado",
        ),
        (lambda t: broken(t, "::test_equation_14_as", "::test_equation_15_as"), "has no test_equation_15_as_printed"),
        (lambda t: broken(t, "`experiments/lecture_ising.py`", "`experiments/ising.py`"), "no experiments/ising.py"),
        (lambda t: re.sub(r"not offered: [^|]*", "not offered ", t, count=1), "does not say what is missing"),
        (lambda t: re.sub(r"(\| figure 4\.1 \|[^|]*\|)[^|]*", r"\1 - ", t), "names no call"),
        (lambda t: re.sub(r"(\| figure 4\.1 \|[^|]*\|[^|]*\|)[^|]*", r"\1 - ", t), "names no test"),
    ],
)
def test_a_page_that_is_not_true_is_rejected(page, change, said):
    found = problems(change(page))
    assert any(said in problem for problem in found), found


def problems(page: str) -> list[str]:
    """What is wrong with a page, in the order of its rows."""
    sources = dict(tables(page))
    found = [f"no table for the source {source!r}" for source in NUMBERED if source not in sources]
    for source, rows in sources.items():
        found += [f"{source}: {problem}" for problem in numbering(source, [row.item for row in rows])]
        found += [f"{source}, {row.item}: {problem}" for row in rows for problem in row_problems(row)]
    return found


def tables(page: str) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each source."""
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading, *lines = section.splitlines()
        (source,) = [word for word in NUMBERED if word in heading]
        assert HEAD in lines
        cells = [line.strip("|").split("|") for line in lines[lines.index(HEAD) + 2 :] if line.startswith("|")]
        yield source, [Row(*(cell.strip() for cell in row)) for row in cells]


def numbering(source: str, items: Sequence[str]) -> Iterator[str]:
    for item in NUMBERED[source]:
        if item not in items:
            yield f"no row for {item!r}"
    for item in dict.fromkeys(items):
        if items.count(item) > 1:
            yield f"two rows for {item!r}"
        if item not in NUMBERED[source] and not NOT_NUMBERED.match(item):
            yield f"{item!r} is no item of the source"


def row_problems(row: Row) -> Iterator[str]:
    status = re.match(r"(not offered|in part)\b(: \S+ \S+ \S+)?", row.call)
    if status and not status[2]:
        yield f"{status[1]!r} does not say what is missing"
    is_there = not (status and status[1] == "not offered")
    calls, tests = quoted(row.call), quoted(row.test)
    if not row.what:
        yield "nothing is said of it"
    if is_there and not calls:
        yield "names no call"
    if is_there and not tests:
        yield "names no test"
    for call in calls:
        yield from call_problems(call)
    for name in tests:
        yield from missing_tests(name)
    for script in quoted(row.experiment):
        if not (ROOT / script).is_file():
            yield f"there is no {script}"


def quoted(cell: str) -> list[str]:
    """What stands between backticks."""
    return [name for name in re.findall(r"`([^`]+)`", cell) if name not in ("fit", "infer", "learn")]


def call_problems(call: str) -> Iterator[str]:
    form = re.fullmatch(r"(doxa(?:\.\w+)+)(?:\((.+)\))?", call)
    if form is None:
        yield f"{call!r} is not written as a call"
        return
    name, arguments = form.groups()
    found = resolve(name)
    if isinstance(found, str):
        yield found
        return
    for keyword, value in re.findall(r'(\w+)=("[^"]*"|\w+)?', arguments or ""):
        if keyword not in inspect.signature(found[0]).parameters:
            yield f"{name} takes no {keyword!r}"
        elif value:
            known = choices(name, keyword)
            if known is None:
                yield f"nothing says which values {keyword}= takes in {name}"
            elif (given := ast.literal_eval(value)) not in known:
                yield f"{name} with {keyword}={given!r}, which is none of {', '.join(map(repr, known))}"


def resolve(name: str) -> tuple[Any] | str:
    """What a dotted name is, or why it is nothing that a user may call."""
    parts = name.split(".")
    if any(part.startswith("_") for part in parts):
        return f"{name} is not public"
    for k in range(len(parts) - 1, 0, -1):
        if ".".join(parts[:k]) in documented():
            break
    else:
        return f"{name} is in no documented module"
    module = importlib.import_module(".".join(parts[:k]))
    if parts[k] not in module.__all__:
        nested = ".".join(parts[: k + 1])
        if inspect.ismodule(getattr(module, parts[k], None)):
            return f"{nested} is in no documented module"
        return f"{module.__name__} has no public name {parts[k]!r}"
    value: Any = getattr(module, parts[k])
    for part in parts[k + 1 :]:
        if not has_member(value, part):
            return f"{name} has no {part!r}"
        value = getattr(value, part, None)
    return (value,)


def has_member(value: Any, name: str) -> bool:
    """A field of a dataclass without a default is no attribute of its class."""
    return hasattr(value, name) or any(name in inspect.get_annotations(base) for base in getattr(value, "__mro__", ()))


@cache
def documented() -> frozenset[str]:
    """The modules that the reference lists."""
    return frozenset(module for room in ROOMS for module in (room.module, *room.also))


def choices(name: str, keyword: str) -> tuple[Any, ...] | None:
    """The values that an argument takes: those of its annotation, or of the table that the function looks it up in."""
    from doxa.inference.infer import METHODS as INFER
    from doxa.parameters.approximate import check_approximation
    from doxa.parameters.methods import METHODS as FIT
    from doxa.structure.moves.by_name import MOVES
    from doxa.structure.runs.options import SCORES

    looked_up = {
        ("doxa.fit", "method"): tuple(FIT),
        ("doxa.fit", "approximation"): named_in_refusal(check_approximation),
        ("doxa.infer", "method"): ("auto", *INFER),
        ("doxa.learn", "sampler"): tuple(move for move in MOVES if move not in ("cycle", "exact")),
        ("doxa.learn", "score"): tuple(SCORES),
    }
    if (name, keyword) in looked_up:
        return looked_up[name, keyword]
    found = resolve(name)
    assert not isinstance(found, str)
    annotation = inspect.signature(found[0]).parameters[keyword].annotation
    if isinstance(annotation, str):
        annotation = eval(annotation, vars(importlib.import_module(found[0].__module__)))
    return tuple(literals(annotation)) or None


def named_in_refusal(check: Any) -> tuple[str, ...]:
    """The words that a check says it takes, where it is given another."""
    with pytest.raises(ArgumentError, match="it must be one of") as refused:
        check("?")
    return tuple(re.findall(r"'([^']+)'", str(refused.value).partition("one of")[2]))


def literals(annotation: Any) -> Iterator[Any]:
    if typing.get_origin(annotation) is typing.Literal:
        yield from typing.get_args(annotation)
    else:
        for part in typing.get_args(annotation):
            yield from literals(part)


def missing_tests(name: str) -> Iterator[str]:
    path, _, test = name.partition("::")
    file = ROOT / "tests" / path
    if not file.is_file():
        yield f"there is no tests/{path}"
    elif test and not re.search(rf"^def {re.escape(test)}\(", file.read_text(encoding="utf-8"), re.MULTILINE):
        yield f"tests/{path} has no {test}"
