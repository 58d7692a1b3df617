"""Pages of fits and inferences in a real browser that has no network."""

from __future__ import annotations

import json

import pytest
from browsing import AXE, assert_fits, axe_violations, choose, element, elements, go_without, script, wait_until_drawn


def picture(driver, css):
    return script(driver, "return document.querySelector(arguments[0]).toDataURL()", css)


@pytest.mark.parametrize("which", ["fitted", "touring", "with_hidden", "sampled_answer", "spins"])
def test_they_open_without_a_network_and_without_a_word(page, request, which):
    answer = request.getfixturevalue(which)
    driver = page(answer)
    assert element(driver, "#verdict-box strong").text == answer.verdict.split(":")[0]
    asked = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = [m["params"]["request"]["url"] for m in asked if m["method"] == "Network.requestWillBeSent"]
    assert all(url.startswith(("file://", "data:")) for url in urls)
    assert len([url for url in urls if url.startswith("file://")]) == 1


def test_a_parameter_is_chosen_by_mouse_and_by_keyboard(page, fitted):
    from selenium.webdriver.common.keys import Keys

    driver = page(fitted)
    assert element(driver, "#parameter-heading").text == "Parameter systol: bias"
    wait_until_drawn(driver)
    before = picture(driver, "#parameter-box figure canvas")
    elements(driver, "#coefficients-box tbody button")[2].click()
    assert element(driver, "#parameter-heading").text == "Parameter systol: phys"
    assert script(driver, "return document.activeElement.id") == "parameter-heading"
    assert picture(driver, "#parameter-box figure canvas") != before
    mean = fitted.coefficient("systol", "phys").value
    assert abs(float(element(driver, "#parameter-text").text.split(",")[0]) - mean) < 1e-3
    elements(driver, "#coefficients-box tbody button")[4].send_keys(Keys.ENTER)
    assert element(driver, "#parameter-heading").text == "Parameter phys: bias"
    element(driver, "#chosen").send_keys(Keys.ARROW_DOWN)
    assert element(driver, "#parameter-heading").text == "Parameter phys: smoke"
    assert element(driver, "#announce").get_attribute("textContent") == "Parameter phys: smoke"


def test_the_table_of_parameters_sorts(page, fitted):
    driver = page(fitted)
    table = "#coefficients-box table"
    assert len(elements(driver, f"{table} .forest .point")) == len(fitted.summary())
    first = elements(driver, table)[0]
    head = next(th for th in first.find_elements("css selector", "thead th") if th.text == "R-hat")
    head.find_element("css selector", "button").click()
    rows = first.find_elements("css selector", "tbody tr")
    shown = [float(row.find_elements("css selector", "td")[-2].text) for row in rows]
    assert len(shown) == sum(fitted.summary()["coefficient"] != "probability")
    assert shown == sorted(shown, reverse=True)


def test_figures_and_words_of_a_fit(page, touring):
    driver = page(touring)
    titles = [title.text for title in elements(driver, "figcaption b")]
    assert {"Density", "Chains", "Weights of systol", "Lengths of tours", "Log density of systol"} <= set(titles)
    labels = [box.get_attribute("aria-label") for box in elements(driver, ".plot")]
    assert all(label and not label.endswith(". ") for label in labels)
    assert "complete tours" in element(driver, "#method-box").text


def test_a_loaded_fit_says_why_no_approximation_is_drawn(page, fitted, tmp_path):
    import doxa

    fitted.save(tmp_path / "fit.doxa")
    driver = page(doxa.load(tmp_path / "fit.doxa"))
    assert "keeps no approximations" in element(driver, "#parameter-box").text
    assert "approximation that draws were proposed from" not in element(driver, "#density-legend").text


def test_marginals_are_found_and_ordered(page, sampled_answer):
    from selenium.webdriver.common.keys import Keys

    driver = page(sampled_answer)
    assert len(elements(driver, ".card")) == 24
    assert element(driver, "#cards-status").text == f"24 of {len(sampled_answer)} variables shown."
    element(driver, "#find").send_keys("lv")
    assert {card.text.split("\n")[0] for card in elements(driver, ".card")} == {
        name for name in sampled_answer if "LV" in name
    }
    element(driver, "#find").clear()
    script(driver, "document.getElementById('find').dispatchEvent(new Event('input'))")
    choose(driver, "order", "sure")
    first = elements(driver, ".card")[0].text.split("\n")[0]
    surest = {name: max(e.value for e in table.values()) for name, table in sampled_answer.items()}
    assert first == min(surest, key=surest.get)
    element(driver, "#cards-more").send_keys(Keys.ENTER)
    assert len(elements(driver, ".card")) == len(sampled_answer)


