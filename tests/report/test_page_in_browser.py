"""The web page in a real browser: Chromium without a window."""

import re
import shutil

import pytest
import scipy.stats
from pages import EVIL, evil_results

from adadim.report.page import Column, HeatMap, Table, write_page

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed")

TABLE = Table(
    "Claims of <b>ours</b>",
    ["Some text."],
    [Column("claim"), Column("verdict", "what the data say", "verdict"), Column("value", kind="number")],
    [["b10", "holds", 3.25], ["b9", "undecided", None], ["</td><script>x</script>", "does not hold", -7.0]],
    choose="verdict",
    meanings={"holds": "it is so"},
)
RATIOS = {(0, 0): (0.5, 0.4, 0.6), (1, 0): (4.0, 3.0, 5.0), (0, 1): (1.5, 1.0, 2.0)}
HEAT = HeatMap(
    "Comparison",
    ["Ratios."],
    [("dev", "easy"), ("held", "hard")],
    ["mine", "theirs"],
    {"oracle": RATIOS, "linucb++": {(0, 0): (0.1, 0.1, 0.1)}},
    {(0, 0): 12.0},
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return evil_results(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    return write_page(tmp_path_factory.mktemp("page") / "report.html", [results], "Two <b>words</b>", [TABLE, HEAT])


@pytest.fixture(scope="module")
def chromium():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium, page):
    """The page, freshly opened; at the end the console must hold no complaint."""
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    chromium.get(page.as_uri())
    chromium.get_log("browser")
    chromium.execute_script("localStorage.clear()")
    chromium.get(page.as_uri())
    yield chromium
    assert chromium.get_log("browser") == []


def all_of(browser, selector):
    return browser.find_elements("css selector", selector)


def one(browser, selector):
    return browser.find_element("css selector", selector)


def choose(browser, label, text):
    """Choose an option of the first list with a label."""
    script = """
        const label = [...document.querySelectorAll("label")].find((l) => l.firstChild.textContent === arguments[0]);
        const list = label.querySelector("select");
        list.value = [...list.options].find((o) => o.textContent.startsWith(arguments[1])).value;
        list.dispatchEvent(new Event("change"));
    """
    browser.execute_script(script, label, text)


def tooltip(browser):
    return one(browser, "#tooltip").text


def show_curves(browser):
    choose(browser, "regret", "over rounds")


def press(browser, key):
    one(browser, ".chart").send_keys(getattr(webdriver.Keys, key))


def column(browser, table, j):
    return [row.find_elements("css selector", "td, th")[j].text for row in all_of(browser, f"{table} tbody tr")]


def test_it_opens_with_every_name_as_text(browser):
    assert browser.title == "Two <b>words</b>"
    assert one(browser, "h1").text == "Two <b>words</b>"
    assert [name.text for name in all_of(browser, ".policy .name")] == list(EVIL)
    assert one(browser, "#study-0 h2").text == "<img src=x onerror=alert(1)> [bold]title[/bold]"
    assert all_of(browser, "main b, main i, main img, main script") == []
    assert len(all_of(browser, "#study-0 path.mean")) == 4
    assert "adadim" in one(browser, "footer").text


def test_a_policy_is_hidden_and_shown(browser):
    boxes = all_of(browser, ".policy input")
    boxes[1].click()
    assert len(all_of(browser, "#study-0 path.mean")) == 3
    press(browser, "HOME")
    assert EVIL[0] in tooltip(browser)
    assert EVIL[1] not in tooltip(browser)
    boxes[1].send_keys(" ")  # by keyboard
    assert len(all_of(browser, "#study-0 path.mean")) == 4
    none = next(button for button in all_of(browser, ".legend button") if button.text == "none")
    none.click()
    assert all_of(browser, "#study-0 path.mean") == []
    assert "choose a policy" in one(browser, ".caption").text


def test_the_tooltip_tells_mean_and_interval(browser, results):
    show_curves(browser)
    chart = one(browser, ".chart")
    webdriver.ActionChains(browser).move_to_element_with_offset(chart, chart.size["width"] // 2 - 16, 0).perform()
    assert tooltip(browser).startswith("round 60")
    final = results.final(results.instances[0], EVIL[3])
    low, high = scipy.stats.t.interval(0.95, len(final) - 1, final.mean(), scipy.stats.sem(final))
    shown = re.search(re.escape(EVIL[3]) + r"\s+([\d.]+)\s+\[([\d.]+), ([\d.]+)\]", tooltip(browser))
    assert [float(x) for x in shown.groups()] == pytest.approx([final.mean(), low, high], rel=5e-3)


@pytest.mark.parametrize("trials", [2, 5, 11, 12, 40])
def test_intervals_are_students(browser, trials):
    factor = browser.execute_script("return student(arguments[0])", trials - 1)
    assert factor == pytest.approx(scipy.stats.t.ppf(0.975, trials - 1), abs=2e-3)


def test_arrow_keys_move_along_the_curve(browser, results):
    show_curves(browser)
    times = results.curves(results.instances[0], EVIL[0])[0]
    press(browser, "HOME")
    press(browser, "ARROW_RIGHT")
    assert tooltip(browser).startswith(f"round {times[0]}")
    press(browser, "END")
    assert tooltip(browser).startswith(f"round {times[-1]}")
    press(browser, "ESCAPE")
    assert not one(browser, "#tooltip").is_displayed()


def test_trials_can_be_chosen(browser, results):
    show_curves(browser)
    field = one(browser, ".controls input[type=text]")
    field.clear()
    field.send_keys("1-2, 5")
    press(browser, "END")
    mean = results.final(results.instances[0], EVIL[0], trials=[1, 2, 5]).mean()
    shown = re.search(re.escape(EVIL[0]) + r"\s+([\d.]+)", tooltip(browser))
    assert float(shown[1]) == pytest.approx(mean, rel=1e-3)
    assert "mean over 3 trials" in one(browser, "#study-0 .caption").text
    field.clear()
    field.send_keys("99")
    assert "wrong" in field.get_attribute("class")
    assert "mean over 3 trials" in one(browser, "#study-0 .caption").text


def test_another_instance_and_single_trials(browser, results):
    show_curves(browser)
    choose(browser, "instance", results.instances[2])
    one(browser, "#study-0 .check input").click()
    assert len(all_of(browser, "path.singles")) == 4
    assert one(browser, "path.singles").get_attribute("d").count("M") == 7
    press(browser, "END")
    mean = results.final(results.instances[2], EVIL[3]).mean()
    assert float(re.search(re.escape(EVIL[3]) + r"\s+([\d.]+)", tooltip(browser))[1]) == pytest.approx(mean, rel=1e-3)


def test_regret_against_parameters(browser, results):
    choose(browser, "regret", "against intrinsic_dim")
    press(browser, "HOME")
    press(browser, "ARROW_RIGHT")
    assert tooltip(browser).startswith("intrinsic_dim = 4")
    mean = results.final(results.instances[1], EVIL[1]).mean()
    assert float(re.search(re.escape(EVIL[1]) + r"\s+([\d.]+)", tooltip(browser))[1]) == pytest.approx(mean, rel=1e-3)
    choose(browser, "regret", "against beta of the policy")
    press(browser, "END")
    assert tooltip(browser).startswith("beta = 0.75")
    mean = results.final(results.instances[0], EVIL[2]).mean()
    assert float(re.findall(r"\s([\d.]+)\s+\[", tooltip(browser))[0]) == pytest.approx(mean, rel=1e-3)


def test_a_table_sorts_both_ways_with_what_is_missing_last(browser):
    value = all_of(browser, "#block-0 thead button")[2]
    value.click()
    assert column(browser, "#block-0", 2) == ["-7", "3.25", "–"]
    value.click()
    assert column(browser, "#block-0", 2) == ["3.25", "-7", "–"]
    assert all_of(browser, "#block-0 th")[2].get_attribute("aria-sort") == "descending"
    claim = all_of(browser, "#block-0 thead button")[0]
    claim.send_keys(webdriver.Keys.ENTER)
    assert column(browser, "#block-0", 0) == ["</td><script>x</script>", "b9", "b10"]  # numbers in names as numbers
    choose(browser, "verdict", "holds")
    assert column(browser, "#block-0", 0) == ["b10"]


def test_the_heat_map_sorts_and_changes_its_reference(browser):
    assert column(browser, "#block-1", 1) == ["0.50", "4.00"]
    mine = all_of(browser, "#block-1 thead button")[1]
    mine.click()
    mine.click()
    assert column(browser, "#block-1", 0) == ["hard", "easy"]
    cell = all_of(browser, "#block-1 tbody td")[0]
    assert cell.get_attribute("title") == "mine on hard: 4.00 [3.00, 5.00] of oracle; mean regret –"
    one(browser, "#block-1 .check input").click()
    assert column(browser, "#block-1", 1) == ["0.50\n[0.40, 0.60]", "4.00\n[3.00, 5.00]"]
    one(browser, "#block-1 .check input").click()
    choose(browser, "relative to", "linucb++")
    assert column(browser, "#block-1", 1) == ["0.10", "–"]
    choose(browser, "families", "held")
    assert column(browser, "#block-1", 0) == ["hard"]


def test_numbers_and_description_open(browser, results):
    for summary in all_of(browser, "#study-0 summary"):
        summary.click()
    WebDriverWait(browser, 5).until(lambda _: one(browser, "pre.toml"))
    rows = column(browser, "#study-0 details:first-of-type", 3)
    means = [results.final(*cell).mean() for cell in results.cells()]
    assert [float(x) for x in rows] == pytest.approx(means, rel=1e-3)
    text = one(browser, "#study-0 details:last-of-type").text
    assert "adadim run evil.toml" in text
    assert '[policies."<b>bold</b>"]' in text


def test_dark_and_light(browser):
    back = "return getComputedStyle(document.body).backgroundColor"
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    browser.refresh()
    dark = browser.execute_script(back)
    one(browser, "#theme").click()
    light = browser.execute_script(back)
    assert dark == "rgb(20, 23, 28)"
    assert light == "rgb(255, 255, 255)"

    def light_after_reload(_):
        browser.refresh()
        return browser.execute_script(back) == light

    WebDriverWait(browser, 10).until(light_after_reload)  # the reader's choice stays; it may take a moment to be stored


def test_nothing_sticks_out_of_a_telephone(browser):
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.refresh()
    assert browser.execute_script("return document.documentElement.scrollWidth") == 390
    press(browser, "END")
    box = one(browser, "#tooltip").rect
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


def test_it_prints(browser):
    one(browser, "#theme").click()  # dark
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not one(browser, ".controls").is_displayed()
    names = all_of(browser, ".policy .name")
    assert max(name.size["height"] for name in names) < 30  # each in a line
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    made = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert made["data"].startswith("JVBERi")  # %PDF
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert one(browser, ".chart rect").get_attribute("fill") == "#ffffff"
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert one(browser, ".chart rect").get_attribute("fill") == "#14171c"
