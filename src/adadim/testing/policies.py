"""What every policy must do, tried out on small problems of every kind."""

from __future__ import annotations

import copy
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from adadim.core.arrays import as_numpy
from adadim.core.checks import flag, shown
from adadim.core.problem import Problem
from adadim.errors import AdadimError, InvalidTypeError
from adadim.policies.base import Learner, Policy
from adadim.policies.loading import load
from adadim.testing.report import Failure, NotApplicable, Report, checks_to_make, run_checks
from adadim.testing.worlds import ARM_COUNT, DIM, HORIZON, NOISE, OFFERS, ROUNDS, TOGETHER, World, described, draw_arms

SEED = 2
LATE_BY = 9  # decisions that are open at once
PAIRS = 8  # of decisions that are open together
HALFWAY = ROUNDS // 2


def check_policy(policy: Policy, *, torch: bool | None = None, only: Any = None) -> Report:
    """Check that a policy does what every policy must; what the tests of adadim's own policies do, for yours.

    It plays small problems of every kind, in seconds: arms that stay, features that come with each round, a parameter
    for each arm, arms that arrive. What a policy cannot play it may refuse, by an error of adadim before the first
    round or by the attributes of its learner (`takes_late_rewards`, `no_allowed`, `no_contexts`, ...); what it does not
    refuse it must do.

    ================  ================================================================================================
    Check             What must hold
    ================  ================================================================================================
    value             The policy equals a copy of itself, and has the same hash.
    decisions         Arms are int64, one for each replication, in 0..K-1, and have arrived; rewards stay as they are.
    tiny problems     One arm, one feature and one round are problems too.
    masks             No arm is chosen that `allowed` leaves out, of several replications each with its own mask.
    late rewards      Decisions that are open at once are answered in any order, and each reward counts for its own arm.
    saving            Restored from a file while decisions are open, the learner goes on exactly as the saved one does.
    reproducible      The same seed gives the same arms again, also while another learner of the policy plays.
    batch             Replication r depends on the seed and on r: alone, in another batch, or ahead of the others.
    logged pulls      It learns from pulls that it did not decide.
    new arms          Arms that were not announced can be added, and are chosen from then on.
    describe          `describe()` gives words and numbers that JSON can hold.
    torch             With torch tensors it chooses the same arms.
    ================  ================================================================================================

    Parameters
    ----------
    policy : Policy
        An object of your class.
    torch : bool, optional
        Whether it plays with torch. By default that is checked if the learner claims it (`fixed_operations` or
        `contexts_on_devices`) and torch is installed.
    only : str or list of str, optional
        Names of checks to make; by default all.

    Returns
    -------
    Report
        What passed and what the policy refuses.

    Raises
    ------
    ConformanceError
        If a check fails: an AssertionError, so that a test needs no more than the call. Its message is the report,
        which names what failed, where, and how to see it again.

    Examples
    --------
    A policy to copy, written for all replications at once. All that changes is set in ``__init__``, in arrays whose
    first axis counts replications; random numbers come from `choose_largest` and ``self.draws``.

    >>> from dataclasses import dataclass
    >>> import adadim
    >>> from adadim.testing import check_policy
    >>> @dataclass(frozen=True)
    ... class MyPolicy(adadim.Policy):
    ...     width: float = 0.5
    ...
    ...     def learner(self, problem, streams):
    ...         return MyLearner(self, problem, streams)
    >>> class MyLearner(adadim.Learner):
    ...     def __init__(self, policy, problem, streams):
    ...         super().__init__(problem, streams)
    ...         self.policy = policy
    ...         self.pulls, self.sums = self.zeros(problem.arms), self.zeros(problem.arms)
    ...
    ...     def choose(self, rows):
    ...         pulls = rows.of(self.pulls).clip(1.0)
    ...         scores = rows.of(self.sums) / pulls + self.policy.width / pulls**0.5
    ...         return self.choose_largest(scores, rows)
    ...
    ...     def absorb(self, arms, rewards, rows, memo):
    ...         rows.add(self.pulls, arms, 1.0)
    ...         rows.add(self.sums, arms, rewards)
    >>> report = check_policy(MyPolicy())
    >>> report.passed[:6]
    ('value', 'decisions', 'tiny problems', 'masks', 'late rewards', 'saving')
    >>> report.plays["fixed"], report.plays["contexts"]
    (True, False)

    A test of it is ``def test_my_policy(): check_policy(MyPolicy())``.
    """
    if not isinstance(policy, Policy):
        wanted = "an object of a class derived from adadim.Policy, e.g. MyPolicy()"
        raise InvalidTypeError(f"policy must be {wanted}, got {shown(policy)}")
    if torch is not None:
        flag(torch, "torch")
    tried = _PolicyChecks(policy, torch)
    names = checks_to_make(only, tried.checks)
    subject = repr(policy)

    def again(name: str) -> str:
        return f"adadim.testing.check_policy({subject}, only={name!r})"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run_checks(subject, again, {name: tried.checks[name] for name in names}, lambda: tried.plays)


