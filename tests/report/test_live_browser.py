"""The live page in a real browser: it grows with the run and keeps the reader's place; closing it stops nothing."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest
from browsing import AXE, NO_NETWORK, axe_says, chromium, go_without, script
from live_cases import growing_run, make_whole, write_table

import doxa
from doxa.report.live_run import LiveRun, serving

PATIENCE = 90.0  # seconds: the machine may be busy, and loops may have to be compiled
FASTER = 5  # so many times: time in the page, which looks every two seconds
HURRY = (
    "{const wait = setTimeout, now = performance.now.bind(performance);"
    f"window.setTimeout = (f, ms, ...rest) => wait(f, ms / {FASTER}, ...rest);"
    f"performance.now = () => {FASTER} * now()}}"
)


@pytest.fixture(scope="module")
def near(bundled):
    """Chromium with no way to any network but this machine's loopback address."""
    open_loopback = [argument.replace("~NOTFOUND", "~NOTFOUND , EXCLUDE 127.0.0.1") for argument in NO_NETWORK]
    with chromium(open_loopback, {"browser": "ALL"}) as started:
        started.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": HURRY})
        yield started


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return make_whole(tmp_path_factory.mktemp("whole"))


def wait_for(driver, code, wanted):
    """Until a script returns what is wanted; the page may be changing under way."""
    from selenium.common.exceptions import WebDriverException

    end = time.monotonic() + PATIENCE
    seen = None
    while time.monotonic() < end:
        try:
            seen = script(driver, code)
        except WebDriverException as error:
            seen = error
        if seen == wanted:
            return
        time.sleep(0.05)
    pytest.fail(f"{code} is {seen!r}, not {wanted!r}")


NUMBER = (
    "return document.documentElement.dataset.live === 'yes' && Number(document.getElementById('live').dataset.page)"
)
STATE = "return document.getElementById('live').dataset.state"
TEXT = "return document.getElementById('live-text').textContent"
SET = (
    "const [id, value] = arguments, e = document.getElementById(id); e.value = value;"
    "e.dispatchEvent(new Event('input', {bubbles: true})); e.dispatchEvent(new Event('change', {bubbles: true}))"
)
PLACE = (
    "return [document.getElementById('threshold').value, document.getElementById('threshold-value').textContent,"
    "document.getElementById('inspector-heading').textContent,"
    "document.querySelector('input[name=view]:checked').value,"
    "document.querySelector('#verdict details').open, document.getElementById('theme').value,"
    "[...document.querySelectorAll('.ask select')].map(s => s.value)]"
)
ASK = "const s = document.querySelectorAll('.ask select')[1]; s.value = 'done'; s.dispatchEvent(new Event('change'))"
TOP = "return Math.round(document.getElementById('evidence').getBoundingClientRect().top)"


def test_the_page_grows_with_the_run_and_keeps_the_place(near, whole, tmp_path):
    run = LiveRun(tmp_path / "run.doxa", share=1e9)
    with growing_run(tmp_path / "run.doxa", whole) as growing, serving(run) as address:
        near.get_log("browser")
        near.get(address)
        wait_for(near, STATE, "warm-up")
        assert "There is nothing to show yet" in near.find_element("css selector", "main").text
        growing.grow(20)
        wait_for(near, NUMBER, 1)
        wait_for(near, STATE, "running")
        assert script(near, TEXT).startswith("Running: 20 draws of each of 4 chains")
        for name, value in (("threshold", "0.83"), ("node", "2"), ("theme", "dark")):
            script(near, SET, name, value)
        near.find_element("css selector", "input[value=pairs]").click()
        script(near, "document.querySelector('#verdict details').open = true")
        script(near, ASK)
        script(near, "scrollTo({top: document.getElementById('evidence').offsetTop + 40, behavior: 'instant'})")
        place, top = script(near, PLACE), script(near, TOP)
        assert place[:2] == ["0.83", "0.83"]
        growing.grow(20)
        wait_for(near, NUMBER, 2)
        assert script(near, PLACE) == place
        assert abs(script(near, TOP) - top) <= 3
        assert script(near, "return document.getElementById('live').dataset.draws") == "40"
        # who does not follow is offered the newer page instead
        near.find_element("id", "live-follow").click()
        growing.grow(20)
        wait_for(near, "return document.getElementById('live-show').hidden", False)
        assert script(near, TEXT).endswith("This page shows the first 40.")
        time.sleep(4 / FASTER)
        assert script(near, NUMBER) == 2
        near.find_element("id", "live-show").click()
        wait_for(near, NUMBER, 3)
        assert script(near, PLACE) == place
        assert not near.find_element("id", "live-follow").is_selected()
        assert near.get_log("browser") == []
        growing.finish()
        wait_for(near, STATE, "finished")
    wait_for(near, STATE, "gone")
    assert script(near, TEXT).endswith(f"is made by: doxa report {tmp_path / 'run.doxa'} -o report.html")


