"""Widths count every pull that was asked for, means only those that are answered: against sums written out here."""

import numpy as np
import pytest

import adadim
from adadim.core.arrays import as_numpy, like
from adadim.models.prefixes import prefix_factor

RIDGE, NOISE, ARMS, DIM = 0.3, 0.2, 9, 5
THETA = np.array([0.6, -0.5, 0.3, 0.0, 0.0])
LINEAR = {
    "LinUCB": adadim.LinUCB(ridge=RIDGE),
    "LinUCB feature": adadim.LinUCB(ridge=RIDGE, form="feature"),
    "LinUCB dim": adadim.LinUCB(ridge=RIDGE, dim=3),
    "Tapered": adadim.TaperedLinUCB(ridge=RIDGE),
    "Evidence": adadim.EvidenceLinUCB(),
    "LinTS": adadim.LinTS(ridge=RIDGE),
    "Prefix": adadim.PrefixLinUCB(),
    "Prefix Thompson": adadim.PrefixLinUCB(rule="thompson"),
    "TwoPrior": adadim.TwoPriorLinUCB(),
}
ON_FIXED = list(LINEAR)
IN_CONTEXTS = ["LinUCB", "LinUCB dim", "Tapered", "Evidence", "LinTS"]


class Asked:
    """What was asked and answered so far: features, rewards, and who waits."""

    def __init__(self):
        self.x, self.rewards, self.waiting = {}, {}, {}

    def ask(self, decision, x):
        self.x[decision.number], self.waiting[decision.number] = x, decision

    def tell(self, learner, number, reward):
        learner.tell(self.waiting.pop(number), reward)
        self.rewards[number] = reward

    def forget(self, learner, number):
        learner.forget(self.waiting.pop(number))
        del self.x[number]

    def second(self, numbers, scale):
        x = np.array([self.x[n] for n in numbers]).reshape(-1, len(scale)) * scale
        return x.T @ x

    def regression(self, ridge, scale, but=()):
        """V over the answered, V over all that were asked, and theta by the answered, with features times `scale`."""
        answered = list(self.rewards)
        identity = ridge * np.eye(len(scale))
        known = identity + self.second(answered, scale)
        asked = identity + self.second([n for n in self.x if n not in but], scale)
        x = np.array([self.x[n] for n in answered]).reshape(-1, len(scale)) * scale
        return known, asked, np.linalg.solve(known, x.T @ np.array([self.rewards[n] for n in answered]))


def expected(asked, features, ridge, scale, but=()):
    """Mean and squared width of every row of features."""
    _, v, theta = asked.regression(ridge, scale, but)
    seen = features * scale
    return seen @ theta, np.vecdot(seen, np.linalg.solve(v, seen.T).T)


def tapers(exponent, dim=DIM):
    return np.arange(1.0, dim + 1) ** (-exponent / 2)


def script(learner, offer, rng, rounds, x_of, after):
    """Ask, tell, forget in random order; `after(asked, newest)` looks at the learner after every ask."""
    asked = Asked()
    for t in range(rounds):
        features = offer(t)
        decision = learner.ask(*([] if features is None else [features]))
        x = x_of(features, decision.arms)
        asked.ask(decision, x)
        after(asked, decision.number)
        while asked.waiting and rng.random() < 0.55:
            number = rng.choice(list(asked.waiting))
            if rng.random() < 0.2:
                asked.forget(learner, number)
            else:
                asked.tell(learner, number, float(asked.x[number][:5] @ THETA + NOISE * rng.standard_normal()))
    assert len(asked.rewards) > rounds / 4
    for number in list(asked.waiting):
        asked.forget(learner, number)
    assert learner.describe()["open_decisions"] == 0
    return asked


def arms_of(rng, count=ARMS):
    return rng.standard_normal((count, DIM)) / 3


def close(found, wanted, tolerance=1e-9):
    np.testing.assert_allclose(as_numpy(found), wanted, rtol=tolerance, atol=tolerance)


