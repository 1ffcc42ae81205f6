"""The Tsallis-INF corral: oracles, the plain version in lock step, and what always holds of the weights."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adadim
from adadim import Corral, LinUCB, TsallisCorral
from adadim.core.rows import Replications
from adadim.policies.masters.corral import TsallisMaster, tsallis_step
from reference.arora import TsallisMaster as Reference
from reference.arora import ftrl, omd
from small_problems import in_torch, small
from stepping import Stepper

EXACT = {"rel": 0, "abs": 1e-10}


def follow(losses, eta):
    w, nu = tsallis_step(np.ones((1, len(losses))), np.array([losses], dtype=float), np.array([eta], dtype=float))
    return w[0], nu[0]


def descend(w, losses, eta):
    slack = 1 / np.sqrt(np.array([w]))
    w, nu = tsallis_step(slack, np.array([losses], dtype=float), np.array([eta], dtype=float))
    return w[0], nu[0]


def started(M, T=1000, eta=0.5, start=1, threshold=5.0, D=None):
    return TsallisMaster(eta, np.zeros(M) if D is None else np.array(D), T, start, threshold, np.zeros((1, 1)))


def put(master, losses, eta, round_=10.0):
    """Set a master to summed losses and rates after the start, in the middle of an epoch."""
    master.losses[0], master.eta[0] = losses, eta
    master.w[0], master.nu[0] = follow(losses, master.eta[0])
    master.round[0], master.epoch[0] = master.start + round_, 1000.0


ROWS = Replications.all(np.zeros((1, 1)))


def test_steps_f10():
    w, nu = follow([3, 1, 0], [0.5, 0.4, 0.3])
    assert nu == pytest.approx(-2.731756745546, abs=1e-10)
    assert w == pytest.approx([0.168941946258, 0.327896478056, 0.503161575686], **EXACT)
    w, nu = descend([0.2, 0.3, 0.5], [0, 10 / 3, 0], [0.5, 0.4, 0.3])
    assert nu == pytest.approx(0.702127513352, abs=1e-10)
    assert w == pytest.approx([0.235526373476, 0.180772196505, 0.583701430018], **EXACT)
    w, nu = descend([0.5, 0.5], [2, 0], [0.1, 0.1])
    assert (nu, w[0]) == (pytest.approx(0.947104401695, abs=1e-10), pytest.approx(0.464754549506, abs=1e-10))


def test_rates_f11():
    assert started(2, T=1000).growth == pytest.approx(1.021177992191, abs=1e-10)
    assert started(2, T=10**6).growth == pytest.approx(1.005252962487, abs=1e-10)
    master = started(2, eta=0.1, threshold=1e9)
    put(master, [1.0, 1.0], [0.1, 0.1])
    master.update(np.array([0]), np.array([0.0]), ROWS)
    assert master.eta[0] == pytest.approx([0.099503719021] * 2, **EXACT)
    for _ in range(99):
        master.update(np.array([0]), np.array([0.0]), ROWS)
    assert master.eta[0] == pytest.approx([0.070710678119] * 2, **EXACT)
    assert TsallisCorral().penalties([1, 4, 16], 2500) == pytest.approx([0.02, 0.08, 0.32], **EXACT)
    assert TsallisCorral(penalty=1).penalties([1, 4, 16], 2500) == pytest.approx([0.02, 0.32, 5.12], **EXACT)
    assert TsallisCorral(penalty=None).penalties([1, 4, 16], 2500) == [0, 0, 0]


def test_an_ordinary_round_f12():
    master = started(3, T=10**15, threshold=1e6)  # so long that what is mixed in is below rounding
    put(master, [2.0, 1.0, 3.0], [0.5] * 3)
    assert master.nu[0] == pytest.approx(-1.070105942718, abs=1e-10)
    assert master.w[0] == pytest.approx([0.320087076224, 0.434237615050, 0.245675308726], **EXACT)
    master.update(np.array([0]), np.array([0.5]), ROWS)
    assert master.eta[0] == pytest.approx([0.447213595500] * 3, **EXACT)
    assert master.w[0] == pytest.approx([0.244814894480, 0.476826183990, 0.278358921530], **EXACT)


def test_mixing_f12():
    master = started(3, T=1000)
    put(master, [3.0, 1.0, 0.0], [0.5, 0.4, 0.3])
    p = master.probabilities(ROWS)[0]
    assert p == pytest.approx([0.168996743387, 0.327898290341, 0.503104966272], **EXACT)


def test_shift_and_divide_f13():
    losses, eta = np.array([3.0, 1.0, 0.0]), np.array([0.5, 0.4, 0.3])
    w, nu = follow(losses, eta)
    growth = np.array([started(3).growth, 1, 1])
    shifted = (losses - nu) / growth
    assert shifted == pytest.approx([5.612887067072, 3.731756745546, 2.731756745546], **EXACT)
    again, zero = follow(shifted, eta * growth)
    assert again == pytest.approx(w, **EXACT)
    assert zero == pytest.approx(0, abs=1e-10)


def test_raising_a_rate_f13():
    """The oracle divides losses by w itself: with a horizon so long nothing is mixed in; the growth is T = 1000's."""
    master = started(2, T=10**15, threshold=8.0)
    master.growth = math.exp(1 / math.log(1000) ** 2)
    put(master, [9.0, 0.0], [0.5, 0.5])
    assert master.nu[0] == pytest.approx(-0.197438197951, abs=1e-10)
    assert master.w[0] == pytest.approx([0.091863017893, 0.908136982107], **EXACT)
    master.update(np.array([1]), np.array([0.4]), ROWS)
    assert master.w[0] == pytest.approx([0.098093366275, 0.901906633725], **EXACT)
    assert master.losses[0] == pytest.approx([9.006694492328, 0.637900383592], **EXACT)
    assert master.phase[0] == 1
    master.update(np.array([0]), np.array([0.6]), ROWS)
    assert master.losses[0, 0] == pytest.approx(15.123316062004, abs=1e-10)
    assert master.w[0] == pytest.approx([0.044853281773, 0.955146718227], **EXACT)
    assert (master.phase[0], master.level[0].tolist()) == (2, [1, 0])
    master.update(np.array([1]), np.array([0.4]), ROWS)
    assert (master.phase[0], bool(master.rested[0])) == (0, False)
    before = master.eta.copy()
    master.update(np.array([1]), np.array([0.4]), ROWS)  # at the threshold again, but not twice in a row
    assert (master.phase[0], bool(master.rested[0])) == (0, True)
    assert (master.eta < before).all()


