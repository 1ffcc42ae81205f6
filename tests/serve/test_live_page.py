"""The live page in a real browser: it opens, follows what the agent does, and has nothing to complain about."""

import itertools
import json
import re
import time

import numpy as np
import pytest

from adadim.agent import Agent
from adadim.serve import Client, Settings
from browsers import open_chromium

WIDE, PHONE = (1280, 900), (390, 844)
TOKEN = "correct-horse-battery-staple"
ARMS = {"sku-1": [1.0, 0.9, 0.0], "sku-2": [1.0, 0.1, 0.1], "<img src=x onerror=alert(1)>": [1.0, -0.4, 0.3]}


@pytest.fixture(scope="module")
def browser():
    """Chromium without a window."""
    opened = open_chromium("--hide-scrollbars", logs=("browser", "performance"))
    yield opened
    opened.quit()


@pytest.fixture
def show(browser):
    """Opens an address at a size, in light or dark; at the end nothing may have been complained about."""

    def open_at(url, size=WIDE, dark=False):
        width, height = size
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.get(url)
        return browser

    browser.get("about:blank")
    browser.get_log("browser")
    browser.get_log("performance")
    yield open_at
    assert browser.get_log("browser") == []


def text(browser, name):
    return browser.execute_script("return document.getElementById(arguments[0]).textContent", name)


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def updated(page):
    """The page, told to look now and not when it would by itself."""
    page.execute_script("update()")
    return page


@pytest.fixture(scope="module")
def url(service):
    return str(service.base_url)


@pytest.fixture(params=["file", "database"])
def new_url(request):
    """The address of a service whose agent has decided nothing yet."""
    if request.param == "file":
        yield request.getfixturevalue("url")
        return
    pytest.importorskip("uvicorn")
    from adadim.serve import Service

    address = f"{request.getfixturevalue('database').url}#live-page"
    Agent.create(address, dim=3, levels={"price": 2, "text": 3}).close()
    with Service(address, Settings(port=0)) as service:
        yield service.url


def test_the_numbers_change_as_the_agent_works(show, new_url):
    url = new_url
    page = show(url)
    wait_for(lambda: text(page, "decisions") == "0")
    assert text(page, "trend") == "No reward yet"
    assert text(page, "dimensionText") == "No reward yet: these are the prior probabilities"
    assert bar_colours(page) == {"bar prior"}  # no bar stands out before there is evidence
    assert not page.find_element("id", "late").is_displayed()
    rng = np.random.default_rng(0)
    with Client(url) as client:
        ids = [client.ask(ARMS).id for _ in range(12)]
        wait_for(lambda: text(page, "decisions") == "12")  # which it finds out by itself
        assert (text(page, "rewards"), text(page, "outstanding")) == ("0", "12")
        assert "sku-" in text(page, "shares")
        client.tell_many({i: float(rng.standard_normal()) for i in ids[:8]})
        for i in ids[8:10]:
            client.tell(i, 0.5)
        wait_for(lambda: text(updated(page), "rewards") == "10")
        assert text(page, "outstanding") == "2"
        assert text(page, "stateText") == "live"
        assert client.status()["rewards"] == 10
        assert float(text(page, "mean")) < 3
        # Twelve calls and two are no percentiles: how many there were is shown.
        assert (text(page, "askTime"), text(page, "askTimeLabel")) == ("12", "calls of /ask")
        assert (text(page, "tellTime"), text(page, "tellTimeLabel")) == ("2", "calls of /tell")
        for _ in range(8):
            client.ask(ARMS)
        wait_for(lambda: text(updated(page), "askTimeLabel") == "/ask in ms: median · 99%")
    low, high = text(page, "askTime").split(" · ")
    assert 0 < float(low) <= float(high)
    assert text(page, "tellTime") == "2"
    assert text(page, "trendTitle") == "Reward per decision"
    assert page.execute_script("return document.querySelectorAll('#trend circle').length") == 10
    for name, marks in (("trend", "circle"), ("dimension", "rect"), ("top", ".span b")):
        assert page.execute_script(f"return document.querySelectorAll('#{name} {marks}').length") >= 1, name
    assert page.execute_script("return document.querySelectorAll('#dimension rect').length") == 2  # its levels
    assert "price" in text(page, "dimension")
    assert "first 2" in text(page, "dimension")
    assert bar_colours(page) == {"bar", "bar best"}
    assert text(page, "meanLabel") == "mean reward today (UTC)"