def test_bars_have_whiskers_and_numbers(page, sampled_answer):
    driver = page(sampled_answer)
    name, table = next(iter(sampled_answer.items()))
    card = element(driver, ".card")
    assert card.text.split("\n")[0] == name
    for estimate, text in zip(table.values(), card.find_elements("css selector", ".value"), strict=True):
        assert text.text == str(estimate).replace("+/-", "\u00b1")
    assert len(card.find_elements("css selector", ".interval")) == len(table)
    assert not elements(driver, "#grid:not([hidden])")
    assert not element(driver, "nav a[href='#grid']").is_displayed()


def test_the_map_by_pointer_and_by_keyboard(page, spins):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    driver = page(spins)
    found = element(driver, "#map")
    assert "Map of the probability of 1, 6 rows and 9 columns" in found.get_attribute("aria-label")
    ActionChains(driver).move_to_element(found).perform()  # the middle: row 3, or 2 by a hair, column 4
    assert element(driver, "#map-cell").text.startswith(("X3_4: probability of 1", "X2_4: probability of 1"))
    row = int(element(driver, "#map-cell").text[1])
    found.send_keys(Keys.ARROW_LEFT)
    shown = element(driver, "#map-cell").text
    p = spins[f"X{row}_3"]["1"]
    assert shown.startswith(f"X{row}_3: probability of 1 {p.value:.3f} \u00b1 ")
    found.send_keys(Keys.ARROW_UP * 9 + Keys.ARROW_LEFT * 9)
    assert element(driver, "#map-cell").text == "X0_0: probability of 1 0.000, observed"


def test_the_map_changes_with_what_is_asked_of_it(page, spins):
    driver = page(spins)
    pictures = [picture(driver, "#map")]
    choose(driver, "map-scale", "found")
    pictures.append(picture(driver, "#map"))
    choose(driver, "map-what", "error")
    pictures.append(picture(driver, "#map"))
    assert element(driver, "#map").get_attribute("aria-label").startswith("Map of the Monte Carlo error")
    choose(driver, "theme", "dark")
    pictures.append(picture(driver, "#map"))
    assert len(set(pictures)) == 4


def test_hostile_names_do_no_harm(page, hostile_fit, hostile_answer):
    for answer in (hostile_fit, hostile_answer):
        driver = page(answer)
        script(driver, "for (const b of document.querySelectorAll('.tools button')) b.click()")
        assert script(driver, "return document.images.length") == 0
        assert script(driver, "return document.querySelectorAll('img, main script, iframe').length") == 0
        assert "\u202e" not in script(driver, "return document.body.innerText")
    names = [name.text for name in elements(driver, ".card h3")]
    assert '" "' in names


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(page, request, theme):
    if not AXE.exists():
        go_without("axe-core is not there: python scripts/fetch_page_assets.py --tests")
    for which in ("touring", "hostile_fit", "sampled_answer", "spins"):
        assert axe_violations(page(request.getfixturevalue(which)), theme) == []


@pytest.mark.parametrize("width", [360, 800, 1600])
def test_nothing_sticks_out(page, hostile_fit, hostile_answer, spins, width):
    for answer in (hostile_fit, hostile_answer, spins):
        assert_fits(page(answer), width)


def test_they_print(page, fitted, spins):
    for answer in (fitted, spins):
        printed = page(answer).execute_cdp_cmd("Page.printToPDF", {"printBackground": False})
        assert len(printed["data"]) > 20_000


def test_coefficients_of_graphs_learned_with_regressions(page, logistic):
    driver = page(logistic)
    node = logistic.names.index("systol")
    choose(driver, "node", node)
    text = element(driver, "#inspected").text
    assert "Coefficients" in text
    assert "a regression and no table with probability" in text