class _PolicyChecks:
    """A policy and the checks that are made of it."""

    def __init__(self, policy: Policy, torch: bool | None) -> None:
        self.policy, self.wants_torch = policy, torch
        self.plays: dict[str, bool] = {}
        self.checks: Mapping[str, Callable[[], None]] = {
            "value": self.check_value,
            "decisions": self.check_decisions,
            "tiny problems": self.check_tiny_problems,
            "masks": partial(self.on_every_offer, "masked", self.check_masks),
            "late rewards": partial(self.on_every_offer, "late", self.check_late_rewards),
            "saving": partial(self.on_every_offer, "saved", self.check_saving),
            "reproducible": partial(self.on_every_offer, None, self.check_reproducible),
            "batch": partial(self.on_every_offer, None, self.check_batch),
            "logged pulls": self.check_logged_pulls,
            "new arms": self.check_new_arms,
            "describe": partial(self.on_every_offer, None, self.check_describe),
            "torch": self.check_torch,
        }

    def start(self, problem: Problem, seed: int = SEED) -> Learner:
        """A learner; an error of adadim is how a policy says that it does not play a problem."""
        try:
            learner = self.policy.start(problem, seed=seed)
        except AdadimError as error:
            raise NotApplicable(str(error)) from error
        if not isinstance(learner, Learner):
            name = type(self.policy).__name__
            raise Failure(f"{name}.learner must return an adadim.Learner, got {type(learner).__name__}")
        return learner

    def offers(self) -> dict[str, str | None]:
        """Why it does not play each kind of problem; None of those that it plays."""
        found: dict[str, str | None] = {}
        for offer in OFFERS:
            problem = World(offer).problem
            try:
                with _at(f"on {described(offer)} it did not start"):
                    self.start(problem)
                found[offer] = None
            except NotApplicable as reason:
                found[offer] = str(reason)
        if all(found.values()):
            raise Failure(f"it refuses every kind of problem; fixed arms, because {found['fixed']}")
        return found

    def on_every_offer(self, aspect: str | None, check: Callable[[str], None]) -> None:
        """Make a check on every kind of problem that the policy plays; it may refuse it on all of them."""
        refused = None
        for offer in (offer for offer, reason in self.offers().items() if reason is None):
            try:
                check(offer)
            except NotApplicable as reason:
                refused = refused or reason
        if aspect is not None:
            self.plays[aspect] = refused is None
        if refused is not None:
            raise refused

    # The checks

    def check_value(self) -> None:
        policy = self.policy
        twin = copy.copy(policy)
        if policy != twin or hash(policy) != hash(twin):
            raise Failure("it differs from its copy: a policy is a frozen dataclass with nothing but hyper-parameters")

    def check_decisions(self) -> None:
        offers = self.offers()
        self.plays |= {offer: reason is None for offer, reason in offers.items()}
        for offer in (offer for offer, reason in offers.items() if reason is None):
            for replications in (None, TOGETHER):
                world = World(offer, replications=replications)
                with _played(world):
                    world.run(self.start(world.problem))

    def check_tiny_problems(self) -> None:
        refusals = []
        for features in (np.ones((1, 1)), np.eye(4), np.full((3, 4), 0.5), np.zeros((2, 4))):
            for horizon in (1, 3):
                problem = Problem(features, horizon=horizon, noise=0.1, reward_range=1.0)
                try:
                    with _at(f"arms = {problem.arms}, features = {problem.dim}, horizon = {horizon}"):
                        learner = self.start(problem)
                        for _ in range(horizon):
                            learner.update(learner.select(), 0.1)
                except NotApplicable as reason:
                    refusals.append(reason)
        if len(refusals) == 8:
            raise refusals[0]

    def check_masks(self, offer: str) -> None:
        world = World(offer, replications=TOGETHER)
        learner = self.start(world.problem)
        if learner.no_allowed:
            raise NotApplicable(learner.no_allowed)
        for t in range(HALFWAY):
            allowed = np.ones((len(TOGETHER), ARM_COUNT), dtype=bool)
            for row in range(len(TOGETHER)):
                # From one arm that is missing to one that is left, which has arrived.
                allowed[row, (t + row) % ARM_COUNT] = False
                if t % 4 == 3:
                    allowed[row] = np.arange(ARM_COUNT) == (t + row) % 3
            with _played(world):
                world.step(learner, allowed=allowed)

    def check_late_rewards(self, offer: str) -> None:
        world = World(offer, replications=TOGETHER)
        learner = self.start(world.problem)
        if not learner.takes_late_rewards:
            raise NotApplicable("its learner needs each reward before the next decision (takes_late_rewards = False)")
        rng, waiting = np.random.default_rng(1), []
        with _played(world):
            for _ in range(ROUNDS):
                waiting.append(world.ask(learner))
                if len(waiting) > LATE_BY:
                    world.tell(learner, waiting.pop(int(rng.integers(len(waiting)))))
            learner.forget(waiting.pop(0))
            while waiting:
                world.tell(learner, waiting.pop())
        if offer in ("fixed", "contexts") and not learner.no_allowed:
            self._check_credit(offer)

    def _check_credit(self, offer: str) -> None:
        """Arms 0 and 1 are open together; which was asked for last must not matter to what is learned of them.

        Arm 0 always earns 1 and arm 1 earns 0.2, and both are told in this order.
        """
        features, chosen = np.eye(DIM) / 2, []
        offered = [] if offer == "fixed" else [features]
        problem = (
            Problem(features, horizon=HORIZON, noise=NOISE, reward_range=1.0)
            if offer == "fixed"
            else Problem(arms=DIM, dim=DIM, horizon=HORIZON, noise=NOISE, reward_range=1.0)
        )
        for order in ((0, 1), (1, 0)):
            learner = self.start(problem)
            for _ in range(PAIRS):
                decisions = {arm: learner.ask(*offered, allowed=np.arange(DIM) == arm) for arm in order}
                learner.tell(decisions[0], 1.0)
                learner.tell(decisions[1], 0.2)
            chosen.append(learner.ask(*offered, allowed=np.arange(DIM) < 2).arms)
        if chosen[0] != chosen[1]:
            raise Failure(
                f"on {described(offer)}, where arm 0 earns 1 and arm 1 earns 0.2, it prefers arm {chosen[0]} if arm 1 "
                f"was asked for last each time and arm {chosen[1]} if arm 0 was: absorb must learn of the arms and the "
                "memo that it is given, not of the last choice"
            )

    def check_saving(self, offer: str) -> None:
        world = World(offer, replications=TOGETHER)
        learner = self.start(world.problem)
        with _played(world):
            world.run(learner, HALFWAY)
            open_decision = world.ask(learner)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "learner.npz")
            try:
                learner.save(path)
            except AdadimError as error:
                raise Failure(f"on {described(offer)}: {error}") from error
            twin = copy.deepcopy(world)
            with _played(world):  # the saved one goes on before the file is read: what they share differs by then
                world.tell(learner, open_decision)
                world.run(learner, ROUNDS - HALFWAY - 1)
            try:
                restored = load(path, world.problem, policy=self.policy)
            except AdadimError as error:
                raise Failure(f"on {described(offer)}: the file that save wrote is refused: {error}") from error
        with _played(twin):
            twin.tell(restored, open_decision)
            twin.run(restored, ROUNDS - HALFWAY - 1)
        _same_arms(offer, world.chosen, twin.chosen, "the saved learner", "the one restored from its file")
        if _json_of(learner.describe()) != _json_of(restored.describe()):
            raise Failure(
                f"on {described(offer)}: the restored learner chooses the same arms as the saved one, but describes "
                f"itself otherwise: {shown(learner.describe()[0])} and {shown(restored.describe()[0])}"
            )

    def check_reproducible(self, offer: str) -> None:
        worlds = [World(offer, replications=TOGETHER) for _ in range(3)]
        before = _global_generator()
        with _played(worlds[0]):
            worlds[0].run(self.start(worlds[0].problem))
        drew = _global_generator() != before
        learners = [self.start(world.problem) for world in worlds[1:]]
        for _ in range(ROUNDS):
            for world, learner in zip(worlds[1:], learners, strict=True):
                with _played(world):
                    world.step(learner)
        hint = "; it draws from NumPy's global generator: draw from self.draws or the generator given" if drew else ""
        _same_arms(offer, worlds[0].chosen, worlds[1].chosen, "the first learner", "another of the same seed", hint)
        if drew:
            raise Failure(f"on {described(offer)}{hint}")

    def check_batch(self, offer: str) -> None:
        together = World(offer, replications=TOGETHER)
        with _played(together):
            together.run(self.start(together.problem))
        for others in ((TOGETHER[1],), (TOGETHER[2], 40, TOGETHER[0])):
            world = World(offer, replications=others)
            with _played(world):
                world.run(self.start(world.problem))
            same = {number: arms for number, arms in world.chosen.items() if number in TOGETHER}
            _same_arms(offer, together.chosen, same, f"in the batch {TOGETHER} it", f"in the batch {others} it")
        world, rng = World(offer, replications=TOGETHER), np.random.default_rng(1)
        learner, left = self.start(world.problem), np.full(len(TOGETHER), HALFWAY)
        with _played(world):
            while left.any():
                unfinished = np.flatnonzero(left)
                rows = rng.permutation(unfinished)[: rng.integers(1, len(unfinished) + 1)]
                first, second = rows[:1], rows[1:]
                decisions = [world.ask(learner, rows=part) for part in (first, second) if len(part)]
                for decision in reversed(decisions):
                    world.tell(learner, decision)
                left[rows] -= 1
        expected = {number: arms[:HALFWAY] for number, arms in together.chosen.items()}
        _same_arms(offer, expected, world.chosen, "in step with the others it", "asked a few replications at a time it")

    def check_logged_pulls(self) -> None:
        offers = [offer for offer, reason in self.offers().items() if reason is None]
        offer = next((offer for offer in ("fixed", "disjoint") if offer in offers), None)
        if offer is None:
            raise NotApplicable("where features come with each round, pulls need features", "skipped")
        world = World(offer)
        learner = self.start(world.problem)
        if not learner.takes_any_arm:
            raise NotApplicable("its learner learns from its own choices alone (takes_any_arm = False)")
        with _at(
            f"on {described(offer)}, learn(arms, rewards), for which absorb gets an empty memo (a learner that needs "
            "its own memos says takes_any_arm = False)"
        ):
            if offer == "fixed":
                learner.learn([0, 1, 2, 2, 4], [0.1, 0.2, 0.3, 0.2, 0.4])
            else:
                learner.learn(draw_arms((0,))[0], np.linspace(0.1, 0.4, ARM_COUNT))
        with _played(world):
            world.run(learner, 5)

    def check_new_arms(self) -> None:
        self.plays["add_arms"] = False
        features = draw_arms((0,))[0]
        learner = self.start(Problem(features[:3], arms=ARM_COUNT, horizon=HORIZON, noise=NOISE, reward_range=1.0))
        if not learner.takes_new_arms:
            raise NotApplicable("its learner takes no new arms (takes_new_arms = False)")
        learner.add_arms(features[3:5])
        for t in range(ROUNDS):
            arm = learner.select()
            if not 0 <= arm < 5:
                raise Failure(f"round {t + 1} after 2 arms were added to 3: it chose arm {arm}")
            learner.update(arm, 0.1)
        if not learner.no_allowed:
            arm = learner.select(allowed=[False, False, False, False, True, False])
            if arm != 4:
                raise Failure(f"arm 4 was added and is the only one allowed: it chose arm {arm}")
        self.plays["add_arms"] = True

    def check_describe(self, offer: str) -> None:
        world = World(offer, replications=TOGETHER)
        learner = self.start(world.problem)
        for rounds in (0, 1, HALFWAY):
            with _played(world):
                world.run(learner, rounds)
            found = learner.describe()
            try:
                same = json.loads(json.dumps(found)) == found
            except (TypeError, ValueError):
                same = False
            if not same:
                raise Failure(f"on {described(offer)}: describe() has more than words and numbers: {shown(found[0])}")
            numbers = [row.get("replication") for row in found]
            if numbers != list(TOGETHER):
                raise Failure(f"on {described(offer)}: describe() is of replications {numbers}, not {list(TOGETHER)}")

    def check_torch(self) -> None:
        offers = [offer for offer, reason in self.offers().items() if reason is None]
        learners = [self.start(World(offer).problem) for offer in offers]
        claimed = any(learner.fixed_operations or learner.contexts_on_devices for learner in learners)
        if not (claimed if self.wants_torch is None else self.wants_torch):
            raise NotApplicable(
                "not claimed: neither torch=True, nor fixed_operations, nor contexts_on_devices", "skipped"
            )
        if find_spec("torch") is None:
            if self.wants_torch:
                raise Failure("torch is not installed: pip install 'adadim[torch]'")
            raise NotApplicable("torch is not installed", "skipped")
        self.plays["torch"] = False
        refused = None
        for offer in offers:
            here, there = (World(offer, library, TOGETHER) for library in ("numpy", "torch"))
            try:
                learner = self.start(there.problem)
            except NotApplicable as reason:
                refused = refused or NotApplicable(f"on {described(offer)}: {reason}")
                continue
            with _played(there):
                there.run(learner)
            here.run(self.start(here.problem))
            _same_arms(offer, here.chosen, there.chosen, "with NumPy it", "with torch it")
        if refused is not None:
            raise refused
        self.plays["torch"] = True


