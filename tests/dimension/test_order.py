"""What the data say of the order of the features, against dense determinants."""

import importlib
from dataclasses import replace

import numpy as np
import pytest

import adadim
from adadim.dimension import dimension_of_moments
from adadim.models.statistics import Moments
from refusals import assert_refuses

prefixes = importlib.import_module("adadim.dimension")  # adadim.dimension is its function


def order_evidence(x, rewards, exponent):
    """Log evidence of an exponent, summed over ridges, with nothing shared with the code under test."""
    n, d = x.shape
    scale = ((x - x.mean(axis=0)) ** 2).sum() / n
    tapered = (x - x.mean(axis=0)) * np.arange(1, d + 1) ** (-exponent / 2)
    y, logs = rewards - rewards.mean(), []
    for ridge in 10.0 ** np.arange(-6, 2.01, 0.5) * scale:
        v = ridge * np.eye(d) + tapered.T @ tapered
        residual = y @ y - y @ tapered @ np.linalg.solve(v, tapered.T @ y)
        logs.append(-0.5 * (np.linalg.slogdet(v / ridge)[1] + (n - 1) * np.log(residual)))
    return np.logaddexp.reduce(logs)


@pytest.mark.parametrize("constant", [0.0, 1000.0])
def test_an_order_that_the_data_contradict_is_said(constant):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 12))
    rewards = constant + 0.7 * x[:, -2:].sum(axis=1) + rng.normal(size=60)
    found = adadim.dimension(x, rewards)
    logs = [order_evidence(x, rewards, s) for s in (0.0, 0.9, 1.75)]
    assert logs[0] == max(logs)
    times = f"{np.exp(logs[0] - logs[2]):.0f}"
    assert int(times) > 10
    assert found.order == (f"the order of your features says nothing: exponent 0 is {times} times as likely as 1.75")
    assert str(found).endswith(found.order)


def test_an_order_that_is_right_or_unknown_is_not_mentioned():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(200, 12))
    assert adadim.dimension(x, x[:, :2].sum(axis=1) + rng.normal(size=200)).order is None
    assert adadim.dimension(x[:2], np.ones(2)).order is None
    assert adadim.dimension(x, np.ones(200)).order is None


def test_an_agent_says_so_too(tmp_path):
    rng = np.random.default_rng(7)
    with adadim.Agent.create(tmp_path / "a.db", dim=20) as agent:
        for _ in range(60):
            arms = {f"arm {k}": row for k, row in enumerate(rng.normal(size=(5, 20)))}
            decision = agent.ask(arms)
            agent.tell(decision.id, reward=float(arms[decision.arm][-1] + 0.1 * rng.normal()))
        assert agent.dimension().order.startswith("the order of your features says nothing: exponent 0 is ")


def test_sums_of_which_nobody_kept_the_means_say_nothing():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(60, 12))
    rewards = x[:, -1] + 0.1 * rng.normal(size=60)
    kept = Moments.zeros(12)
    kept.add(x, rewards)
    assert dimension_of_moments([kept]).order == adadim.dimension(x, rewards).order is not None
    not_kept = replace(kept, first=np.full(12, np.nan), total=np.nan)  # as version 0.2 left them
    assert dimension_of_moments([not_kept], constant=False).order is None
    assert dimension_of_moments([replace(kept, first=None, total=0.0)], constant=False).order is None
    assert_refuses(ValueError, "does not have; use constant=False", dimension_of_moments, [not_kept])


def test_it_is_judged_when_asked_for(monkeypatch):
    judged = []
    monkeypatch.setattr(prefixes, "order_contradiction", lambda sums: judged.append(sums) or "wrong")
    rng = np.random.default_rng(9)
    found = adadim.dimension(rng.normal(size=(30, 4)), rng.normal(size=30))
    assert found.mode in (1, 2, 3, 4)
    assert not judged
    assert found.order == found.order == "wrong"
    assert str(found).endswith("; wrong")
    assert len(judged) == 1
