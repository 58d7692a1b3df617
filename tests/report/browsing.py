"""What tests of pages in a browser share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

AXE = Path(__file__).parent / "vendor" / "axe-core.js"
NO_NETWORK = (
    "--headless=new",
    "--no-sandbox",  # Chromium refuses to run as root with one
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=127.0.0.1:9",
    "--window-size=1300,1000",
)


def go_without(reason: str) -> NoReturn:
    """Where a browser is required, as CI does, what is missing is a failure, elsewhere a skip."""
    if os.environ.get("DOXA_BROWSER") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def chromium(arguments: Sequence[str], logs: Mapping[str, str]) -> Iterator[Any]:
    """Chromium with these arguments, keeping these logs."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ModuleNotFoundError:
        go_without("selenium is not installed: pip install selenium")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    control = shutil.which("chromedriver")
    if browser is None or control is None:
        go_without("there is no Chromium with its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in arguments:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", dict(logs))
    started = webdriver.Chrome(options=options, service=Service(control))
    try:
        yield started
    finally:
        started.quit()


def script(driver, code, *arguments):
    return driver.execute_script(code, *arguments)


def element(driver, css):
    return driver.find_element("css selector", css)


def elements(driver, css):
    return driver.find_elements("css selector", css)


def wait_until_drawn(driver):
    """The second of the next two frames begins when the first is on the screen, and Cytoscape.js draws with frames."""
    driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")


def assert_fits(driver, width):
    """In a window of that width, nothing sticks out of the page."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wait_until_drawn(driver)
    inner, outer = script(driver, "return [document.documentElement.scrollWidth, innerWidth]")
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert inner <= outer


def choose(driver, select, value):
    """Choose an option by its value, as a reader would."""
    code = (
        "const e = document.getElementById(arguments[0]); e.value = arguments[1]; e.dispatchEvent(new Event('change'))"
    )
    script(driver, code, select, str(value))


def axe_violations(driver, theme):
    """What axe-core finds in the page in a theme, with everything unfolded."""
    choose(driver, "theme", theme)
    script(driver, "for (const d of document.querySelectorAll('details')) d.open = true")
    return axe_says(driver)


def axe_says(driver):
    """What axe-core finds in the page as it is."""
    script(driver, AXE.read_text(encoding="utf-8"))
    run = "const done = arguments[0]; axe.run({resultTypes: ['violations']}).then(r => done(r.violations))"
    found = driver.execute_async_script(run)  # of what is in order it would list every element
    return [(v["id"], [n["target"] for n in v["nodes"]][:3]) for v in found]
