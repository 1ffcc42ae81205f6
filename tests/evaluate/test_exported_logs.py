"""What an agent exports can be judged as it is."""

import numpy as np
import pytest

import adadim
from adadim.play.logs import read_log


def test_the_export_of_a_random_agent(tmp_path):
    rng = np.random.default_rng(0)
    theta, told = np.array([0.1, 0.2, 0.5, 0.0]), []
    agent = adadim.Agent.create(tmp_path / "shop.db", dim=4, policy=adadim.Random())
    for i in range(300):
        arms = {f"sku-{j}": rng.standard_normal(2).tolist() for j in range(int(rng.integers(2, 4)))}
        context = [1.0, float(rng.standard_normal())]
        decision = agent.ask(arms, context=context)
        if i % 10:  # some rewards never come
            x = np.array([*context, *arms[decision.arm]])
            told.append((x, len(arms), float(x @ theta + 0.1 * rng.standard_normal())))
            agent.tell(decision.id, reward=told[-1][2])
    agent.export(tmp_path / "log.parquet")
    agent.close()
    log = read_log(tmp_path / "log.parquet")
    assert len(log) == len(told) == 270
    assert log.uniform
    for row, (x, arms, reward) in enumerate(told):
        (offer,) = log.offers(row, row + 1)
        np.testing.assert_array_equal(offer[log.chosen[row]], x)
        assert (log.rewards[row], log.sizes[row]) == (reward, arms)
    found = adadim.evaluate(adadim.recommended, log)
    assert found.dr.low > found.logged.high
    at_random = adadim.evaluate(adadim.Random(), log)
    assert at_random.ips.value == at_random.snips.value == log.rewards[54:].mean()
    with pytest.raises(ValueError, match="knows arms by their number"):
        adadim.evaluate(adadim.UCB(), log)
