"""The web page in a real browser: Chromium without a window."""

import re

import numpy as np
import pytest
import scipy.stats
from pages import EVIL, evil_results

from adadim.report.page import Claims, Heading, HeatMap, Table, write_page
from adadim.study import Study, run
from browsers import open_chromium

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait

TABLE = Table(
    "Claims of <b>ours</b>",
    ["Some text."],
    [Heading("claim"), Heading("verdict", "what the data say", "verdict"), Heading("value", kind="number")],
    [["b10", "holds", 3.25], ["b9", "undecided", None], ["</td><script>x</script>", "does not hold", -7.0]],
    choose="verdict",
    meanings={"holds": "it is so"},
)
RATIOS = {(0, 0): (0.5, 0.4, 0.6), (1, 0): (4.0, 3.0, 5.0), (0, 1): (1.5, 1.0, 2.0)}
# Like the table of the paper's claims: many columns, two of them sentences.
WORDS = "mean regret of Dynamic Balancing minus that of LinUCB++, smallest over alpha"
STATISTICS = Table(
    "The statistics",
    ["How they are computed."],
    [
        *(Heading("claim"), Heading("verdict", "", "verdict"), Heading("statistic")),
        *(Heading(f"number {i}", kind="number") for i in range(8)),
    ],
    [[WORDS, verdict, WORDS, *[-0.00012345] * 8] for verdict in ("holds", "does not hold", "undecided")],
    meanings={"holds": "it is so"},
)
CLAIMS = Claims(
    "What was <i>said</i>",
    ["5 verdicts: holds 3."],
    [
        ("fig1", "One is better than two", [("text", "holds"), ("code", "does not hold")]),
        ("fig1", "<img src=y>", [("text", "undecided")]),
        ("fig2", WORDS, [("text", "holds"), ("code", "holds")]),
    ],
    STATISTICS,
)
TOO_WIDE = Table("Wide", [], [Heading(f"column {i}", kind="number") for i in range(40)], [[0.12345] * 40] * 2)
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
    driver = open_chromium("--window-size=1200,900")
    yield driver
    driver.quit()


SIZES = {"wide": (1280, 900), "phone": (390, 844)}


def resize(chromium, size):
    width, height = SIZES[size]
    shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)


@pytest.fixture(scope="module")
def told_results(tmp_path_factory):
    """One instance on which one policy is told d*, and two others are one and the same."""
    sphere = {"kind": "sphere", "arms": 20, "dim": 8, "intrinsic_dim": 2, "horizon": 60}
    policies = {
        "oracle": {"kind": "LinUCB", "dim": "@intrinsic_dim"},
        "LinUCB": {"kind": "LinUCB"},
        "one": {"kind": "Random"},
        "other": {"kind": "Random"},
    }
    return run(Study("told", {"sphere": sphere}, policies, trials=9), tmp_path_factory.mktemp("told"), jobs=1)


@pytest.fixture(scope="module")
def full_page(results, told_results, tmp_path_factory):
    """A page as a reproduction makes it: several studies, claims, tables and a heat map."""
    path = tmp_path_factory.mktemp("full") / "report.html"
    return write_page(path, [told_results, results, told_results], "Full", [CLAIMS, TOO_WIDE, HEAT, TABLE])


@pytest.fixture
def full(chromium, full_page, request):
    """The full page, opened at a size."""
    chromium.get_log("browser")
    resize(chromium, request.param)
    chromium.get(full_page.as_uri())
    yield chromium
    assert chromium.get_log("browser") == []


wide = pytest.mark.parametrize("full", ["wide"], indirect=True)
phone = pytest.mark.parametrize("full", ["phone"], indirect=True)
both = pytest.mark.parametrize("full", ["wide", "phone"], indirect=True)


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


def box(browser, selector):
    """Where an element is on the page: left, top, right and bottom."""
    found = browser.execute_script(
        "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", selector
    )
    return [found[side] for side in ("left", "top", "right", "bottom")]


