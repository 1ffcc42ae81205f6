"""Fits of clicks that take effect later than they are due, so that they can be made in between."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import adadim
from adadim.agent import model
from adadim.agent.fits import NOTHING_SCHEDULED, WAITS_FROM, DueFit, Recount
from adadim.agent.kept import KeptRewards
from adadim.agent.reading import Entries
from adadim.models.likelihoods import BERNOULLI, Told
from adadim.models.priors import CONSTANT_WIDTH
from agent_runs import learner_of, log_of, model_of

DIM = 4

pytestmark = pytest.mark.in_a_file


def entries(rewards, first=1):
    rows, size = np.arange(first, first + len(rewards)), len(rewards)
    return Entries(int(rows[-1]), rows, np.zeros((size, DIM)), np.array(rewards, dtype=float), rows=rows)


def test_early_fits_take_effect_at_once_and_later_ones_when_there_is_more():
    assert DueFit(5, Told(WAITS_FROM - 1, 90.0, 90.0)).takes_effect == WAITS_FROM - 1
    assert DueFit(5, Told(1000, 300.0, 300.0)).takes_effect == 1050
    assert DueFit(5, Told(1000, 3.0, 3.0)).takes_effect == 1006  # the first clicks are not kept waiting


@pytest.mark.parametrize("share", [0.002, 0.1, 0.5])
def test_the_schedule_does_not_depend_on_how_many_rewards_come_at_a_time(share):
    rewards = (np.random.default_rng(1).random(3000) < share).astype(float)
    one_by_one, kept = NOTHING_SCHEDULED, []
    for at, reward in enumerate(rewards):
        before, one_by_one = one_by_one, one_by_one.after(entries([reward], at + 1), BERNOULLI)
        kept.append(one_by_one)
        used = one_by_one.used
        if used != before.used:
            assert used.takes_effect <= at + 1
            assert used in before.ahead or used.takes_effect == at + 1
        assert all(fit.takes_effect > at + 1 for fit in one_by_one.ahead)
    for size in (7, 64, 3000):
        schedule = NOTHING_SCHEDULED
        for start in range(0, 3000, size):
            part = entries(rewards[start : start + size], start + 1)
            schedule = schedule.after(part, BERNOULLI)
            assert schedule == kept[part.last - 1]
            assert schedule.after(part, BERNOULLI) is schedule  # they are counted already
    assert sum(a.used != b.used for a, b in itertools.pairwise(kept)) > 10


def test_where_rewards_are_counted_anew_a_fit_is_due_at_once_and_the_next_by_what_counts():
    rewards = (np.random.default_rng(2).random(3000) < 0.3).astype(float)
    recount = Recount(2010, 40.4, 12.5)
    whole = NOTHING_SCHEDULED.after(entries(rewards[:2200]), BERNOULLI, recount)
    parts = NOTHING_SCHEDULED.after(entries(rewards[:2000]), BERNOULLI)
    assert parts.told.number == 2000
    parts = parts.after(entries(rewards[2000:2010], 2001), BERNOULLI, recount)
    assert parts.used == DueFit(2010, Told(40, 12.5, 12.5))
    assert parts.ahead == ()
    assert parts.after(entries(rewards[2010:2200], 2011), BERNOULLI) == whole
    assert whole.told.number == 40 + 190
    assert whole.used.row > 2150  # some 1.5 times as many count as at the fit before, not as were ever told


def create(path, **settings):
    return adadim.Agent.create(path, dim=DIM, rewards="bernoulli", **settings)


def live(agent, rounds, rng, between=lambda: None):
    """Ask and tell five at a time; `between` is called after each tell."""
    for _ in range(rounds):
        arms = {str(k): x for k, x in enumerate(rng.standard_normal((5, DIM)))}
        made = agent.ask_many([None] * 5, arms)
        agent.tell_many([(one.id, float(rng.random() < 0.3 + 0.3 * (arms[one.arm][0] > 0))) for one in made])
        between()


def state(agent):
    agent.status()
    sums = model_of(agent).sums
    return sums.point.tobytes(), sums.fitted, sums.schedule


@pytest.mark.parametrize("memory", [None, "auto"])
@pytest.mark.parametrize("background", [False, True])
def test_a_decision_makes_no_fit_that_was_made_ahead(tmp_path, monkeypatch, memory, background):
    """And the model is bit for bit that of processes that make their fits themselves, when they need them."""
    made, asking, fitted_to = [], [], model._fitted_to

    def counted(sums, kept, due, *rest):
        if due.told.number >= WAITS_FROM:
            made.append((due.row, bool(asking)))
        return fitted_to(sums, kept, due, *rest)

    monkeypatch.setattr(model, "_fitted_to", counted)
    path, rng = tmp_path / "a.db", np.random.default_rng(3)
    with create(path, memory=memory) as agent, adadim.Agent.open(path) as other:
        live(agent, 30, rng)
        if background:
            model_of(agent).enable_background_fits()

        def ahead():
            asking.clear()
            agent.refresh()
            asking.append(True)

        live(agent, 120, rng, ahead)
        for one in model_of(agent)._ahead.values():
            one.result()
        in_decisions, rows = [row for row, asked in made if asked], [row for row, _ in made]
        assert len(rows) == len(set(rows)) > 3  # each once
        assert not in_decisions or background
        made.clear()
        assert state(other) == state(agent)
        assert made  # by itself
        with adadim.Agent.open(path) as third:
            third.rebuild()
            assert state(third) == state(agent)
            assert agent.rebuild() < 1e-9


def test_what_is_ahead_survives_a_restart_and_a_compaction(tmp_path):
    path, rng, now = tmp_path / "a.db", np.random.default_rng(4), itertools.count(1)
    agent = create(path, memory=None, clock=lambda: float(next(now)))
    while not model_of(agent).sums.schedule.ahead:
        live(agent, 1, rng)
        agent.status()
    agent.refresh()
    ahead = model_of(agent).sums.schedule.ahead
    agent.compact(before=100.0)
    agent.status()
    assert model_of(agent).sums.schedule.ahead == ahead
    agent.close()
    with adadim.Agent.open(path) as agent:
        assert model_of(agent).sums.schedule.ahead == ahead
        live(agent, 10, rng, agent.refresh)
        assert model_of(agent).sums.schedule.used.row >= ahead[0].row
        with adadim.Agent.open(path) as other:
            other.rebuild()
            assert state(other) == state(agent)


def test_what_is_kept_in_memory_is_what_the_log_has(tmp_path):
    """With rewards that are late, corrected, or never come."""
    path, rng, now = tmp_path / "a.db", np.random.default_rng(5), itertools.count(1)
    agent = create(path, memory=None, clock=lambda: float(next(now)), expire_after=150.0)
    waiting, told = [], []
    for at in range(150):
        arms = {str(k): x for k, x in enumerate(rng.standard_normal((5, DIM)))}
        waiting += [one.id for one in agent.ask_many([None] * 3, arms)]
        rng.shuffle(waiting)
        if at % 2 and len(waiting) > 20:
            answers = [(waiting.pop(), float(rng.random() < 0.4)) for _ in range(5)]
            told += [id for id, _ in answers]
            agent.ask_and_tell([adadim.agent.TellCall([answer]) for answer in answers])
        if at % 20 == 19:
            agent.correct(int(rng.choice(told)), float(rng.random()))
    agent.ask(arms)
    with log_of(agent).transaction(write=False):
        log_of(agent).place()
        read = KeptRewards(model_of(agent).reader, DIM)
        (rows,), (ours,) = ([*kept.upto()] for kept in (read, model_of(agent)._kept))
        for name in ("rows", "numbers", "features", "rewards", "replaced", "by_agent"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(rows, name))
    assert rows.replaced is not None
    agent.close()


def test_after_a_change_of_the_world_the_estimate_is_the_map_by_the_rewards_since(tmp_path):
    """Against SciPy, whenever a fit has just been made; bit for bit the same for one who reads all at once."""
    rng, rounds, turn, ridge = np.random.default_rng(6), 1100, 800, 3.0
    x, now = rng.standard_normal((rounds, DIM)), np.arange(rounds) >= turn
    clicks = (rng.random(rounds) < expit(np.where(now, -1.5 - 2.0 * x[:, 1], 3.0 + 2.0 * x[:, 0]))).astype(float)
    path, policy, compared = tmp_path / "a.db", adadim.LinUCB(likelihood="bernoulli", ridge=ridge), []
    arms = {str(at): row for at, row in enumerate(x[-5:])}
    with create(path, memory="auto", policy=policy) as agent, adadim.Agent.open(path) as other:
        agent.learn((x[:turn], clicks[:turn]))
        for stop in range(turn + 1, rounds + 1):
            agent.learn((x[stop - 1 : stop], clicks[stop - 1 : stop]))
            agent.status()
            start = model_of(agent).sums.fading.start
            if not start or model_of(agent).sums.schedule.used.row != stop:
                continue
            assert agent.status()["half_life"] is None
            means = [mean for mean, _ in agent.estimate(arms).values()]
            seen, y = x[start - 1 : stop], clicks[start - 1 : stop]  # decision 1 is row 0
            centre = float(learner_of(agent).model.offset[0])

            def loss(point, seen=seen, y=y, centre=centre):
                logits = point[0] + seen @ point[1:]
                prior = ((point[0] - centre) / CONSTANT_WIDTH) ** 2 + ridge * point[1:] @ point[1:]
                return np.logaddexp(0, logits).sum() - y @ logits + prior / 2

            found = minimize(loss, np.zeros(1 + DIM), tol=1e-12).x
            assert means == pytest.approx(expit(found[0] + x[-5:] @ found[1:]), abs=1e-5)
            compared.append(stop - start + 1)
        assert turn - 10 <= model_of(agent).sums.fading.start <= turn + 10
        assert len(compared) >= 3  # though there never were half as many rewards again as before the change
        assert state(other) == state(agent)
        assert other.rebuild() < 1e-9
        assert state(other) == state(agent)
