"""The report: how large it is, how long it takes to write, and to open.  CPU seconds on one core.

    python benchmarks/report.py

The posterior is that of 2000 records of ALARM (37 columns), 4 chains of 2000 draws.  Opening is measured in Chromium,
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

import doxa
from doxa.page import write_report
from doxa.page.assets import libraries, own_text
from doxa.page.numbers import json_block
from doxa.page.writing import page_data
from support.networks import load_network

LIMIT_BYTES, LIMIT_SECONDS = 800_000, 1.0
_OPENED = 7


def main() -> None:
    table = load_network("alarm").sample(2000, seed=1)
    posterior = doxa.learn(table, draws=2000, seed=1, workers=1)
    begin = time.process_time()
    data = page_data(posterior)
    worked_out = time.process_time() - begin
    parts = {name: len(json_block(part).encode()) for name, part in data.items()}
    parts["libraries"] = sum(len(library.script) + len(library.style) for library in libraries())
    parts["page.css"] = len(own_text("page.css"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        begin = time.process_time()
        size = write_report(posterior, path).stat().st_size
        again = time.process_time() - begin
        opened = seconds_to_open(path)
    for name, count in parts.items():
        print(f"{name:<12}{count / 1000:9.1f} kB")
    print(f"{'the page':<12}{size / 1000:9.1f} kB (limit {LIMIT_BYTES / 1000:.0f})")
    print(f"worked out in {worked_out:.1f} s, networks included; written again in {again:.1f} s")
    print("opened: no browser here" if opened is None else f"opened in {opened:.2f} s (limit {LIMIT_SECONDS:.0f})")
    sys.exit(size >= LIMIT_BYTES or (opened is not None and opened >= LIMIT_SECONDS))


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