def test_the_page_may_ask_no_other_address(near, whole, tmp_path):
    run = LiveRun(tmp_path / "run.doxa", share=1e9)
    with growing_run(tmp_path / "run.doxa", whole) as growing, serving(run) as address:
        growing.grow(20)
        near.get(address)
        wait_for(near, NUMBER, 1)
        with serving(LiveRun(tmp_path / "other.doxa")) as other:
            refused = (
                "const [url, done] = arguments; let broken = '';"
                "addEventListener('securitypolicyviolation', e => { broken = e.effectiveDirective });"
                "fetch(url, {mode: 'no-cors'})"
                ".then(() => done('let through'), () => setTimeout(() => done(broken), 100))"
            )
            assert near.execute_async_script(refused, other) == "connect-src"
            assert near.execute_async_script(refused, f"{address}status") == "let through"  # the twin
        harm = (
            "const e = document.createElement('p'); e.setAttribute('onclick', 'window.harm = 1');"
            "document.body.append(e); e.click(); return window.harm ?? 'none'"
        )
        assert script(near, harm) == "none"
        near.get_log("browser")


def test_axe_finds_nothing(near, whole, tmp_path):
    if not AXE.exists():
        go_without("axe-core is not there: python scripts/fetch_page_assets.py --tests")
    run = LiveRun(tmp_path / "run.doxa", share=1e9)
    with growing_run(tmp_path / "run.doxa", whole) as growing, serving(run) as address:
        near.get(address)
        for page, theme in ((0, "light"), (1, "light"), (1, "dark")):
            if page and not growing.n_draws:
                growing.grow(20)
            wait_for(near, NUMBER, page)
            if page:
                script(near, SET, "theme", theme)
            near.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
            found = axe_says(near)
            near.execute_cdp_cmd("Page.setBypassCSP", {"enabled": False})
            assert found == []


def test_closing_the_page_does_not_stop_the_run(near, tmp_path):
    write_table(tmp_path)
    words = ["learn", "reinis.csv", "--store", "run.doxa", "--draws", "500", "--thin", "2000", "--seed", "1"]
    command = [sys.executable, "-c", "from doxa.cli import main; main()", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path}
    with subprocess.Popen([*command, "--watch"], **pipes) as process:
        told = process.stderr.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", told)[0]
        near.get(address)
        wait_for(
            near,
            "return ['before', 'warm-up', 'running'].includes(document.getElementById('live').dataset.state)",
            True,
        )
        near.get("about:blank")
        assert process.poll() is None
        out, err = process.communicate(timeout=280)
    assert (process.returncode, [line for line in err.splitlines() if "compiling" not in line]) == (0, [])
    kept = doxa.load(tmp_path / "run.doxa")
    assert kept.n_edges.shape == (4, 500)
    assert kept.verdict in out
    near.get_log("browser")
