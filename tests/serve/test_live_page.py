"""The live page in a real browser: it opens, follows what the agent does, and has nothing to complain about."""

import json
import shutil
import time

import numpy as np
import pytest

from adadim.agent import Agent
from adadim.serve import Client, Settings

WIDE, PHONE = (1200, 900), (390, 844)
TOKEN = "correct-horse-battery-staple"
ARMS = {"sku-1": [1.0, 0.9, 0.0], "sku-2": [1.0, 0.1, 0.1], "<img src=x onerror=alert(1)>": [1.0, -0.4, 0.3]}


@pytest.fixture(scope="module")
def browser():
    """Chromium without a window."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="the page is tested with selenium")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("chromium and chromedriver are needed to open the page")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
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
        time.sleep(0.1)


@pytest.fixture(scope="module")
def url(service):
    return str(service.base_url)


def test_the_numbers_change_as_the_agent_works(show, url):
    page = show(url)
    wait_for(lambda: text(page, "decisions") == "0")
    assert text(page, "days") == "No reward yet"
    rng = np.random.default_rng(0)
    with Client(url) as client:
        ids = [client.ask(ARMS).id for _ in range(12)]
        wait_for(lambda: text(page, "decisions") == "12")
        assert (text(page, "rewards"), text(page, "outstanding")) == ("0", "12")
        assert "sku-" in text(page, "shares")
        client.tell_many({i: float(rng.standard_normal()) for i in ids[:8]})
        for i in ids[8:10]:
            client.tell(i, 0.5)
        wait_for(lambda: text(page, "rewards") == "10")
        assert text(page, "outstanding") == "2"
        assert text(page, "stateText") == "live"
        mean = client.status()["rewards"]
    assert mean == 10
    assert float(text(page, "mean")) < 3
    for name in ("askTime", "tellTime"):
        low, high = text(page, name).split(" · ")
        assert 0 < float(low) <= float(high)
    for name, marks in (("days", "circle"), ("dimension", "rect"), ("top", ".span b")):
        assert page.execute_script(f"return document.querySelectorAll('#{name} {marks}').length") >= 1, name
    assert page.execute_script("return document.querySelectorAll('#dimension rect').length") == 2  # its levels
    assert "price" in text(page, "dimension")


def test_names_of_arms_are_text(show, url):
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
    assert page.execute_script("return document.querySelectorAll('article').length") == 13
    assert page.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]
