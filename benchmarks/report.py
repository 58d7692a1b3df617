"""The report: how large it is, how long it takes to write, and to open.  CPU seconds on one core.

    python benchmarks/report.py

Four pages: of graphs, the posterior of 2000 records of ALARM (37 columns), 4 chains of 2000 draws; of a fit, the 61
coefficients of the voting records, each vote on the three before it, 4 chains of 2000 draws; of two inferences, all
variables of ALARM by importance sampling, and 64 x 64 spins by Gibbs sampling.  Opening is measured in Chromium,
headless, without a graphics card, where it and selenium are installed: from the start to the end of loading, all drawn.
"""

# ruff: noqa: E402 (threads are limited before NumPy is imported)

from __future__ import annotations

import os
import sys
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import doxa
from doxa.report import write_report
from doxa.report.document import LAYOUTS, libraries, own_text
from doxa.report.numbers import json_block
from doxa.report.writing import page_data
from support.networks import load_network, network_file

LIMITS = {"graphs": 800_000, "parameters": 300_000, "values": 300_000}  # bytes
LIMIT_SECONDS = 1.0
_OPENED = 7


def graphs() -> Any:
    table = load_network("alarm").sample(2000, seed=1)
    return doxa.learn(table, draws=2000, seed=1, workers=1)


def coefficients() -> Any:
    votes = doxa.datasets.load("house_votes")
    parents = {name: votes.names[max(0, j - 3) : j] for j, name in enumerate(votes.names) if j}
    return doxa.fit(doxa.LogisticNetwork(parents), votes, draws=2000, warmup=200, seed=1, workers=1)


def variables() -> Any:
    given = {"BP": "LOW", "HRBP": "HIGH"}
    return doxa.infer(doxa.read_network(network_file("alarm")), given=given, method="importance", seed=1)


def spins() -> Any:
    return doxa.infer(doxa.ising_grid(64, 64, coupling=0.3, field=0.1), method="gibbs", draws=400, seed=1)


def main() -> None:
    failed = False
    for name, make in (("graphs", graphs), ("a fit", coefficients), ("ALARM", variables), ("spins", spins)):
        print(f"-- {name}")
        failed |= measure(make)
    sys.exit(failed)


def measure(make: Callable[[], Any]) -> bool:
    """Print what a page weighs and takes; whether it is over a limit."""
    answer = make()
    begin = time.process_time()
    data = page_data(answer)
    worked_out = time.process_time() - begin
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        begin = time.process_time()
        size = write_report(answer, path).stat().st_size
        again = time.process_time() - begin
        opened = seconds_to_open(path)
    for name, count in parts_of(data):
        print(f"{name:<14}{count / 1000:9.1f} kB")
    limit = LIMITS[data["kind"]]
    print(f"{'the page':<14}{size / 1000:9.1f} kB (limit {limit / 1000:.0f})")
    print(f"worked out in {worked_out:.1f} s; written again in {again:.1f} s")
    print("opened: no browser here" if opened is None else f"opened in {opened:.2f} s (limit {LIMIT_SECONDS:.0f})")
    return size >= limit or (opened is not None and opened >= LIMIT_SECONDS)


def parts_of(data: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Parts of a page with their bytes: data, scripts, styles, libraries."""
    layout = LAYOUTS[data["kind"]]
    for name, part in data.items():
        if (count := len(json_block(part).encode())) > 500:
            yield name, count
    yield "scripts", sum(len(own_text(name)) for name in layout.modules)
    yield "styles", sum(len(own_text(name)) for name in layout.styles)
    if layout.libraries:
        own = [library for library in libraries() if library.name in layout.libraries]
        yield "libraries", sum(len(library.script) + len(library.style) for library in own)


def seconds_to_open(path: Path) -> float | None:
    """Median of several openings, wall seconds; None where there is nothing to open it with."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ModuleNotFoundError:
        return None
    if browser is None or driver is None:
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    opener = webdriver.Chrome(options=options, service=Service(driver))
    try:
        times = []
        for _ in range(_OPENED):
            opener.get(path.as_uri())
            times.append(opener.execute_script("return performance.getEntriesByType('navigation')[0].loadEventEnd"))
        return statistics.median(times) / 1000
    finally:
        opener.quit()


if __name__ == "__main__":
    main()