def check_fixed(name, learner, features, raw=None):
    """A function that holds the learner's means and widths against the reference, on fixed arms."""
    scaled = features if raw is None else raw

    def linear(part, ridge, scale):
        def look(asked, newest):
            mean, width2 = expected(asked, scaled, ridge(), scale, but=[newest])
            close(part.model.regression.mean[0], mean)
            close(part.model.regression.open_width2[0], width2)

        return look

    def evidence(part):
        # Its posterior has ridge 1 on features divided by the root of the ridge and by the longest arm.
        def look(asked, newest):
            size = np.sqrt(np.vecdot(scaled, scaled).max())
            scale = tapers(1.75) / np.sqrt(part.model.ridge[0]) / size
            mean, width2 = expected(asked, scaled, 1.0, scale, but=[newest])
            close(part.model.regression.mean[0], mean)
            close(part.model.regression.open_width2[0], width2)
            assert part.model.answered[0] == len(asked.rewards)

        return look

    def prefix(part):
        model, size = part.model, np.sqrt(np.vecdot(scaled, scaled).max())

        def look(asked, newest):
            m, ridge, (chances, noise2) = (
                int(model.prediction.size[0]),
                model.ridge[0],
                model.prediction.dim_posterior(0),
            )
            scale = np.ones(m) / np.sqrt(ridge) / size
            numbers = list(asked.rewards)
            known = np.array([asked.x[n] for n in numbers]).reshape(-1, DIM) / size
            rewards = np.array([asked.rewards[n] for n in numbers])
            squares = float(rewards @ rewards)
            if squares:
                gram, moments = known[:, :m].T @ known[:, :m], known[:, :m].T @ rewards
                factor, w = prefix_factor(gram, moments, ridge)
                logdets = 2 * np.cumsum(np.log(np.diag(factor) / np.sqrt(ridge)))
                rests = np.maximum(squares - np.cumsum(w * w), 1e-12 * squares)
                logs = model.prior.log_prior(m) - 0.5 * (logdets + len(numbers) * np.log(rests))
                close(chances, np.exp(logs - np.logaddexp.reduce(logs)), 1e-7)
            means, within = [], 0.0
            for length, chance in enumerate(chances.tolist(), 1):
                cut = scale * (np.arange(m) < length)
                some = Asked()
                some.x = {n: x[:m] for n, x in asked.x.items()}
                some.rewards = asked.rewards
                mean, width2 = expected(some, scaled[:, :m], 1.0, cut, but=[newest])
                means.append(mean)
                within = within + chance * width2
            mean = chances @ np.array(means)
            between = chances @ (np.array(means) - mean) ** 2
            found_mean, found_variance = model.predict(part.everyone.to_numpy())
            close(found_mean[0], mean, 1e-8)
            close(found_variance[0], between + (noise2 if squares else 1.0) * within, 1e-8)

        return look

    def sampled(part):
        def look(asked, newest):
            _, v, theta = asked.regression(RIDGE, np.ones(DIM), but=[newest])
            factor = part.model.regression
            factor.factorise(part.everyone)
            root = (factor if factor.pending is None else factor.pending).inverse[0]
            close(as_numpy(root).T @ as_numpy(root), np.linalg.inv(v))
            close(as_numpy(factor.w[0]) @ as_numpy(factor.inverse[0]), theta)

        return look

    if name == "TwoPrior":
        looks = [evidence(learner.fading), prefix(learner.prefix)]
        return lambda asked, newest: [look(asked, newest) for look in looks]
    if name.startswith("Prefix"):
        return prefix(learner)
    if name == "Evidence":
        return evidence(learner)
    if name == "LinTS":
        return sampled(learner)
    scale = (
        tapers(LINEAR["Tapered"].taper) if name == "Tapered" else (np.arange(DIM) < (3 if "dim" in name else DIM)) * 1.0
    )
    return linear(learner, lambda: RIDGE, scale)


@pytest.mark.parametrize("name", ON_FIXED)
@pytest.mark.parametrize(("library", "seed"), [("numpy", 0), ("numpy", 1), ("torch", 0)])
def test_fixed_arms(name, library, seed):
    rng = np.random.default_rng(seed)
    features = arms_of(rng)
    problem = adadim.Problem(features, horizon=500, noise=NOISE)
    if library == "torch":
        pytest.importorskip("torch")
        problem = problem.to("cpu")
    learner = LINEAR[name].start(problem, seed=seed)
    script(learner, lambda t: None, rng, 70, lambda _, arm: features[arm], check_fixed(name, learner, features))


