"""Contexts on torch: the same arms as with NumPy, in lock step, recorded where the device can."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import adadim
from adadim.core.rows import Replications
from adadim.errors import DeviceError, InvalidTypeError
from adadim.experiments.field.learners import SphereTS
from adadim.models.context import REFRESH, ROW_BLOCK

torch = pytest.importorskip("torch")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"))]
PLAY = {
    "LinUCB": adadim.LinUCB(),
    "LinUCB dim": adadim.LinUCB(dim=3),
    "LinUCB oful": adadim.LinUCB(radius="oful"),
    "LinUCB squared": adadim.LinUCB(bonus="squared", ties="lowest"),
    "Greedy": adadim.Greedy(),
    "tapered": adadim.TaperedLinUCB(),
    "Random": adadim.Random(),
    "LinTS": adadim.LinTS(),
    "LinTS dim": adadim.LinTS(dim=3, ties="lowest"),
    "SupLinUCB": adadim.SupLinUCB(radius=0.3),
    "EvidenceLinUCB": adadim.EvidenceLinUCB(),
    "EvidenceLinUCB intercept": adadim.EvidenceLinUCB(taper=(0.0, 1.75), intercept=True, probes=2),
    "PrefixLinUCB": adadim.PrefixLinUCB(),
    "PrefixLinUCB thompson": adadim.PrefixLinUCB(rule="thompson", ties="lowest"),
    "TwoPriorLinUCB": adadim.TwoPriorLinUCB(),
    "Corral": adadim.Corral(ambient=True),
    "Corral of several": adadim.Corral(bases=(adadim.LinTS(), adadim.EvidenceLinUCB(), adadim.Random())),
    "Corral by importance": adadim.Corral(feedback="importance"),
    "SmoothCorral": adadim.SmoothCorral(loss_range=(-2.0, 2.0)),
    "SmoothCorral tapered": adadim.SmoothCorral(bases=(adadim.TaperedLinUCB(), adadim.LinUCB(dim=2, radius="oful"))),
    "DynamicBalancing": adadim.DynamicBalancing(),
    "RegretBalancing": adadim.RegretBalancing(),
    "OSOM": adadim.OSOM(),
    "ModCB": adadim.ModCB(),
    "EpochBalancing": adadim.EpochBalancing(),
    "ED2RB": adadim.ED2RB(),
    "TsallisCorral": adadim.TsallisCorral(),
}


def contexts(horizon, replications=range(3), **changes):
    settings = {"arms": 7, "dim": 9, "intrinsic_dim": 2, "noise": 0.1} | changes
    return adadim.instances.contexts(horizon=horizon, replications=replications, **settings)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PLAY)
def test_the_same_arms_as_numpy(name, device, monkeypatch):
    """Over a refreshing of V^-1, which comes early here but for LinUCB."""
    if name != "LinUCB":
        monkeypatch.setattr("adadim.models.context.REFRESH", 2 * ROW_BLOCK)
    after = 60 if name in ("LinUCB", "LinUCB oful", "Corral") else 12
    instance = contexts(after + (REFRESH if name == "LinUCB" else 2 * ROW_BLOCK))
    here, there = (adadim.simulate(PLAY[name], where, seed=2) for where in (instance, instance.to(device)))
    np.testing.assert_array_equal(here.pulls, there.pulls)
    np.testing.assert_allclose(here.regret, there.regret, rtol=1e-9)


@pytest.mark.parametrize("name", PLAY)
def test_ask_and_tell(name):
    instance = contexts(40)
    here = PLAY[name].start(instance.problem, seed=1)
    there = PLAY[name].start(instance.problem.to("cpu"), seed=1)
    rng, rounds = np.random.default_rng(3), instance.rounds()
    for t in range(40):
        features, allowed = next(rounds), rng.random((3, 7)) < 0.6
        allowed[:, 2] = True
        rows = [0, 1, 2] if t % 3 else [2, 0]
        one = here.ask(features[rows], allowed=allowed[rows], rows=rows)
        other = there.ask(torch.from_numpy(features[rows]), allowed=torch.from_numpy(allowed[rows]), rows=rows)
        assert one.arms.tolist() == other.arms.tolist()
        rewards = rng.standard_normal(len(rows))
        here.tell(one, rewards)
        there.tell(other, torch.from_numpy(rewards))
    twin = copy.deepcopy(there)
    features = torch.from_numpy(next(rounds))
    assert twin.select(features).tolist() == there.select(features).tolist()


def test_regression_after_refreshing():
    rng, count = np.random.default_rng(0), REFRESH + 40
    x, rewards = rng.standard_normal((2, count, 4)), rng.standard_normal((2, count))
    learner = adadim.LinUCB(ridge=0.3).start(
        adadim.Problem(arms=3, dim=4, horizon=count, noise=0.1, replications=range(2)).to("cpu")
    )
    state = learner.model.regression
    for n in range(count):
        rows = Replications.all(state.theta) if n % 2 else Replications.some(np.array([1]), state.theta)
        ids = rows.ids
        state.absorb(torch.from_numpy(x[ids, n]), torch.from_numpy(rewards[ids, n]), rows)
    for r, seen in ((0, slice(1, None, 2)), (1, slice(None))):
        a, b = x[r, seen], rewards[r, seen]
        v = 0.3 * np.eye(4) + a.T @ a
        np.testing.assert_allclose(state.theta[r].numpy(), np.linalg.solve(v, a.T @ b), rtol=1e-9)
        np.testing.assert_allclose(state.inverse[r].numpy(), np.linalg.inv(v), rtol=1e-9, atol=1e-12)
        assert float(state.logdet[r]) == pytest.approx(np.linalg.slogdet(v / 0.3)[1])
        assert int(state.pulls[r]) == len(b)


def torch_rounds(learner, rounds, count):
    """Arms that it chooses in some rounds, told rewards that depend on the arms alone."""
    chosen = []
    for _ in range(count):
        arms = learner.select(torch.from_numpy(next(rounds)))
        learner.update(arms, 0.1 * arms.double() - 0.2)
        chosen.append(arms.tolist())
    return chosen


@pytest.mark.parametrize("name", PLAY)
def test_saved_learners_go_on(name, tmp_path):
    instance = contexts(60)
    problem = instance.problem.to("cpu")
    learner, rounds = PLAY[name].start(problem, seed=1), instance.rounds()
    torch_rounds(learner, rounds, 27)
    learner.save(tmp_path / "learner")
    restored = adadim.load(tmp_path / "learner", problem)
    later = [next(rounds).copy() for _ in range(10)]
    assert torch_rounds(restored, iter(later), 10) == torch_rounds(learner, iter(later), 10)


@pytest.mark.parametrize("name", ["LinUCB", "LinUCB dim", "tapered", "LinTS", "EvidenceLinUCB"])
def test_logged_pulls(name):
    problem = contexts(60, replications=range(2)).problem
    here, there = (PLAY[name].start(where, seed=1) for where in (problem, problem.to("cpu")))
    rng = np.random.default_rng(0)
    x, rewards = rng.standard_normal((2, 20, 9)), rng.standard_normal((2, 20))
    here.learn(x, rewards)
    there.learn(torch.from_numpy(x), torch.from_numpy(rewards))
    for _ in range(20):
        features = rng.standard_normal((2, 7, 9))
        assert here.select(features).tolist() == there.select(torch.from_numpy(features)).tolist()


def test_who_cannot_says_so():
    problem = contexts(60).problem.to("cpu")
    with pytest.raises(DeviceError, match="this policy is computed with NumPy, not with torch"):
        SphereTS(dim=2).start(problem)
    with pytest.raises(InvalidTypeError, match="an array of the problem's library"):
        adadim.LinUCB().start(problem).ask(np.zeros((3, 7, 9)))


@pytest.mark.filterwarnings("ignore::adadim.PrecisionWarning")
def test_huge_features_do_not_end_a_run():
    """The ridge is lost in their rounding, and V has no Cholesky factor."""
    there = adadim.LinUCB(ridge=1e-8).start(adadim.Problem(arms=2, dim=3, horizon=600, noise=0.1).to("cpu"))
    features = torch.tensor([[1e6, 1e6, 1.0], [1e6, 1e6, 1.0]], dtype=torch.float64)
    for _ in range(REFRESH):
        there.update(there.select(features), 0.5)
    assert bool(torch.isfinite(there.model.regression.inverse).all())