@both
def test_it_opens_with_the_figure_and_who_wins(full):
    sections = [section.get_attribute("id") for section in all_of(full, "main section")]
    assert sections == ["study-0", "block-0", "block-1", "block-2", "block-3", "study-1", "study-2"]
    assert [link.get_attribute("hash") for link in all_of(full, "nav a")] == [f"#{name}" for name in sections]
    height = full.execute_script("return innerHeight")
    winner, chart = box(full, "#study-0 .winner"), box(full, "#study-0 .chart svg")
    controls, legend = box(full, "#study-0 .controls"), box(full, "#study-0 .legend")
    assert 0 < winner[1] < winner[3] <= chart[1] < chart[3] < height
    assert max(chart[3], legend[3]) <= controls[1]


def interval(values):
    return scipy.stats.t.interval(0.95, len(values) - 1, np.mean(values), scipy.stats.sem(values))


@wide
def test_the_sentence_says_who_wins_and_by_how_much(full, told_results):
    finals = {name: told_results.final("sphere", name) for name in told_results.policies}
    text = one(full, "#study-0 .winner").text
    found = re.fullmatch(
        r"Of the policies that are not given d\*, LinUCB has the least regret after 60 rounds: ([\d.]+), "
        r"which is ([\d.]+) \((\d+)%\) less than (?:one|other), the next best "
        r"\(95% interval ([\d.]+) to ([\d.]+), 9 trials\)\. oracle, which is given it, has ([\d.]+)\.",
        text,
    )
    gap = finals["one"] - finals["LinUCB"]
    low, high = interval(gap)
    share = 100 * gap.mean() / finals["one"].mean()
    expected = [finals["LinUCB"].mean(), gap.mean(), share, low, high, finals["oracle"].mean()]
    assert [float(x) for x in found.groups()] == pytest.approx(expected, rel=6e-3)
    all_of(full, "#study-0 .policy input")[1].click()  # without the winner two are left that are the same
    found = one(full, "#study-0 .winner").text
    assert re.search(r"one and other cannot be told apart: .* difference 0 \(95% interval 0 to 0, 9 trials\)", found)
    field = one(full, "#study-0 .controls input[type=text]")
    field.clear()
    field.send_keys("3")
    all_of(full, "#study-0 .policy input")[1].click()
    assert "(one trial, so no interval)" in one(full, "#study-0 .winner").text
    for policy in all_of(full, "#study-0 .policy input")[1:]:
        policy.click()
    mean = finals["oracle"][3]
    assert one(full, "#study-0 .winner").text == f"oracle has a mean regret of {mean:.3g} after 60 rounds (1 trial)."


@wide
def test_over_several_instances_the_sentence_is_about_their_mean(full, results):
    boxes = all_of(full, "#study-1 .policy input")
    boxes[1].click()
    boxes[2].click()
    shown = (EVIL[0], EVIL[3])
    finals = {name: np.array([results.final(i, name) for i in results.instances]) for name in shown}
    first, second = sorted(shown, key=lambda name: finals[name].mean())
    gap = (finals[second] - finals[first]).mean(axis=0)
    low, high = interval(gap)
    wins = sum(min(shown, key=lambda name: finals[name][i].mean()) == first for i in range(3))
    text = one(full, "#study-1 .winner").text
    assert f"after 60 rounds, averaged over 3 instances: {finals[first].mean():.3g}" in text
    assert text.startswith(f"{first} has the least regret")
    assert f"less than {second}, the next best" in text
    assert f"{first} is best on {wins} of the 3." in text
    found = re.search(r"95% interval ([\d.]+) to ([\d.]+), 7 trials", text)
    assert [float(x) for x in found.groups()] == pytest.approx([low, high], rel=6e-3)


