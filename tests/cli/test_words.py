"""Options of more than one word: how they are read, and how they are refused."""

from __future__ import annotations

import pytest
import typer

from doxa.cli.words import parse_edges, parse_log_odds, parse_names, parse_numbers


@pytest.mark.parametrize(
    ("words", "parsed"),
    [
        (None, None),
        ([], None),
        (["4"], 4),
        (["-1"], -1),
        (["age=4"], {"age": 4}),
        (["age=4", "weight=3"], {"age": 4, "weight": 3}),
        (["a=b=2"], {"a=b": 2}),
        (["a,b=2"], {"a,b": 2}),
        (["=2"], {"": 2}),
    ],
)
def test_numbers(words, parsed):
    assert parse_numbers("--bins", words) == parsed


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("age,sex", ["age", "sex"]),
        ("age, sex", ["age", "sex"]),
        ("age", ["age"]),
        ("", []),
        ('"age, in years",sex', ["age, in years", "sex"]),
        ('"a ""quoted"" name",b', ['a "quoted" name', "b"]),
        ('a"b,c', ['a"b', "c"]),
        ('" age",sex', [" age", "sex"]),
        ("x=1,y=2", ["x=1", "y=2"]),
        ("älter,日本", ["älter", "日本"]),
        ('"two\nlines",b', ["two\nlines", "b"]),
        ("a,,b", ["a", "", "b"]),
    ],
)
def test_names(word, names):
    assert parse_names("--tier", word) == names


def test_edges():
    words = ["a,b", '"b, c",d', "x=1,y=2"]
    assert parse_edges("--required", words) == [("a", "b"), ("b, c", "d"), ("x=1", "y=2")]
    assert parse_edges("--required", None) == []


@pytest.mark.parametrize(
    ("words", "parsed"),
    [
        (None, None),
        ([], None),
        (["-2"], -2.0),
        (["1e-3"], 0.001),
        (["a,b=1.5"], {("a", "b"): 1.5}),
        (["a,b=1.5", "b,a=-2"], {("a", "b"): 1.5, ("b", "a"): -2.0}),
        (["x=1,y=2=0.5"], {("x=1", "y=2"): 0.5}),
        (['"a, b",c=3'], {("a, b", "c"): 3.0}),
    ],
)
def test_log_odds(words, parsed):
    assert parse_log_odds("--edge-log-odds", words) == parsed


EDGE = "'{}' should be SOURCE,TARGET, as in --o smokes,heart"
WHOLE = "should be a whole number, or NAME=NUMBER, as in --o age=4"
NAMES = "should be names with commas between them"


@pytest.mark.parametrize(
    ("parse", "words", "message"),
    [
        (parse_numbers, ["many"], f"'many' {WHOLE}"),
        (parse_numbers, ["2.5"], f"'2.5' {WHOLE}"),
        (parse_numbers, [""], f"'' {WHOLE}"),
        (parse_numbers, ["age=four"], f"'age=four' {WHOLE}"),
        (parse_numbers, ["age="], f"'age=' {WHOLE}"),
        (parse_numbers, ["4", "5"], "'4' should be NAME=NUMBER, as in --o age=4"),
        (parse_numbers, ["age=4", "age=5"], "column 'age' is given twice"),
        (parse_edges, ["a"], EDGE.format("a")),
        (parse_edges, ["a,b,c"], EDGE.format("a,b,c")),
        (parse_edges, [""], EDGE.format("")),
        (parse_edges, ["a->b"], EDGE.format("a->b")),
        (parse_edges, ['"a,b'], f"'\"a,b' {NAMES}"),
        (parse_edges, ['"a"x,b'], f"'\"a\"x,b' {NAMES}"),
        (parse_edges, ["a\nb,c"], f"'a\\nb,c' {NAMES}"),
        (parse_log_odds, ["many"], "'many' should be a number, or SOURCE,TARGET=NUMBER"),
        (parse_log_odds, ["a,b"], "'a,b' should be a number, or SOURCE,TARGET=NUMBER"),
        (parse_log_odds, ["a,b=x"], "'a,b=x' should be a number, or SOURCE,TARGET=NUMBER"),
        (parse_log_odds, ["1", "2"], "'1' should be SOURCE,TARGET=NUMBER"),
        (parse_log_odds, ["a,b=1", "2"], "'2' should be SOURCE,TARGET=NUMBER"),
        (parse_log_odds, ["a=1"], EDGE.format("a")),
        (parse_log_odds, ["a,b=1", "a, b=2"], "the edge 'a, b' is given twice"),
    ],
)
def test_bad_words_are_refused_by_option(parse, words, message):
    with pytest.raises(typer.BadParameter) as refused:
        parse("--o", words)
    assert refused.value.message == message
    assert refused.value.param_hint == "--o"


@pytest.mark.parametrize("word", ['"a,b', '"a"x', "a\nb", "a\rb"])
def test_names_that_no_csv_file_could_hold_are_refused(word):
    with pytest.raises(typer.BadParameter) as refused:
        parse_names("--tier", word)
    assert refused.value.message == f"{word!r} {NAMES}"
