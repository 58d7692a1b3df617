"""`doxa report`: a run as a page."""

from __future__ import annotations

import pytest

import doxa
from doxa.page.assets import AssetsMissingError, libraries


@pytest.fixture
def kept(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "1,0\n0,1\n1,\n,0\n" * 5)
    assert run("learn", "t.csv", "--draws", "20", "--seed", "1", "--store", "run.doxa")[0] == 0
    return tmp_path / "run.doxa"


def test_a_run_becomes_a_page(run, kept, tmp_path):
    try:
        libraries()
    except AssetsMissingError as error:
        pytest.skip(str(error))
    code, out, err = run("report", kept, "-o", "page.html")
    assert (code, err) == (0, "")
    assert out.startswith("The report is in page.html; open it in a browser")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Content-Security-Policy" in text
    assert "https://" not in text.split("<script", 1)[0]


def test_what_is_no_run_over_graphs_is_refused(run, kept, tmp_path):
    code, _, err = run("report", "t.csv", "-o", "page.html")
    assert code == 2
    assert "is not a run of doxa" in err
    assert not (tmp_path / "page.html").exists()
    assert callable(doxa.report)