@both
def test_claims_are_a_list_with_a_verdict_each(full):
    items = all_of(full, "#block-0 .claims li")
    shown = [" ".join(item.text.split()) for item in items]
    assert shown[0] == "holds text does not hold code One is better than two"
    assert shown[1] == "undecided text <img src=y>"
    assert [heading.text for heading in all_of(full, "#block-0 .claims h3")] == ["fig1", "fig2"]
    verdicts = all_of(full, "#block-0 .claims .verdict")
    assert [v.get_attribute("class").split()[1] for v in verdicts] == ["good", "bad", "open", "good", "good"]
    assert len({v.value_of_css_property("color") for v in verdicts}) == 3
    starts = {box(full, f"#block-0 .claims ul:nth-of-type({k}) li:first-child > span:last-child")[0] for k in (1, 2)}
    assert len(starts) == 1  # sentences stand below each other
    assert all_of(full, "#block-0 table") == []  # the statistics are folded away
    assert "How they are computed." not in one(full, "#block-0").text
    one(full, "#block-0 summary").click()
    WebDriverWait(full, 5).until(lambda _: all_of(full, "#block-0 table"))
    assert "How they are computed." in one(full, "#block-0").text
    assert column(full, "#block-0", 1) == ["holds", "does not hold", "undecided"]
    assert box(full, "#block-0 .claims")[3] <= box(full, "#block-0 table")[1]


def unfold(browser):
    browser.execute_script("document.querySelectorAll('main details').forEach((fold) => { fold.open = true; })")
    WebDriverWait(browser, 10).until(lambda _: len(all_of(browser, "pre.toml")) == 3)


@both
def test_tables_fit_or_say_that_they_scroll(full):
    unfold(full)
    sizes = (
        "return [...document.querySelectorAll('.scroll')].map((box) => [box.scrollWidth > box.clientWidth + 1,"
        "!box.previousSibling.hidden, box.classList.contains('more'), box.closest('section').id])"
    )

    def agree(browser):  # the page measures its tables when the browser has laid them out
        return all(hides == told == marked for hides, told, marked, _ in browser.execute_script(sizes))

    WebDriverWait(full, 5).until(agree)
    tables = full.execute_script(sizes)
    assert len(tables) == 4 + 3 * 3
    scrolling = {section for hides, _, _, section in tables if hides}
    width = full.execute_script("return innerWidth")
    assert scrolling == {"block-1"} if width == 1280 else scrolling >= {"block-0", "block-1"}
    hint = one(full, "#block-1 .hint")
    assert hint.is_displayed()
    assert "scroll it sideways" in hint.text
    full.execute_script("const box = document.querySelector('#block-1 .scroll'); box.scrollLeft = box.scrollWidth")
    WebDriverWait(full, 5).until(lambda _: "more" not in one(full, "#block-1 .scroll").get_attribute("class"))
    root = full.execute_script("const root = document.documentElement; return [root.scrollWidth, root.clientWidth]")
    assert root[0] == root[1]  # and the page as a whole does not


@phone
def test_on_a_phone_the_sections_are_folded(full):
    assert box(full, "nav")[3] - box(full, "nav")[1] < 50
    assert not any(link.is_displayed() for link in all_of(full, "nav a"))
    summary = one(full, "nav summary")
    assert summary.text == "7 sections"
    summary.click()
    assert all(link.is_displayed() for link in all_of(full, "nav a"))
    all_of(full, "nav a")[1].click()  # and folded again once one is chosen
    WebDriverWait(full, 5).until(lambda _: not all_of(full, "nav a")[1].is_displayed())
    assert abs(box(full, "#block-0")[1]) < 2


@wide
def test_on_a_wide_screen_the_sections_are_there(full):
    assert all(link.is_displayed() for link in all_of(full, "nav a"))
    assert not one(full, "nav summary").is_displayed()
    resize(full, "phone")
    WebDriverWait(full, 5).until(lambda _: not all_of(full, "nav a")[0].is_displayed())
    resize(full, "wide")
    WebDriverWait(full, 5).until(lambda _: all_of(full, "nav a")[0].is_displayed())


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

    kept = "return localStorage.getItem('adadim-theme')"
    assert browser.execute_script(kept) == "light"

    def light_after_reload(_):
        browser.refresh()
        stored = browser.execute_script(kept)
        followed = browser.execute_script(back) == light
        if stored is None:  # a busy browser may reload before it has stored anything: choose again
            one(browser, "#theme").click()
        return followed and stored == "light"

    WebDriverWait(browser, 60).until(light_after_reload)  # the reader's choice stays


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