@contextmanager
def _at(where: Callable[[], str] | str) -> Iterator[None]:
    """Says where an error came that is no finding of a check."""
    try:
        yield
    except (Failure, NotApplicable):
        raise
    except Exception as error:
        text = where if isinstance(where, str) else where()
        raise Failure(text.rstrip(":")) from error


def _played(world: World) -> AbstractContextManager[None]:
    """Says in which round of a world an error came."""
    return _at(lambda: world.at(0))


def _same_arms(
    offer: str, one: Mapping[int, list[int]], other: Mapping[int, list[int]], who: str, whom: str, hint: str = ""
) -> None:
    """Compare the arms of the replications that both have."""
    for number in (number for number in one if number in other):
        pairs = enumerate(zip(one[number], other[number], strict=False), 1)
        for t, (arm, another) in ((t, pair) for t, pair in pairs if pair[0] != pair[1]):
            raise Failure(
                f"on {described(offer)}, seed {SEED}, replication {number}, round {t}: {who} chose arm {arm} and "
                f"{whom} chose arm {another}{hint}"
            )


def _json_of(description: Any) -> str:
    return json.dumps(description, default=str)


def _global_generator() -> Any:
    """The state of NumPy's global generator."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 (it is the one that must not be used)
    return kind, as_numpy(keys).tobytes(), rest