@pytest.mark.parametrize("name", IN_CONTEXTS)
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("raw", [False, True], ids=["like units", "raw units"])
def test_contexts(name, library, raw):
    rng = np.random.default_rng(3)
    units = np.array([1.0, 30.0, 1.0, 200.0, 1.0]) if raw else np.ones(DIM)
    problem = adadim.Problem(arms=ARMS, dim=DIM, horizon=500, noise=NOISE)
    if library == "torch":
        pytest.importorskip("torch")
        problem = problem.to("cpu")
    learner = LINEAR[name].start(problem)
    offers = rng.standard_normal((90, ARMS, DIM)) / 3 * units

    def look(asked, newest):
        features = offers[newest]
        if name == "LinTS":
            check_fixed(name, learner, features)(asked, newest)
            return
        scale, ridge = np.ones(DIM), RIDGE
        if name == "Tapered":
            scale = tapers(LINEAR[name].taper)
        elif name == "LinUCB dim":
            scale = (np.arange(DIM) < 3) * 1.0
        elif name == "Evidence":
            scale, ridge = tapers(1.75) / learner.model.offer.units[0], float(learner.model.regression.ridge[0])
        mean, width2 = expected(asked, features, ridge, scale, but=[newest])
        rows = learner.everyone.to_numpy() if name == "Evidence" else learner.everyone
        offered = features[None] if name == "Evidence" else like(features[None], problem.reference)
        seen = learner.model.offer.inputs(offered[..., : learner.model.dim], rows)
        found = learner.model.regression.predict(seen, rows)
        close(found[0][0], mean)
        close(found[1][0], width2)

    script(learner, lambda t: like(offers[t], problem.reference), rng, 70, lambda x, arm: as_numpy(x)[arm], look)


@pytest.mark.parametrize("policy", [adadim.LinUCB(ridge=RIDGE), adadim.LinUCB(ridge=RIDGE, radius="oful")])
def test_a_parameter_for_each_arm(policy):
    rng = np.random.default_rng(4)
    problem = adadim.Problem(arms=3, dim=DIM, horizon=500, noise=NOISE, disjoint=True)
    learner, last = policy.start(problem), {}

    def x_of(context, arm):  # the products of every arm with every covariate
        wide = np.zeros(3 * DIM)
        wide[arm * DIM : (arm + 1) * DIM] = context
        last["context"] = context
        return wide

    def look(asked, newest):
        wide = np.array([x_of(last["context"], arm) for arm in range(3)])
        mean, width2 = expected(asked, wide, RIDGE, np.ones(3 * DIM), but=[newest])
        found = learner.model.offer.predict_inputs(last["context"][None], learner.everyone)
        close(found[0][0], mean)
        close(found[1][0], width2)

    contexts = rng.standard_normal((120, DIM)) / 3
    script(learner, lambda t: contexts[t], rng, 120, x_of, look)