def bar_colours(page):
    return set(
        page.execute_script("return [...document.querySelectorAll('#dimension rect')].map(e => e.className.baseVal)")
    )


def test_bars_of_shares_are_shares(lived):
    page = lived(1, 40, 0.0)
    shown = page.execute_script(
        "return [...document.querySelectorAll('#shares .track')].map(track => ["
        "track.firstChild.getBoundingClientRect().width / track.getBoundingClientRect().width,"
        "track.nextSibling.textContent])"
    )
    assert len(shown) > 1
    for width, beside in shown:
        percent, decisions = re.fullmatch(r"([\d.]+)%\s+(\d+)", beside).groups()
        assert width == pytest.approx(int(decisions) / 40, abs=0.01)
        assert float(percent) == pytest.approx(100 * int(decisions) / 40, abs=0.5)


@pytest.fixture
def lived(show, tmp_path):
    """Opens the page of an agent with a past: decisions over some hours until now, each rewarded after a wait."""
    pytest.importorskip("uvicorn")
    from adadim.serve import Service

    opened = []

    def start(hours, rounds, wait, size=WIDE, arms=ARMS):
        end = time.time()
        now = [end - 3600 * hours]
        with Agent.create(tmp_path / "past.db", dim=3, clock=lambda: now[0]) as agent:
            due = []
            for k in range(rounds):
                now[0] = end - 3600 * hours * (1 - k / rounds)
                due.append((now[0] + wait, agent.ask(arms).id))
                while due and due[0][0] <= now[0]:
                    agent.tell(due.pop(0)[1], k % 3 / 2)
        service = Service(tmp_path / "past.db", Settings(port=0))
        opened.append(service)
        page = show(service.__enter__().url, size)
        wait_for(lambda: text(page, "stateText") == "live")
        return page

    yield start
    for service in opened:
        service.__exit__(None, None, None)


@pytest.mark.parametrize(("hours", "by"), [(0.2, "decision"), (9, "hour"), (24 * 5, "day")])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_reward_is_drawn_over_what_there_is(lived, hours, by, size):
    page = lived(hours, 90, 0.0, size)
    assert text(page, "trendTitle") == f"Reward per {by}"
    across, width = page.execute_script(
        "const dots = [...document.querySelectorAll('#trend circle')].map(dot => dot.getBoundingClientRect().x);"
        "return [dots, document.querySelector('#trend svg').getBoundingClientRect().width]"
    )
    assert len(across) >= 5
    assert across == sorted(across)
    assert across[-1] - across[0] > 0.7 * width  # and not a lone point
    assert len(page.find_elements("css selector", "#trend polyline.line, #trend polygon.band")) == 2
    labels = page.execute_script(
        "return [...document.querySelectorAll('#trend text')].filter(e => e.getAttribute('text-anchor') === 'middle')"
        ".map(e => e.getBoundingClientRect()).map(box => [box.left, box.right]).sort((a, b) => a[0] - b[0])"
    )
    assert len(labels) >= 2
    assert all(before[1] < after[0] for before, after in itertools.pairwise(labels))
    assert page.execute_script("return document.documentElement.scrollWidth") == size[0]


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_late_rewards_are_told(lived, size):
    page = lived(10, 100, 3600 * 1.5, size)  # six minutes apart: the last 14 or 15 wait
    late = page.find_element("id", "late")
    assert late.is_displayed()
    found = re.fullmatch(
        r"(\d+) decisions are pending: no reward yet. "
        r"Half of the last (\d+) rewards came within (.+), 90% within (.+)\.",
        late.text,
    )
    still, came = int(found[1]), int(found[2])
    assert (still + came, text(page, "outstanding")) == (100, str(still))
    assert still == pytest.approx(15, abs=1)
    assert found[3] == found[4] == "1.5 h"
    charts = page.find_element("id", "trend").location["y"]
    assert late.location["y"] + late.size["height"] < charts
    assert late.location["y"] < size[1]  # on the first screen
    assert page.execute_script("return document.documentElement.scrollWidth") == size[0]