def test_constant_rates_follow_the_leader_by_descent():
    """With constant rates mirror descent on losses in turn is follow the leader on their sum."""
    rng, eta = np.random.default_rng(0), np.array([0.3, 0.7, 0.2, 1.1])
    w, total = follow(np.zeros(4), eta)[0], np.zeros(4)
    for _ in range(30):
        losses = rng.exponential(size=4)
        total += losses
        w = descend(w, losses, eta)[0]
        np.testing.assert_allclose(w, follow(total, eta)[0], rtol=1e-9)


@given(
    losses=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=12),
    rate=st.floats(-3, 1),
    seed=st.integers(0, 1000),
)
def test_steps_are_the_roots(losses, rate, seed):
    rng, M = np.random.default_rng(seed), len(losses)
    eta = 10.0**rate * rng.uniform(0.2, 1.0, M)
    w, nu = follow(losses, eta)
    expected, root = ftrl(losses, eta)
    assert w.sum() == pytest.approx(1, abs=1e-12)
    assert (w > 0).all()
    np.testing.assert_allclose(w, expected, rtol=1e-8, atol=1e-11)
    assert nu == pytest.approx(root, rel=1e-9, abs=1e-8)
    start = rng.dirichlet(np.ones(M)).clip(1e-6)
    start /= start.sum()
    np.testing.assert_allclose(descend(start, losses, eta)[0], omd(start, losses, eta)[0], rtol=1e-8, atol=1e-11)


@settings(max_examples=20)
@given(
    M=st.integers(2, 5),
    eta=st.floats(0.05, 2.0),
    threshold=st.floats(2.0, 20.0),
    seed=st.integers(0, 1000),
    penalised=st.booleans(),
)
def test_lock_step(M, eta, threshold, seed, penalised):
    """The same weights, rates and summed losses as the plain state machine, on the same draws and losses."""
    rng, T = np.random.default_rng(seed), 120
    D = [0.02 * (i + 1) * penalised for i in range(M)]
    master, plain = started(M, T, eta, 2, threshold, D), Reference(M, eta, D, T, 2, threshold)
    levels = rng.uniform(0, 1, M)
    for _ in range(T):
        p = master.probabilities(ROWS)[0]
        np.testing.assert_allclose(p, plain.probabilities(), rtol=1e-7, atol=1e-12)
        assert p.sum() == pytest.approx(1, abs=1e-12)
        assert master.starting(ROWS)[0] or (p >= 1 / (T * M**2) * (1 - 1e-12)).all()
        chosen = int(np.searchsorted(p.cumsum(), rng.random() * p.sum(), side="right"))
        chosen = min(chosen, M - 1)
        loss = float(np.clip(levels[chosen] + 0.1 * rng.standard_normal(), 0, 1))
        master.update(np.array([chosen]), np.array([loss]), ROWS)
        plain.update(chosen, loss)
        np.testing.assert_allclose(master.eta[0], plain.eta, rtol=1e-10)
        np.testing.assert_allclose(master.losses[0], plain.L, rtol=1e-7, atol=1e-9)
        assert master.level[0].tolist() == plain.level


