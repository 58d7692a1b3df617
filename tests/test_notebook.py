"""What shells and notebooks show of results: the answer and the verdict, escaped, and the way to the report."""

from __future__ import annotations

import gc
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import doxa
from doxa.data import Table
from doxa.estimates.estimate import Estimate, Verdict
from doxa.notebook import Arrow, Markup, arrows, bar, card, interval, remember_report, report_link

HOSTILE = "<script>alert(1)</script>&\"'"


@pytest.fixture(scope="module")
def reinis():
    return doxa.datasets.load("reinis")


@pytest.fixture(scope="module")
def results(reinis):
    exact = doxa.learn(reinis, seed=1)
    network = doxa.LogisticNetwork({"systol": ["smoke", "phys"]})
    return {
        "exact": exact,
        "sampled": doxa.learn(reinis, exact=False, draws=300, seed=1),
        "fit": doxa.fit(network, reinis, draws=300, seed=1),
        "inference": doxa.infer(doxa.ising_grid(6, 6, coupling=0.4), seed=1),
        "answer": exact.query("smoke", given={"phys": "no"}, do={"mental": "yes"}),
        "event": exact.query({"smoke": "yes"}),
    }


def well_formed(text: str) -> ET.Element:
    """Cards are XML as well: a tag that is not closed, or a text that is not escaped, would show here."""
    return ET.fromstring(text)


@pytest.mark.parametrize("name", ["exact", "sampled", "fit", "inference"])
def test_a_shell_shows_the_answer_and_the_verdict(results, name):
    text = repr(results[name])
    assert text.endswith(results[name].verdict)
    assert re.search(r"0\.\d+ (\(exact\)|\+/- 0\.\d+)", text)
    assert len(text.splitlines()) < 30


def test_a_shell_shows_what_was_asked_and_the_answer(results):
    text = repr(results["answer"]).splitlines()
    assert text[0] == "smoke, where phys = no seen, mental = yes set, averaged over 1000 networks"
    assert [line.split("  ")[0] for line in text[1:]] == ["smoke = no", "smoke = yes"]


def test_a_notebook_shows_a_card(results):
    for name, result in results.items():
        found = well_formed(result._repr_html_())
        assert found.get("class") == "doxa"
        assert any(element.tag.endswith("svg") for element in found.iter()), name
        assert sum(element.tag == "td" for element in found.iter()) > 2
        if hasattr(result, "judgement"):
            assert result.judgement.status in "".join(found.itertext())
            assert result.judgement.reason in "".join(found.itertext())
        assert len(result._repr_html_()) < 30_000
        assert "src=" not in result._repr_html_()


def test_names_are_text_and_never_markup(reinis):
    rng = np.random.default_rng(0)
    names = (HOSTILE, "b\x1b[31m", "]]>")
    table = Table.from_codes(names, [[HOSTILE, "]]>"]] * 3, np.repeat(rng.integers(0, 2, size=(40, 1)), 3, axis=1))
    posterior = doxa.learn(table, seed=1)
    network = posterior.network_draws().network(0)
    fit = doxa.fit(doxa.LogisticNetwork({names[1]: [names[0]]}), table, draws=60, seed=1)
    given = {names[0]: HOSTILE}
    for result in (posterior, fit, doxa.infer(network, names[1], given=given), posterior.query(names[1], given=given)):
        found = well_formed(result._repr_html_())
        assert not any(element.tag == "script" for element in found.iter())
        assert "\x1b" not in result._repr_html_() + repr(result)


def test_a_card_leads_to_the_report_once_there_is_one(results, tmp_path, monkeypatch):
    inference = results["inference"]
    assert 'doxa.report(answer, "report.html")' in inference._repr_html_()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b").mkdir()
    doxa.report(inference, "a b/page.html")
    assert '<a href="a%20b/page.html" target="_blank">a b/page.html</a>' in inference._repr_html_()
    monkeypatch.chdir(tmp_path / "a b")
    doxa.report(inference, tmp_path / "other.html")
    assert f'<a href="{(tmp_path / "other.html").as_uri()}"' in inference._repr_html_()
    (tmp_path / "other.html").unlink()
    assert "<a href" not in inference._repr_html_()


def test_a_report_is_forgotten_with_its_result(tmp_path):
    from doxa import notebook

    class Result:
        pass

    result = Result()
    (tmp_path / "page.html").touch()
    remember_report(result, tmp_path / "page.html")
    assert "page.html" in report_link(result)
    key = id(result)
    del result
    gc.collect()
    assert key not in notebook._reports


def test_pictures_keep_to_their_frame():
    picture = well_formed(arrows([f"{'n' * 30}{k}" for k in range(30)], [Arrow("n" * 30 + "0", "n" * 30 + "7", 0.4)]))
    width = float(picture.get("width"))
    for text in (element for element in picture.iter() if element.tag.endswith("text")):
        length, x = 7 * len(text.text), float(text.get("x"))
        assert (x - length if text.get("text-anchor") == "end" else x + length) == pytest.approx(
            width / 2, abs=width / 2
        )
    assert 'opacity="0.40"' in arrows(["a", "b"], [Arrow("a", "b", 0.4)])


def test_a_bar_shows_the_error_and_an_exact_one_none():
    assert "<path" not in bar(Estimate.exactly(0.25))
    assert 'width="25.0"' in bar(Estimate.exactly(0.25))
    assert 'd="M21.1 7H28.9"' in bar(Estimate(0.25, 0.02, 500.0))


def test_an_interval_shows_where_zero_is():
    assert 'd="M80.0 0V14"' in interval(-1.0, 0.0, 1.0, -1.0, 1.0)
    assert "0V14" not in interval(1.0, 1.5, 2.0, 1.0, 2.0)
    well_formed(interval(1.0, 1.0, 1.0, 1.0, 1.0))


def test_a_card_without_rows_or_verdict_is_whole():
    assert Markup("<b>x</b>") in card("t", None, ["x"], [[Markup("<b>x</b>")]])
    assert "&lt;b&gt;" in card("t", Verdict(None, "Cannot tell", "<b>."), ["x"], [])