def test_rewards_that_come_at_once_are_not_called_late(lived):
    page = lived(5, 40, 0.0)
    assert text(page, "rewards") == "40"
    assert not page.find_element("id", "late").is_displayed()


def test_cards_are_as_high_as_what_is_in_them(lived):
    many = {"best": [1.0, 1.0, 0.0]} | {f"sku-{i}": [0.0, -1.0, 0.1 * i] for i in range(12)}
    page = lived(1, 5, 0.0, arms=many)
    heights = page.execute_script(
        "return ['shares', 'top'].map(name => document.getElementById(name)).map(inner =>"
        "[inner.closest('.card').getBoundingClientRect(), inner.getBoundingClientRect()])"
    )
    for card, inner in heights:
        assert inner["bottom"] < card["bottom"] < inner["bottom"] + 20
    assert heights[0][0]["height"] < heights[1][0]["height"] - 60  # few arms were chosen, ten are ranked


def test_names_of_arms_are_text(show, url):
    with Client(url) as client:
        client.tell(client.ask(ARMS).id, 0.5)
    page = show(url)
    wait_for(lambda: "<img src=x" in text(page, "top"))
    assert page.execute_script("return document.images.length") == 0


def test_everything_comes_from_the_service(show, url, browser):
    page = show(url)
    wait_for(lambda: text(page, "stateText") == "live")
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert f"{url}/overview" in asked
    assert all(address.startswith((url, "data:", "about:")) for address in asked), asked


@pytest.mark.parametrize("size", [WIDE, (700, 900), PHONE], ids=["wide", "middle", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_and_can_be_read(show, url, size, dark):
    page = show(url, size, dark)
    wait_for(lambda: text(page, "stateText") == "live")
    assert page.execute_script("return document.documentElement.scrollWidth") <= size[0]
    too_wide = page.execute_script(  # at the latencies of a service that is far behind
        "for (const name of ['askTime', 'tellTime']) document.getElementById(name).textContent = '1234 · 5678';"
        "return [...document.querySelectorAll('.tile b')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.id)"
    )
    assert too_wide == []
    back, front = page.execute_script(
        "const style = getComputedStyle(document.body);"
        "return [style.backgroundColor, style.color].map(colour => colour.match(/\\d+/g).map(Number))"
    )
    assert (sum(back) < sum(front)) == dark
    assert abs(sum(back) - sum(front)) > 400


def test_the_page_asks_for_the_token(show, serving):
    client = serving(token=TOKEN)
    page = show(str(client.base_url))
    field = page.find_element("name", "token")
    wait_for(field.is_displayed)
    assert not page.find_element("id", "board").is_displayed()
    field.send_keys(TOKEN)
    field.submit()
    wait_for(lambda: text(page, "stateText") == "live")
    assert text(page, "title") == "shop.db"
    assert not field.is_displayed()
    page.refresh()  # it is kept for this tab
    wait_for(lambda: text(page, "stateText") == "live")


def test_the_page_says_when_the_service_is_gone(browser, tmp_path):
    pytest.importorskip("uvicorn")
    from adadim.serve import Service

    Agent.create(tmp_path / "shop.db", dim=2).close()
    with Service(tmp_path / "shop.db", Settings(port=0)) as service:
        browser.get(service.url)
        wait_for(lambda: text(browser, "stateText") == "live")
    wait_for(lambda: "no answer" in text(browser, "stateText"))
    browser.get_log("browser")


def test_the_page_that_says_how_to_call(show, url):
    page = show(f"{url}/docs", PHONE)
    assert page.execute_script("return document.querySelectorAll('article').length") == 21
    assert page.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]
