"""A browser without a window, for the tests that open pages."""

import shutil

import pytest

SKIPPED = "chromium and chromedriver are not installed"


def find_chromium():
    """Paths of a Chromium (or Chrome) and of its driver; None without both."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def open_chromium(*arguments, logs=("browser",)):
    """A Chromium driven by selenium; skips the test where one of them is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    found = find_chromium()
    if found is None:
        pytest.skip(SKIPPED)
    options = webdriver.ChromeOptions()
    options.binary_location, driver = found
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", *arguments):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", dict.fromkeys(logs, "ALL"))
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
