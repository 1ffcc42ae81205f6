"""Studies for the tests of the web page, and what is in one."""

import base64
import json
import re

import numpy as np

from adadim.study import Study, run

# Names that would do harm, or vanish, where text is taken for HTML, for a script or for markup of the terminal.
EVIL = (
    "</script><script>document.title='broken'</script>",
    "<b>bold</b>",
    "[red]tomato[/red]",
    "&amp; 'x' \"y\" \\u003c",
)


def evil_study(trials=7):
    """Three instances that differ in d*, four policies with dangerous names."""
    sphere = {"kind": "sphere", "arms": 20, "dim": 8, "horizon": 60}
    return Study(
        name="evil",
        instances={f"<i>d{d}</i>": {**sphere, "intrinsic_dim": d} for d in (2, 4, 6)},
        policies={
            EVIL[0]: {"kind": "LinUCB"},
            EVIL[1]: {"kind": "LinUCBPlusPlus", "beta": 0.5},
            EVIL[2]: {"kind": "LinUCBPlusPlus", "beta": 0.75},
            EVIL[3]: {"kind": "Random"},
        },
        trials=trials,
        record=10,
        labels={"title": "<img src=x onerror=alert(1)> [bold]title[/bold]"},
    )


def evil_results(folder, trials=7):
    return run(evil_study(trials), folder, jobs=1)


def data_of(text):
    """What a page holds, as plain data."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def regret_of(cell):
    values = np.frombuffer(base64.b64decode(cell["regret"]), dtype="<f4")
    return values.reshape(-1, len(cell["times"]))