@pytest.mark.parametrize("name", [name for name in ON_FIXED if name != "LinUCB dim"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_arms_that_arrive(name, library):
    rng = np.random.default_rng(5)
    features = arms_of(rng, ARMS)
    features[0] *= 2  # the longest is there from the start: it sets the scale
    problem = adadim.Problem(features[:4], arms=ARMS, horizon=500, noise=NOISE)
    if library == "torch":
        pytest.importorskip("torch")
        problem = problem.to("cpu")
    learner, there = LINEAR[name].start(problem), np.zeros_like(features)
    there[:4] = features[:4]
    look = check_fixed(name, learner, features, raw=there)

    def offer(t):
        if t in (20, 50):
            first = 4 if t == 20 else 6
            new = features[first : first + 2]
            learner.add_arms(like(new, problem.reference))
            there[first : first + 2] = new
        return None

    script(learner, offer, rng, 70, lambda _, arm: there[arm].copy(), look)


@pytest.mark.parametrize("name", ON_FIXED)
def test_asked_and_told_in_turn_is_select_and_update(name):
    """Answered at once nothing changes, to the last bit."""
    rng = np.random.default_rng(6)
    features = arms_of(rng)
    problem = adadim.Problem(features, horizon=200, noise=NOISE)
    one, other = (LINEAR[name].start(problem, seed=1) for _ in range(2))
    for _ in range(80):
        arm, decision = one.select(), other.ask()
        assert decision.arms == arm
        reward = float(features[arm] @ THETA + NOISE * rng.standard_normal())
        one.update(arm, reward)
        other.tell(decision, reward)
    parts = [getattr(getattr(learner, "model", None), "state", None) for learner in (one, other)]
    if parts[0] is not None:
        for kept in ("w", "inverse") if name == "LinTS" else ("mean", "width2"):
            assert (getattr(parts[0], kept) == getattr(parts[1], kept)).all()
        assert parts[1].pending is None


@pytest.mark.parametrize("name", ON_FIXED)
def test_some_replications_wait_and_others_do_not(name):
    """Replication 1 is the same whether or not replication 0 answers late."""
    rng = np.random.default_rng(7)
    features = arms_of(rng)
    policy = LINEAR[name]
    both = policy.start(adadim.Problem(np.stack([features] * 2), horizon=200, noise=NOISE), seed=1)
    waiting, chosen = [], []
    for t in range(60):
        first, second = both.ask(rows=[0]), both.ask(rows=[1])
        chosen.append(int(second.arms[0]))
        waiting.append(first)
        both.tell(second, [float(features[chosen[-1]] @ THETA)])
        if t % 7 == 6:
            for decision in reversed(waiting):
                both.tell(decision, [float(features[int(decision.arms[0])] @ THETA)])
            waiting = []
    alone = policy.start(adadim.Problem(np.stack([features] * 2), horizon=200, noise=NOISE), seed=1)
    for arm in chosen:
        decision = alone.ask(rows=[1])
        assert int(decision.arms[0]) == arm
        alone.tell(decision, [float(features[arm] @ THETA)])


# Thompson sampling draws; a taper of its own ridge says beforehand that the first features deserve more pulls.
@pytest.mark.parametrize("policy", [LINEAR[n] for n in ("LinUCB", "LinUCB feature", "Evidence", "Prefix", "TwoPrior")])
def test_before_the_first_reward_it_spreads_out(policy):
    """With as many orthogonal arms as features, the first d decisions are d arms; without open pulls counted, one."""
    problem = adadim.Problem(np.eye(6), horizon=1000, noise=NOISE)
    learner = policy.start(problem)
    arms = [learner.ask().arms for _ in range(6)]
    assert sorted(arms) == list(range(6))


def test_the_first_reward_comes_after_a_thousand_decisions():
    rng = np.random.default_rng(8)
    features = rng.standard_normal((40, 10)) / 3
    learner = adadim.EvidenceLinUCB().start(adadim.Problem(features, horizon=3000))
    waiting = [learner.ask() for _ in range(1000)]
    pulls = np.bincount([decision.arms for decision in waiting], minlength=40)
    v = features.T @ (pulls[:, None] * features)
    # Any direction was tried at least a twentieth as often as in a design of all arms alike.
    assert np.linalg.eigvalsh(v)[0] > np.linalg.eigvalsh(features.T @ features * 1000 / 40)[0] / 20
    for decision in waiting:
        learner.tell(
            decision, float(features[decision.arms] @ np.r_[0.5, -0.5, np.zeros(8)] + 0.1 * rng.standard_normal())
        )
    assert learner.select() == np.argmax(features @ np.r_[0.5, -0.5, np.zeros(8)])


@pytest.mark.parametrize("raw", [False, True], ids=["like units", "raw units"])
def test_clicks_whose_first_hundred_are_all_zero(raw):
    """The widths go on shrinking where nothing is to be learned from rewards."""
    rng = np.random.default_rng(9)
    units = np.array([1.0, 1.0, 50.0, 1.0, 400.0, 1.0]) if raw else np.ones(6)
    learner = adadim.EvidenceLinUCB().start(adadim.Problem(arms=20, dim=6, horizon=2000))
    pulled, waiting = [], []
    for _ in range(150):
        x = rng.standard_normal((20, 6)) * units
        decision = learner.ask(x)
        pulled.append(x[decision.arms] / units)
        waiting.append(decision)
        if len(waiting) > 30:
            learner.tell(waiting.pop(0), 0.0)
    pulled = np.array(pulled)
    spread = np.linalg.eigvalsh(pulled.T @ pulled)
    assert spread[0] > spread[-1] / 50  # no direction is left out
    scale = tapers(1.75, 6) / learner.model.offer.units[0]
    seen, counted = x * scale, pulled[:-1] * units * scale
    v = float(learner.model.regression.ridge[0]) * np.eye(6) + counted.T @ counted
    found = learner.model.regression.predict(seen[None], learner.everyone)[1][0]
    close(found, np.vecdot(seen, np.linalg.solve(v, seen.T).T))


def test_saved_while_decisions_are_open(tmp_path):
    rng = np.random.default_rng(10)
    features = arms_of(rng)
    problem = adadim.Problem(features, horizon=200, noise=NOISE)
    for name, policy in LINEAR.items():
        learner = policy.start(problem, seed=2)
        waiting = [learner.ask() for _ in range(7)]
        learner.tell(waiting[3], 0.4)
        learner.forget(waiting[5])
        learner.save(tmp_path / "learner.npz")
        restored = adadim.load(tmp_path / "learner.npz", problem)
        assert restored.describe() == learner.describe()
        for _ in range(5):
            assert restored.ask().arms == learner.ask().arms, name
        for decision in (waiting[0], waiting[6]):
            for each in (learner, restored):
                each.tell(decision, 0.1)
        assert [restored.ask().arms for _ in range(5)] == [learner.ask().arms for _ in range(5)]


def test_forget_says_what_is_wrong():
    learner = adadim.LinUCB().start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
    decision = learner.ask()
    learner.forget(decision)
    with pytest.raises(adadim.errors.DecisionError, match="decision 0 was answered already"):
        learner.forget(decision)
    with pytest.raises(adadim.errors.DecisionError, match="decision 0"):
        learner.tell(decision, 0.1)
    with pytest.raises(TypeError, match="forget needs a decision"):
        learner.forget("0")


def test_masters_and_iterations_still_take_one_decision_at_a_time():
    problem = adadim.Problem(np.eye(4), horizon=100, noise=0.1, reward_range=1.0)
    for policy in (adadim.LinUCBPlusPlus(), adadim.Corral(), adadim.DynamicBalancing()):
        learner = policy.start(problem)
        learner.ask()
        with pytest.raises(adadim.errors.DecisionError, match="one decision at a time"):
            learner.ask()


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("name", ["UCB", "MOSS"])
def test_arms_without_features(name, library):
    """Means over the answered pulls, widths over all that were asked; an arm without an answer comes first."""
    rng, arms, horizon = np.random.default_rng(12), 5, 400
    problem = adadim.Problem(np.eye(arms), horizon=horizon, noise=NOISE)
    if library == "torch":
        pytest.importorskip("torch")
        problem = problem.to("cpu")
    policy = {"UCB": adadim.UCB(index="subgaussian", ties="lowest"), "MOSS": adadim.MOSS(ties="lowest")}[name]
    learner, waiting = policy.start(problem), []
    answered, asked, sums = np.zeros(arms), np.zeros(arms), np.zeros(arms)
    for _ in range(150):
        n = np.maximum(asked, 1)
        if name == "UCB":
            width = NOISE * np.sqrt(2 * np.log(horizon**2) / n)
        else:
            width = 2 * NOISE * np.sqrt(np.maximum(np.log(horizon / (arms * n)), 0) / n)
        scores = np.where(answered > 0, sums / np.maximum(answered, 1) + width, 1e9 - asked)
        decision = learner.ask()
        assert decision.arms == int(np.argmax(scores))
        asked[decision.arms] += 1
        waiting.append(decision)
        while len(waiting) > 12 and rng.random() < 0.6:
            told = waiting.pop(int(rng.integers(len(waiting))))
            if rng.random() < 0.2:
                learner.forget(told)
                asked[told.arms] -= 1
                continue
            reward = float(told.arms / 10 + NOISE * rng.standard_normal())
            learner.tell(told, reward)
            answered[told.arms] += 1
            sums[told.arms] += reward
    assert answered.min() > 0
