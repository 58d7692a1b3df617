"""The live view: what it says of a run, which pages it makes and when, and whom it answers."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

import pytest
from live_cases import ask, growing_run, make_whole

from doxa.errors import ArgumentError
from doxa.report import page_text
from doxa.report.document import hash_source
from doxa.report.live_maker import PageMaker
from doxa.report.live_run import LiveRun, Progress, live_page, progress_text, serving, writer_of

pytestmark = pytest.mark.usefixtures("bundled")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return make_whole(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def growing(whole, tmp_path):
    with growing_run(tmp_path / "run.doxa", whole) as run:
        yield run


@pytest.fixture
def live(tmp_path):
    """The live view of the growing run, with all the time that it likes."""
    run = LiveRun(tmp_path / "run.doxa", share=1e9)
    yield run
    run.close()


@pytest.fixture
def served(live):
    with serving(live) as address:
        yield address


# --- what is said of a run -------------------------------------------------------------------------------------


def test_a_run_is_followed_from_before_its_file_to_its_end(whole, tmp_path, live):
    assert live.status().state == "before"
    with growing_run(tmp_path / "run.doxa", whole) as run:
        assert live.status().state == "warm-up"
        run.warm_up(10)
        assert "In the warm-up: 10 draws of each chain" in live.status().text
        run.grow(20)
        status = live.status()
        assert (status.state, status.draws) == ("running", 20)
        assert re.fullmatch(r"Running: 20 draws of each of 4 chains, \d s so far, not finished\.", status.text)
        run.finish()
        status = live.status()
        assert status.state == "finished"
        assert status.text == "Finished: 20 draws of each of 4 chains. The run stopped at its limit (max_draws)."


def test_a_run_whose_writer_left_early_has_stopped(whole, tmp_path, live):
    with growing_run(tmp_path / "run.doxa", whole) as run:
        run.grow(20)
    status = live.status()
    assert status.state == "stopped"
    assert "Stopped before its end: 20 draws" in status.text
    assert status.text.endswith(f"Go on with it by: doxa learn --resume {tmp_path / 'run.doxa'}")


def test_a_killed_writer_leaves_a_sidecar_and_is_known_to_be_dead(tmp_path):
    code = (
        "import sys, pathlib, doxa.estimates.store.lease as l;"
        "h = l.Lease(pathlib.Path(sys.argv[1])); print('held', flush=True); input()"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "run.doxa")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        alive = writer_of(tmp_path / "run.doxa")
        holder.kill()
        holder.wait()
    assert (tmp_path / "run.doxa.lock").exists()
    assert alive.alive is True
    assert abs(alive.since - time.time()) < 60
    assert writer_of(tmp_path / "run.doxa").alive is False


def test_a_writer_on_another_machine_cannot_be_told(tmp_path):
    (tmp_path / "run.doxa.lock").write_text("process 1 on elsewhere.example\n")
    assert writer_of(tmp_path / "run.doxa").alive is None
    (tmp_path / "run.doxa.lock").write_text("\x1b[31m process many\n")
    assert writer_of(tmp_path / "run.doxa").alive is None


def test_what_is_no_run_is_said(tmp_path, live):
    (tmp_path / "run.doxa").write_text("a,b\n1,2\n")
    status = live.status()
    assert status.state == "trouble"
    assert "is not a run of doxa" in status.text


def test_planned_draws_are_told():
    progress = Progress("running", chains=1, draws=5, planned=100, since=0.0)
    assert progress_text(progress, Path("r"), 7200.0).startswith("Running: 5 draws of 100 of 1 chain, 2 h 0 min so far")


# --- pages -----------------------------------------------------------------------------------------------------


def test_a_page_is_made_of_each_commit_once(growing, live):
    growing.grow(20)
    assert live.status().page == 0
    live.wait()
    first = live.page()
    assert 'data-page="1" data-draws="20"' in first
    live.status()
    live.wait()
    assert live.status().page == 1  # nothing is new
    growing.grow(20)
    live.status()
    live.wait()
    assert 'data-page="2" data-draws="40"' in live.page()


def test_pages_stay_within_their_share_of_the_time(growing, tmp_path):
    run = LiveRun(tmp_path / "run.doxa", share=0.0)
    growing.grow(20)
    run.status()
    run.wait()
    growing.grow(20)
    run.status()
    run.wait()
    assert run.status().page == 1  # the first one is free
    growing.finish()
    run.status()
    run.wait()
    assert run.status().page == 2  # nothing is left to be disturbed
    run.close()


def test_too_few_draws_make_no_page(growing, live):
    growing.grow(3)
    assert live.status().page == 0
    live.wait()
    assert live.status().page == 0
    assert "There is nothing to show yet" in live.page()


def test_the_file_is_only_read(growing, live, tmp_path):
    growing.grow(20)
    before = (tmp_path / "run.doxa").read_bytes(), sorted(path.name for path in tmp_path.iterdir())
    live.status()
    live.wait()
    assert live.status().page == 1
    assert ((tmp_path / "run.doxa").read_bytes(), sorted(path.name for path in tmp_path.iterdir())) == before


def test_closing_gives_up_the_page_that_is_being_made(growing, tmp_path):
    growing.grow(20)
    run = LiveRun(tmp_path / "run.doxa")
    run.status()
    begin = time.monotonic()
    run.close()
    assert time.monotonic() - begin < 10  # to make it would take about as long as to import everything
    assert run.status().page == 0


def test_a_page_that_cannot_be_made_is_said_and_nothing_of_the_folder_is_run(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("open('harm', 'w')\n")
    monkeypatch.chdir(tmp_path)
    maker = PageMaker(tmp_path / "none.doxa")
    made = maker.make()
    assert "none.doxa" in made.trouble
    assert made.page == ""
    maker.close()
    assert "has ended" in maker.make().trouble
    assert not (tmp_path / "harm").exists()


# --- the policy of the page ------------------------------------------------------------------------------------


def policy(page):
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    return dict(part.split(" ", 1) for part in found.split("; "))


def inline(page, tag):
    return re.findall(rf"<{tag}(?: id=\"[^\"]*\")?>(.*?)</{tag}>", page, re.DOTALL)


def attributes(page):
    """Names of the attributes of all elements."""
    found = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, given: found.extend(name for name, _ in given)
    parser.feed(page)
    return found


def test_the_policy_allows_to_ask_home_and_nothing_else_more(reinis):
    report = page_text(reinis)
    page = live_page(report, 1, 600, "gone")
    plain, live = policy(report), policy(page)
    assert "connect-src" not in plain
    assert live.pop("connect-src") == "'self'"
    for name in ("script-src", "style-src"):
        assert set(plain[name].split()) < set(live[name].split())
        assert len(live[name].split()) == len(plain[name].split()) + 1
    for name in plain.keys() - {"script-src", "style-src"}:
        assert live[name] == plain[name]
    for tag, source in (("script", "script-src"), ("style", "style-src")):
        assert {hash_source(text) for text in inline(page, tag)} == set(live[source].split())
    assert "data-page" in attributes(page)
    assert not [name for name in attributes(page) if name.startswith("on")]


def test_a_report_that_is_made_otherwise_is_noticed():
    with pytest.raises(ValueError, match="the report holds no"):
        live_page("<html></html>", 1, 1, "gone")


def test_the_waiting_page_has_no_handlers_and_no_foreign_text(live, tmp_path):
    live.path = tmp_path / "<img src=x onerror=alert(1)>.doxa"
    page = live.page()
    assert "<img" not in page
    assert policy(page)["connect-src"] == "'self'"
    for tag, source in (("script", "script-src"), ("style", "style-src")):
        assert {hash_source(text) for text in inline(page, tag)} == set(policy(page)[source].split())
    assert not [name for name in attributes(page) if name.startswith("on")]


# --- whom it answers -------------------------------------------------------------------------------------------


def test_the_page_and_its_status_are_served_and_never_kept(served):
    status, headers, text = ask(served)
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    assert "There is nothing to show yet" in text
    status, headers, text = ask(served, urllib.parse.urlsplit(served).path + "status")
    assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    assert json.loads(text)["state"] == "before"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Server"].strip() == "doxa"


def test_other_hosts_are_refused(served):
    port = urllib.parse.urlsplit(served).port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert ask(served, hosts=(host,))[0] == 200
    foreign = [
        ("rebound.example",), (f"rebound.example:{port}",), (f"127.0.0.1:{port + 1}",), ("127.0.0.1",), ("localhost",),
        (f"127.0.0.1:{port}.rebound.example",), (f"[::1]:{port}",), ("",), (),
        (f"127.0.0.1:{port}", f"rebound.example:{port}"), (f"rebound.example:{port}", f"127.0.0.1:{port}"),
    ]  # fmt: skip
    for hosts in foreign:
        status, _, text = ask(served, hosts=hosts)
        assert (status, hosts) == (403, hosts)
        assert "token" not in text
        assert "rebound" not in text


def test_only_this_address_is_bound(served):
    port = urllib.parse.urlsplit(served).port
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    others = {"127.0.0.2", *(info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET))}
    for address in others - {"127.0.0.1"}:
        with pytest.raises(OSError, match=r"."), socket.create_connection((address, port), timeout=5):
            pass


def test_without_the_token_there_is_nothing(served):
    path = urllib.parse.urlsplit(served).path
    assert len(path) > 30
    wrong = path[:-2] + ("A" if path[-2] != "A" else "B") + "/"
    for other in (
        "/",
        "/status",
        path.rstrip("/"),
        wrong,
        f"{path}..",
        f"{path}run.doxa",
        f"{path}?x=1",
        "/é",
        f"{path}status/",
    ):
        other = urllib.parse.quote(other, safe="/?=.")
        status, _, text = ask(served, other)
        assert (status, text) == (404, "There is nothing here.\n")


@pytest.mark.parametrize("method", ["POST", "HEAD", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_only_get_is_answered(served, method):
    status, headers, _ = ask(served, method=method)
    assert (status, headers["Allow"]) == (405, "GET")


def test_what_is_no_request_is_not_repeated(served):
    port = urllib.parse.urlsplit(served).port
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b"<script>alert(1)</script>\r\n\r\n")
        assert b"<script>" not in connection.recv(4096)


def test_each_address_is_another(live):
    paths = set()
    for _ in range(3):
        with serving(live) as address:
            paths.add(urllib.parse.urlsplit(address).path)
    assert len(paths) == 3


def test_after_the_end_nobody_answers(live):
    with serving(live) as address:
        pass
    with pytest.raises(ConnectionRefusedError):
        ask(address)


@pytest.mark.parametrize("port", [-1, 70000])
def test_ports_that_there_are_not(live, port):
    with pytest.raises(ArgumentError, match=f"cannot be served on port {port}: .*leave it out"), serving(live, port):
        pass


def test_a_port_that_is_taken(live, served, tmp_path):
    port = urllib.parse.urlsplit(served).port
    other = LiveRun(tmp_path / "other.doxa")
    with pytest.raises(ArgumentError, match=f"cannot be served on port {port}: "), serving(other, port):
        pass
