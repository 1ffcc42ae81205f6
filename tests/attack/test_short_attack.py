"""A short form of each subject of the attack (`make attack` runs all of it): nothing fails."""

import pytest
from attack_folder import SUBJECTS, attacked

from attack import processes, worlds
from command_line import command

SHARES = {
    "study files": 0.2,
    "results folders": 0.1,
    "damaged blocks": 0.1,
    "learner files": 0.4,
    "forged learners": 0.1,
    "calls": 0.1,
    "numbers": 0.04,
    "names": 0.05,
    "kills": 0.02,
    "several processes": 0.1,
    "environments": 0.03,
    "agent": 0.05,
    "interrupts": 0.06,
    "service": 0.1,
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_nothing_breaks(subject, monkeypatch):
    if subject == "several processes":  # each would draw its figure in every format
        monkeypatch.setattr(processes, "COMMAND", command(one_format=True))
    if subject == "kills":  # as many units as can be done before the last of its moments
        monkeypatch.setattr(processes, "study", lambda **changes: worlds.study(**{**changes, "trials": 20}))
    for package in ("fastapi", "uvicorn", "httpx") if subject == "service" else ():
        pytest.importorskip(package)
    tally = attacked(subject, SHARES[subject])
    assert tally.tried
    assert tally.failures == []
