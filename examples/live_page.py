"""The live page of a service, with something to look at: a shop of 24 articles over 30 days, simulated.

    python examples/live_page.py                                            (needs pip install 'adadim[serve]')

Then open the address that it prints; visitors keep coming, some each second, and their rewards arrive late. Ctrl-C
stops it. The 12 features of an article are ordered in three groups, price, stock and text; the first two matter.

    python examples/live_page.py --picture docs/images/live-page.png        (needs selenium and Chromium too)

draws the picture of the page in docs/service.md.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import adadim

DAY = 86400.0
DAYS, VISITORS = 30, 40
LEVELS = {"price": 3, "stock": 6, "text": 12}


class Shop:
    """Articles, and what visitors pay for them."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(3)
        self.features = 0.35 * self.rng.standard_normal((24, 12))
        self.features[:, 0] = 1.0
        self.theta = np.concatenate([[0.5, 0.3, -0.25, 0.55, 0.45, -0.5], np.zeros(6)])
        self.names = [f"article {i + 1}" for i in range(24)]

    def catalogue(self):
        return dict(zip(self.names, self.features, strict=True))

    def reward(self, name):
        mean = float(self.features[self.names.index(name)] @ self.theta)
        return mean + 0.3 * float(self.rng.standard_normal())


def history(path: Path, shop: Shop, days: int) -> None:
    """Write the log of past days; a reward comes after a day, or so."""
    end = time.time()
    now = [end - days * DAY]
    with adadim.Agent.create(path, dim=12, levels=LEVELS, clock=lambda: now[0]) as agent:
        agent.set_arms(shop.catalogue())
        waiting = []
        for k in range(days * VISITORS):
            now[0] = end - days * DAY * (1 - k / (days * VISITORS))
            decision = agent.ask()
            waiting.append((now[0] + DAY * shop.rng.exponential(0.7), decision))
            due = [item for item in waiting if item[0] <= now[0]]
            if len(due) >= 20:  # told in batches, as a shop would
                agent.tell_many({d.id: shop.reward(d.arm) for _, d in due})
                waiting = [item for item in waiting if item[0] > now[0]]


def visit(client, shop: Shop) -> None:
    """A visitor comes, and the reward of some earlier one is told."""
    decision = client.ask()
    if shop.rng.random() < 0.9:
        client.tell(decision.id, shop.reward(decision.arm))


def picture(url: str, path: Path) -> None:
    from selenium import webdriver
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    names = ("chromium", "chromium-browser", "google-chrome")
    options.binary_location = next(filter(None, map(shutil.which, names)), "")
    browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        shape = {"width": 1200, "height": 945, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
        browser.get(url)
        WebDriverWait(browser, 30).until(lambda b: b.find_element("id", "stateText").text == "live")
        path.parent.mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(str(path))
    finally:
        browser.quit()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", type=Path, help="draw the page into this PNG file and stop")
    parser.add_argument("--port", type=int, default=8000, help="port; 0 takes a free one (default 8000)")
    parser.add_argument("--days", type=int, default=DAYS, help=f"days of history (default {DAYS})")
    options = parser.parse_args()
    try:
        from adadim.serve import Client, Service, Settings
    except ImportError as error:
        sys.exit(str(error))
    shop = Shop()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop.db"
        history(path, shop, options.days)
        settings = Settings(port=0 if options.picture else options.port)
        with Service(path, settings) as service, Client(service.url) as client:
            for _ in range(60):
                visit(client, shop)
            if options.picture:
                picture(service.url, options.picture)
                print(f"wrote {options.picture}")
                return 0
            print(f"open {service.url}; Ctrl-C stops it")
            try:
                while True:
                    visit(client, shop)
                    time.sleep(0.3)
            except KeyboardInterrupt:
                return 0


if __name__ == "__main__":
    sys.exit(main())
