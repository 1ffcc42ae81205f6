"""What a policy is: frozen hyper-parameters (`Policy`) that start a learner with state (`Learner`).

To write one, define a frozen dataclass with the method `learner`, which makes a `Learner`, and in that two methods on
arrays: `choose` says which arms to pull, `absorb` learns from their rewards. docs/architecture.md has a walk-through.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from adadim.backend.arrays import Array, as_numpy, is_numpy, like, namespace, surely_all, zeros
from adadim.backend.clock import Clock
from adadim.backend.rows import Rows
from adadim.backend.state import State, restore_state, take_state
from adadim.backend.ties import Ties, argmax
from adadim.checks import shown
from adadim.dimension import Dimension, Levels, Prior, dimension_of_arms, dimension_of_moments
from adadim.errors import (
    DecisionError,
    DeviceError,
    ForeignArmError,
    InvalidTypeError,
    InvalidValueError,
    NotSelectedError,
)
from adadim.notebook import card
from adadim.policies.decisions import Choice, Decision, Memo, part_of_choice
from adadim.policies.inputs import (
    checked_arms,
    checked_new_arms,
    checked_offer,
    checked_rewards,
    checked_rows,
    in_library,
)
from adadim.policies.laws import Need, warn_about_sets
from adadim.posterior.moments import Moments
from adadim.problem import NEVER, Problem
from adadim.randomness import Draws, Purpose, Streams
from adadim.saving import write_learner

__all__ = ["Decision", "Learner", "Memo", "Policy", "pull_counts", "revive"]


@dataclass(frozen=True)
class Policy(ABC):
    """Hyper-parameters of an algorithm; prints, compares and hashes by value.

    Examples
    --------
    >>> import adadim
    >>> adadim.LinUCB(dim=3) == adadim.LinUCB(dim=3), adadim.LinUCB(dim=3) == adadim.LinUCB(dim=4)
    (True, False)
    """

    def start(self, problem: Problem, seed: int = 0) -> Learner:
        """Fresh learners for every replication of `problem`, advancing in lock step."""
        if not isinstance(problem, Problem):
            raise InvalidTypeError(f"start needs an adadim.Problem, got {type(problem).__name__}")
        learner = _started(self, problem, seed)
        warn_about_sets(type(self).__name__, learner.needs_sets, problem)
        return learner

    @abstractmethod
    def learner(self, problem: Problem, streams: Streams) -> Learner:
        """Do the same as `start`, drawing from the streams given (a master hands each base its own)."""


class Learner(ABC):
    """State of a policy on R replications.

    `ask` gives a `Decision` and `tell` takes it back with its rewards; `select` and `update` are the short form for a
    loop that answers each decision before the next. `learn` takes logged pulls that nobody asked for. On a problem of
    (K, d) features arms and rewards are plain numbers (arrays of length one are taken too), on one of (R, K, d)
    features arrays of length R. `rows` (default: all) names the replications concerned, by position.

    Whoever writes a policy defines `choose` and `absorb`; they are what the loop and the masters call.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> features = np.stack([np.eye(3), np.eye(3)])  # two replications
    >>> learner = adadim.UCB(ties="lowest").start(adadim.Problem(features, horizon=9, noise=0.1))
    >>> learner.select()
    array([0, 0])
    >>> learner.update([0, 0], [0.2, 0.4])
    >>> learner.select(rows=[1])  # only the second goes on
    array([1])
    """

    takes_any_arm = True
    """Whether it can learn from arms that it did not choose."""

    takes_late_rewards = True
    """Whether several decisions may be open at once, and be answered in any order."""

    no_allowed = ""
    """Why no arm may be left out in a round; empty if some may."""

    no_contexts = (
        "this policy knows arms by their number, which means nothing where features come with each round; use LinUCB "
        "or adadim.recommended(problem)"
    )
    """Why it cannot play where features come with each round; empty if it can."""

    no_disjoint = (
        "this policy learns one parameter for all arms: multiply arms and covariates out, "
        "ask(adadim.interactions(context, arms)) on Problem(arms=, dim=), or use LinUCB"
    )
    """Why it cannot play where each arm has a parameter of its own; empty if it can."""

    contexts_on_devices = False
    """Whether it can play with torch where features come with each round."""

    no_growing: str | None = None
    """Why it cannot play where arms arrive; by default for the reason that no arm may be left out."""

    takes_new_arms = False
    """Whether arms can be added that nobody knew of (`add_arms`); `arms_added` is then called."""

    needs_sets: Need = "any"
    """What the guarantee needs of the action sets, a key of `laws.NEEDS`; starting it elsewhere warns."""

    fixed_operations = False
    """Whether `choose` and `absorb` always do the same array operations: the data enter through values, indices and
    masks, never through shapes, loops or `if`. Rounds can then be recorded and replayed where a device can do that."""

    bytes_per_round = 0
    """Bytes that every round reads anew for each replication."""

    def __init__(self, problem: Problem, streams: Streams) -> None:
        if problem.contextual and self.no_contexts:
            raise InvalidValueError(self.no_contexts)
        if problem.contextual and not (is_numpy(problem.reference) or self.contexts_on_devices):
            what = "disjoint models are" if problem.disjoint else "where features come with each round this policy is"
            instead = "adadim.interactions(context, arms)" if problem.disjoint else "LinUCB"
            raise DeviceError(f"{what} computed with NumPy, not with torch; use {instead}")
        if problem.disjoint and self.no_disjoint:
            raise InvalidValueError(self.no_disjoint)
        if problem.growing and (reason := self.no_allowed if self.no_growing is None else self.no_growing):
            raise InvalidValueError(reason)
        self.problem, self.streams = problem, streams
        self.origin: Policy | None = None
        self.everyone = Rows.all(problem.reference)
        if problem.growing:
            # When each arm arrives, what round it is, and the features, to which arms are added in place.
            self.arrives = like(problem.arrives.copy(), problem.reference)
            self.calendar, self.features_there = Clock(problem.reference), problem.actions.base
        self._asked = 0
        # Decisions of `ask` by number, and of `select`, that are not answered yet.
        self._open: dict[int, Choice] = {}
        self._selected: list[Choice] = []

    @abstractmethod
    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        """Arms to pull in the replications of `rows`, and what `absorb` will have to know of this choice."""

    @abstractmethod
    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        """Learn from the rewards of arms, one for each replication of `rows`."""

    def arms_added(self) -> None:
        """Take note that the features of the problem have more arms."""
        return

    def present(self, rows: Rows) -> Rows:
        """The same rows in the round that begins, offered the arms that are there."""
        if not self.problem.growing:
            return rows
        t = self.calendar.decided
        there = rows.of(self.arrives) <= rows.of(t)[:, None] + 1
        self.calendar.tick(rows)
        if rows.allowed is not None:
            there = there & rows.allowed
        return rows if surely_all(there) else rows.offering(None, there)

    def sequence(self) -> Hashable:
        """Name of the array operations of the next round of all replications; None if the data decide which they are.

        Only learners that have several fixed sequences define it: rounds of equal name can be replayed.
        """
        return type(self).__name__ if self.fixed_operations else None

    def check_arms(self, arms: Array) -> None:
        """Raise unless it can learn from these arms, all of them arms of the problem."""
        return

    def pull_sums(self) -> tuple[Array, Array, Array] | None:
        """Pulls and sums of rewards of all arms, (R, K), and sums of squared rewards, (R,); None if it keeps none."""
        return None

    def context_sums(self) -> list[Moments] | None:
        """Sums over the features pulled in each replication, where they come with each round; None if it keeps none.

        The features may be multiplied by factors, which the answer of `dimension` does not depend on.
        """
        return None

    def descriptions(self) -> list[dict[str, Any]]:
        """State of each replication in words and numbers."""
        return [{"replication": r} for r in self.problem.replications]

    @property
    def xp(self) -> Any:
        """Array namespace of the problem."""
        return self.problem.xp

    @cached_property
    def draws(self) -> Draws:
        """Random numbers of this learner, in the library of the problem."""
        return self.streams.source(self.problem.draws_at_once)

    def zeros(self, *shape: int, integers: bool = False) -> Array:
        """Zeros of shape (R, *shape), for state."""
        return zeros(self.problem.reference, len(self.problem), *shape, integers=integers)

    def largest(self, scores: Array, rows: Rows, ties: Ties = "random") -> Array:
        """Position of the largest score in each row; ties are broken at random, by one draw per replication.

        Arms that are not allowed are left out; the scores are then those of all arms, in their order.
        """
        if rows.allowed is not None:
            xp = namespace(scores)
            scores = xp.where(rows.allowed, scores, xp.full_like(scores, -math.inf))
        return argmax(scores, self.draws.uniforms(rows) if ties == "random" else None)

    def ask(self, features: Any = None, *, allowed: Any = None, rows: Any = None) -> Decision:
        """Decide which arm to pull next in each replication. The decision can wait for its rewards.

        Parameters
        ----------
        features : array (K_t, d) or (R, K_t, d), optional
            Features of this round's arms, where they come with the round (`Problem.contextual`).
        allowed : bool array (K_t,) or (R, K_t), optional
            Which arms may be chosen; by default all.
        rows : int array, optional
            Positions of the replications concerned; by default all.
        """
        ids, arms, memo = choice = self._choose(features, allowed, rows)
        number, self._asked = self._asked, self._asked + 1
        self._open[number] = choice
        return Decision(self._shown(arms), number, ids, memo)

    def tell(self, decision: Decision, rewards: Array) -> None:
        """Learn from the rewards of a decision, one for each replication that it concerns."""
        if not isinstance(decision, Decision):
            raise InvalidTypeError(f"tell needs a decision that ask() gave, got {shown(decision)}")
        if decision.number not in self._open:
            raise DecisionError(f"decision {decision.number} was answered already, or another learner made it")
        ids, arms, memo = self._in_library(self._open[decision.number])
        self.absorb(arms, checked_rewards(self.problem, rewards, len(ids)), self._rows(ids), memo)
        del self._open[decision.number]

    def select(self, features: Any = None, *, allowed: Any = None, rows: Any = None) -> Array:
        """Arm to pull next in each replication, as `ask` decides; `update` takes the rewards."""
        choice = self._choose(features, allowed, rows)
        if self._selected:  # asked again without an answer: what was chosen before is forgotten
            both = [(c, np.isin(c[0], choice[0])) for c in self._selected]
            self._selected = [part_of_choice(c, ~again) for c, again in both if not again.all()]
        self._selected.append(choice)
        return self._shown(choice[1])

    def update(self, arms: Array, rewards: Array, rows: Any = None) -> None:
        """Learn from the rewards of the arms that `select` chose, one per replication."""
        wanted = self._wanted(rows)
        count = len(wanted)
        given, gained = self._learnable(arms, count), checked_rewards(self.problem, rewards, count)
        parts, left = self._answered(wanted, given, gained)
        if not self.takes_any_arm:
            for pulled, _, (_, chosen, _) in parts:
                if pulled.tolist() != chosen.tolist():
                    raise ForeignArmError(
                        f"{type(self).__name__} learns only from the arms it chose: select() gave "
                        f"{as_numpy(chosen).tolist()}, update got {as_numpy(pulled).tolist()}"
                    )
        for pulled, rewarded, (ids, _, memo) in parts:
            self.absorb(pulled, rewarded, self._rows(ids), memo)
        self._selected = left

    def learn(self, arms: Array, rewards: Array) -> None:
        """Learn from logged pulls that nobody asked for.

        Parameters
        ----------
        arms, rewards : arrays (n,) for a single problem, (R,) or (R, n) for R replications
            One pull in each replication, or n of them in their order. Where features come with each round, `arms` are
            the features of the arms pulled: (n, d), or (R, n, d).
        """
        if not self.takes_any_arm:
            raise ForeignArmError(
                f"{type(self).__name__} learns only from the arms it chose, so it cannot learn from logged pulls; "
                "LinUCB can, and so can adadim.recommended(problem)"
            )
        logged = [in_library(self.problem, values, name) for values, name in ((arms, "arms"), (rewards, "rewards"))]
        if tuple(logged[0].shape) != tuple(logged[1].shape):
            raise InvalidValueError(
                f"arms and rewards must have one shape, got {tuple(logged[0].shape)} and {tuple(logged[1].shape)}"
            )
        columns = [a[None] if self.problem.single else a if a.ndim > 1 else a[:, None] for a in logged]
        for n in range(columns[0].shape[1]):
            checked = self._learnable(columns[0][:, n], len(self.problem))
            gained = checked_rewards(self.problem, columns[1][:, n], len(self.problem))
            self.absorb(checked, gained, self.everyone, {})

    def add_arms(self, features: Any) -> np.ndarray[Any, Any]:
        """Add arms, which can be chosen from the next decision on.

        Parameters
        ----------
        features : array (n, d) or (R, n, d)
            Their features; what was learned so far holds for them.

        Returns
        -------
        int array (n,)
            Numbers of the new arms.

        Examples
        --------
        >>> import adadim, numpy as np
        >>> problem = adadim.Problem(np.eye(3)[:2], arms=10, horizon=9, noise=0.1)  # two arms, at most ten in the end
        >>> learner = adadim.LinUCB().start(problem)
        >>> learner.learn([0, 1, 0, 1], [0.2, 0.1, 0.2, 0.1])
        >>> learner.add_arms([[0.6, 0.0, 0.8]])
        array([2])
        >>> learner.select()  # the third feature has not been seen yet
        2
        """
        problem, name = self.problem, type(self.origin or self).__name__
        if not self.takes_new_arms:
            raise InvalidValueError(
                f"{name} takes no new arms while it plays; LinUCB, UCB, LinTS, EvidenceLinUCB and LinUCBPlusPlus do"
            )
        arrives = as_numpy(self.arrives) if problem.growing else problem.arrives
        room = np.flatnonzero((arrives == NEVER).all(axis=0))
        added = checked_new_arms(problem, features, len(room))
        numbers = room[: added.shape[1]]
        at = like(numbers, problem.reference)
        self.features_there[:, at] = added
        self.arrives[:, at] = self.calendar.decided[:, None] + 1
        self.arms_added()
        return numbers

    def describe(self) -> Any:
        """State in words and numbers, for people: a dict, or a list of one for each replication."""
        described = self.descriptions()
        if self.problem.names is not None:  # the columns it learns in
            for row in described:
                row["features"] = list(self.problem.names[: row.get("dim", self.problem.dim)])
        return described[0] if self.problem.single else described

    def _repr_html_(self) -> str:
        single = self.problem.single
        state = {name.replace("_", " "): value for name, value in self.describe().items()} if single else {}
        about = {"policy": repr(self.origin), **self.problem.in_short()}
        return card(
            type(self).__name__, {**about, **{k: v for k, v in state.items() if k not in ("dim", "replication")}}
        )

    def dimension(self, levels: Levels = None, prior: Prior = "uniform") -> Dimension:
        """How many of the features matter, by all that the learner has seen; see `adadim.dimension`.

        Of R replications the result has a first axis of length R. Learners that keep what they have seen have it: the
        linear ones (`LinUCB`, `LinTS`, `TaperedLinUCB`, `EvidenceLinUCB`, `PrefixLinUCB`, `Greedy`), in contexts too if
        they learn in all features, and on fixed arms (NumPy) masters whose bases are linear and see the rewards as they
        are.

        Examples
        --------
        >>> import adadim
        >>> instance = adadim.instances.sphere(arms=60, dim=12, intrinsic_dim=4, horizon=400, replications=range(2))
        >>> found = adadim.simulate(adadim.EvidenceLinUCB(), instance).learner.dimension()
        >>> found.probabilities.shape, bool((found.probabilities[:, 3:6].sum(axis=1) > 0.8).all())
        ((2, 12), True)
        """
        if self.problem.contextual:
            sums = self.context_sums()
            if sums is not None:
                return dimension_of_moments(sums, self.problem.single, levels, prior)
        elif (seen := self.pull_sums()) is not None:
            return dimension_of_arms(self.problem.actions, np.arange(self.problem.arms), *seen, levels, prior)
        name = type(self.origin or self).__name__
        raise InvalidTypeError(
            f"{name} does not keep the pulls and rewards that say how many features matter; log them and call "
            "adadim.dimension(features, rewards), or play LinUCB, TaperedLinUCB, EvidenceLinUCB or Greedy"
        )

    def save(self, path: str | Path) -> None:
        """Write the learner to a file, which `adadim.load` reads; it then goes on bit for bit as this one would.

        The file is a zip archive of arrays (npz) and JSON; reading it runs no code. It is written whole or not at all.

        Examples
        --------
        >>> import adadim, numpy as np, pathlib, tempfile
        >>> problem = adadim.Problem(np.eye(3), horizon=9, noise=0.1)
        >>> learner = adadim.LinUCB().start(problem)
        >>> learner.update(learner.select(), 0.5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     learner.save(pathlib.Path(folder, "learner.npz"))
        ...     restored = adadim.load(pathlib.Path(folder, "learner.npz"), problem)
        >>> restored.select() == learner.select()
        True
        """
        write_learner(Path(path), self.origin, self.problem, take_state(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> Learner:
        return revive(self.origin, self.problem, take_state(self))

    def __copy__(self) -> Learner:
        return revive(self.origin, self.problem, take_state(self))

    def __reduce__(self) -> Any:
        return revive, (self.origin, self.problem, take_state(self))

    def _wanted(self, rows: Any) -> Rows:
        return self.everyone if rows is None else checked_rows(self.problem, rows)

    def _learnable(self, arms: Any, count: int) -> Array:
        checked = checked_arms(self.problem, arms, count)
        if self.problem.growing:
            arrives = as_numpy(self.arrives).min(axis=0)
            for arm in as_numpy(checked).tolist():
                if arrives[arm] == NEVER:
                    raise InvalidValueError(f"arm {arm} is not there: nobody has added it")
        self.check_arms(checked)
        return checked

    def _choose(self, features: Any, allowed: Any, rows: Any) -> Choice:
        wanted = self._wanted(rows)
        if features is not None or allowed is not None or self.problem.contextual:
            if allowed is not None and self.no_allowed:
                raise InvalidValueError(self.no_allowed)
            wanted = wanted.offering(*checked_offer(self.problem, features, allowed, len(wanted)))
            if self.problem.growing and allowed is not None:
                self._check_there(wanted)
        if not self.takes_late_rewards and (self._open or self._selected):
            for ids, _, _ in (*self._open.values(), *self._selected):
                if len(both := np.intersect1d(ids, wanted.ids)):
                    raise DecisionError(
                        f"{type(self).__name__} makes one decision at a time, since the next depends on the reward of "
                        f"the last, and that of replication {self.problem.replications[both[0]]} is not known yet"
                    )
        return wanted.ids, *self.choose(self.present(wanted))

    def _check_there(self, rows: Rows) -> None:
        there = as_numpy(rows.of(self.arrives)) <= as_numpy(rows.of(self.calendar.decided))[:, None] + 1
        empty = np.flatnonzero(~(there & as_numpy(rows.allowed)).any(axis=1))
        if empty.size:
            raise InvalidValueError(f"allowed leaves no arm that has arrived (row {int(empty[0])})")

    def _answered(
        self, wanted: Rows, arms: Array, rewards: Array
    ) -> tuple[list[tuple[Array, Array, Choice]], list[Choice]]:
        """What `select` chose for `wanted`, each choice after its arms and rewards; and what stays open."""
        if len(self._selected) == 1 and self._selected[0][0] is wanted.ids:
            return [(arms, rewards, self._selected[0])], []
        order = {r: position for position, r in enumerate(wanted.ids.tolist())}
        parts, left = [], []
        for choice in map(self._in_library, self._selected):
            asked = np.isin(choice[0], wanted.ids)
            if asked.any():
                part = part_of_choice(choice, asked)
                at = like([order.pop(r) for r in part[0].tolist()], wanted.positions)
                parts.append((arms[at], rewards[at], part))
            if not asked.all():
                left.append(part_of_choice(choice, ~asked))
        for r in order:
            raise NotSelectedError(
                f"update before select: replication {self.problem.replications[r]} has no open decision; "
                "call select() first"
            )
        return parts, left

    def _in_library(self, choice: Choice) -> Choice:
        """A choice as arrays of the problem's library, which one that was read from a file is not yet."""
        ids, arms, memo = choice
        reference = self.problem.reference
        if is_numpy(arms) == is_numpy(reference):
            return choice
        return ids, like(arms, reference), {key: like(values, reference) for key, values in memo.items()}

    def _rows(self, ids: np.ndarray[Any, Any]) -> Rows:
        everyone = self.everyone
        if ids is everyone.ids or np.array_equal(ids, everyone.ids):
            return everyone
        return Rows.some(ids, self.problem.reference)

    def _shown(self, arms: Array) -> Any:
        return arms.item() if self.problem.single else arms


def pull_counts(counts: np.ndarray[Any, Any]) -> dict[str, int]:
    """What the numbers of pulls of all arms say, for `Learner.descriptions`."""
    return {
        "pulls": int(counts.sum()),
        "most_pulled_arm": int(counts.argmax()),
        "pulls_of_that_arm": int(counts.max()),
    }


def revive(policy: Policy | None, problem: Problem, state: State) -> Learner:
    """A learner of `policy` on `problem` in the given state."""
    if policy is None:
        raise InvalidValueError("only a learner made by policy.start(problem) can be copied or saved")
    learner = _started(policy, problem, 0)
    restore_state(learner, state)
    return learner


def _started(policy: Policy, problem: Problem, seed: int) -> Learner:
    problem = problem.to_grow()
    streams = Streams(seed, Purpose.POLICY, problem.replications, reference=problem.reference)
    learner = policy.learner(problem, streams)
    learner.origin = policy
    return learner