def test_rates_are_raised_in_a_run():
    """One base much better than the others: their weights fall, and their rates end above the best one's."""
    master = started(3, 2000, 1.0, 3, 6.0)
    rng = np.random.default_rng(1)
    for _ in range(2000):
        p = master.probabilities(ROWS)[0]
        chosen = int(rng.choice(3, p=p / p.sum()))
        master.update(np.array([chosen]), np.array([0.1 if chosen == 0 else 0.9]), ROWS)
    assert master.w[0, 0] > 0.9
    assert (master.level[0, 1:] >= 1).all()
    assert (master.eta[0, 1:] > master.eta[0, 0]).all()


def test_estimates_are_unbiased():
    """Over the draw of a base, the expected estimate is the loss vector plus the penalties."""
    losses, D = np.array([0.3, 0.9, 0.5]), np.array([0.01, 0.02, 0.04])
    total = np.zeros(3)
    for chosen in range(3):
        master = started(3, T=500, threshold=1e6, D=D)
        put(master, [2.0, 1.0, 3.0], [0.5] * 3)
        p, before = master.probabilities(ROWS)[0], master.losses[0].copy()
        master.update(np.array([chosen]), losses[[chosen]], ROWS)
        total += p[chosen] * (master.losses[0] - before)
    np.testing.assert_allclose(total, losses + D, rtol=1e-12)


def test_in_the_start_bases_take_turns():
    instance = small(horizon=100)
    stepper = Stepper(TsallisCorral(first_plays=3), instance)
    played = [int(stepper.step().memo["base"][0]) for _ in range(15)]
    assert played == [0, 1, 2, 3, 4] * 3
    assert TsallisCorral().start(instance.problem).master.start == 5 * math.ceil(math.log(100) + 1)


def test_importance_teaches_everybody_after_the_start():
    instance = small(horizon=60)
    policy = TsallisCorral(bases=(LinUCB(dim=2), LinUCB(dim=4)), feedback="importance", first_plays=5)
    learner = Stepper(policy, instance).run().learner
    assert [int(b.model.regression.counts.sum()) for b in learner.bases.learners] == [55, 55]
    chosen = Stepper(TsallisCorral(bases=(LinUCB(dim=2), LinUCB(dim=4))), instance).run().learner
    assert sum(int(b.model.regression.counts.sum()) for b in chosen.bases.learners) == 60


def test_corral_is_as_before():
    """The learner that both share still runs Corral with its own distribution."""
    master = Corral(eta=0.3).start(small(horizon=50).problem).master
    assert type(master).__name__ == "LogBarrier"
    assert master.eta.tolist() == [[0.3] * 5]


@pytest.mark.parametrize("given_", [{"threshold": 4.0}, {"bases": (LinUCB(dim=3), adadim.UCB()), "first_plays": 2}])
def test_torch_does_the_same(given_, torch):
    instance, policy = small(range(2), horizon=200), TsallisCorral(loss_range=(-0.4, 0.4), **given_)
    assert Stepper(policy, in_torch(instance, torch)).run().arms == Stepper(policy, instance).run().arms


@pytest.mark.parametrize("feedback", ["stochastic", "importance"])
def test_replications_out_of_step_run_as_if_alone(feedback):
    policy = TsallisCorral(threshold=4.0, first_plays=3, feedback=feedback)
    together = Stepper(policy, small(range(3), horizon=100)).stagger(np.random.default_rng(1))
    for r in range(3):
        alone = Stepper(policy, small([r], horizon=100)).run()
        assert together.arms[r] == alone.arms[0]
        assert together.learner.describe()[r] == alone.learner.describe()[0]


@pytest.mark.parametrize(
    "changes",
    [{"eta": 0}, {"penalty": -1}, {"threshold": 0}, {"first_plays": 0}, {"feedback": "all"}, {"loss_range": (1, 0)}],
)
def test_bad_hyper_parameters(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        TsallisCorral(**changes)
