"""What a policy is: frozen hyper-parameters (`Policy`) that start a learner with state (`Learner`).

To write one, define a frozen dataclass with the method `learner`, which makes a `Learner`, and in that two methods on
arrays: `choose` says which arms to pull, `absorb` learns from their rewards. docs/architecture.md has a walk-through.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod, update_abstractmethods
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from adadim.core.arrays import Array, as_numpy, like
from adadim.core.checks import check_fields, instance_of, is_integer, shown
from adadim.core.codec import text_of
from adadim.core.display import html_table
from adadim.core.levels import Levels
from adadim.core.problem import NEVER_ARRIVES, Problem
from adadim.core.randomness import Purpose, Streams
from adadim.core.rows import Replications
from adadim.core.saving import write_learner
from adadim.core.state import TakenState, restore_state, take_state
from adadim.dimension import Dimension, PriorOnDim, dimension_of_arms, dimension_of_moments
from adadim.errors import (
    AdadimError,
    DecisionError,
    ForeignArmError,
    InvalidTypeError,
    InvalidValueError,
    NotSelectedError,
)
from adadim.policies.arguments import (
    checked_arm_numbers,
    checked_new_arms,
    checked_offer,
    checked_rewards,
    checked_rows,
    in_library,
)
from adadim.policies.assumptions import sets_lacking, warn_about_sets
from adadim.policies.player import Choice as Choice
from adadim.policies.player import Decision as Decision
from adadim.policies.player import Memo as Memo
from adadim.policies.player import OpenChoice, Player, choice_like, part_of

MEMO_TYPES = ("int64", "float64", "bool")  # of what a memo has


@dataclass(frozen=True)
class Policy(ABC):
    """Hyper-parameters of an algorithm; prints, compares and hashes by value.

    Examples
    --------
    >>> import adadim
    >>> adadim.LinUCB(dim=3) == adadim.LinUCB(dim=3), adadim.LinUCB(dim=3) == adadim.LinUCB(dim=4)
    (True, False)
    """

    uses_features: ClassVar[bool] = True
    """Whether it tells arms apart by their features, and not by their numbers alone."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):  # a class that has one is given none by `dataclass`
            cls.__repr__ = text_of  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        check_fields(self)

    def start(self, problem: Problem, seed: int = 0) -> Learner:
        """Fresh learners for every replication of `problem`, advancing in parallel."""
        if not isinstance(problem, Problem):
            raise InvalidTypeError(f"start needs an adadim.Problem, got {type(problem).__name__}")
        learner = _start(self, problem, seed)
        warn_about_sets(sets_lacking(type(self).__name__, learner.needs_sets, problem.sets))
        return learner

    @abstractmethod
    def learner(self, problem: Problem, streams: Streams) -> Learner:
        """Do the same as `start`, drawing from the streams given (a master hands each base its own)."""


AnyPolicy = Annotated[Policy, partial(instance_of, kind=Policy, wanted="a policy, or None")]


class Learner(Player):
    """State of a policy on R replications.

    `ask` gives a `Decision` and `tell` takes it back with its rewards; `select` and `update` are the short form for a
    loop that answers each decision before the next. `learn` takes logged pulls, which it did not decide. On a problem
    of (K, d) features arms and rewards are plain numbers (arrays of length one are taken too), on one of (R, K, d)
    features arrays of length R. `rows` (default: all) names the replications concerned, by position.

    The author of a policy defines `choose` and `absorb`, which the loop and the masters call.

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

    policy: Any = None
    """The policy that made it; None for one made without."""

    def __init_subclass__(cls, of: type[Policy] | None = None, **options: Any) -> None:
        """With `of` (deprecated: define `Policy.learner`) that policy makes its learners by calling this class."""
        super().__init_subclass__(**options)
        if of is not None:
            warnings.warn(
                f"class {cls.__name__}(..., of={of.__name__}) will not be understood by the next version: define "
                f"{of.__name__}.learner(self, problem, streams), which returns {cls.__name__}(self, problem, streams)",
                DeprecationWarning,
                stacklevel=2,
            )

            def learner(policy: Policy, problem: Problem, streams: Streams) -> Learner:
                instance = cls(policy, problem, streams)  # type: ignore
                instance.policy = policy
                return instance

            of.learner = learner  # type: ignore
            update_abstractmethods(of)

    def __init__(self, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self._asked = 0
        # Decisions of `ask` by number, and of `select`, that are not answered yet.
        self._open: dict[int, OpenChoice] = {}
        self._uncounted: list[int] = []  # those of `ask` that `add_pending` has to count before the next decision
        self._selected: list[OpenChoice] = []

    def ask(self, features: Any = None, *, allowed: Any = None, rows: Any = None) -> Decision:
        """Decide which arm to pull next in each replication. The decision can wait for its rewards.

        Until they come, `tell` or `forget` it; a linear learner counts it in its widths from the next decision on, so
        that decisions which wait side by side explore different arms. Its estimates wait for the rewards.

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
        self._uncounted.append(number)
        return Decision(self._number_or_array(arms), number, ids, memo)

    def tell(self, decision: Decision | int, rewards: Array) -> None:
        """Learn from the rewards of a decision, one for each replication that it concerns.

        The decision may also be given by its `id`.

        Examples
        --------
        >>> import adadim, numpy as np
        >>> learner = adadim.LinUCB().start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
        >>> first, second = learner.ask(), learner.ask()
        >>> learner.tell(second.id, 0.2)
        >>> learner.tell(first, 0.4)
        """
        number = self._open_number(decision, "tell")
        ids, arms, memo = self._in_library(self._open[number])
        rewards, rows = checked_rewards(self.problem, rewards, len(ids)), self._rows(ids)
        if number in self._uncounted:
            self.absorb(arms, rewards, rows, memo)
            self._uncounted.remove(number)
        else:
            self.resolve(arms, rewards, rows, memo)
        del self._open[number]

    def forget(self, decision: Decision | int) -> None:
        """Wait no longer for the rewards of a decision: the learner is as if it had never been asked for it.

        Its number and the random numbers that it took stay used.

        Examples
        --------
        >>> import adadim, numpy as np
        >>> learner = adadim.LinUCB().start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
        >>> first, second = learner.ask(), learner.ask()
        >>> learner.forget(first)  # it will never be answered
        >>> learner.tell(second, 0.2)
        >>> learner.describe()["open_decisions"]
        0
        """
        number = self._open_number(decision, "forget")
        if number in self._uncounted:
            self._uncounted.remove(number)
        else:  # the others are counted anew: subtracting this one would leave rounding behind
            self.clear_pending()
            self._uncounted = [other for other in self._open if other != number]
        del self._open[number]

    def open_decisions(self) -> np.ndarray[Any, Any]:
        """How many decisions of `ask` wait for their rewards, (R,)."""
        counts = np.zeros(len(self.problem), dtype=np.int64)
        for ids, _, _ in self._open.values():
            counts[ids] += 1
        return counts

    def select(self, features: Any = None, *, allowed: Any = None, rows: Any = None) -> Array:
        """Arm to pull next in each replication, as `ask` decides; `update` takes the rewards."""
        choice = self._choose(features, allowed, rows)
        if self._selected:  # selected again without an answer: what was chosen before is forgotten
            repeated = [(c, np.isin(c[0], choice[0])) for c in self._selected]
            self._selected = [_part_of_choice(c, ~again) for c, again in repeated if not again.all()]
        self._selected.append(choice)
        return self._number_or_array(choice[1])

    def update(self, arms: Array, rewards: Array, rows: Any = None) -> None:
        """Learn from the rewards of the arms that `select` chose, one per replication."""
        wanted = self._wanted(rows)
        count = len(wanted)
        arms, rewards = self._learnable(arms, count), checked_rewards(self.problem, rewards, count)
        parts, still_open = self._match_selected(wanted, arms, rewards)
        if not self.takes_any_arm:
            for pulled, _, (_, chosen, _) in parts:
                if pulled.tolist() != chosen.tolist():
                    raise ForeignArmError(
                        f"{type(self).__name__} learns only from the arms it chose: select() gave "
                        f"{as_numpy(chosen).tolist()}, update got {as_numpy(pulled).tolist()}"
                    )
        for pulled, rewarded, (ids, chosen, memo) in parts:
            rows = self._rows(ids)
            if not (self.takes_any_arm and memo and bool((pulled != chosen).any())):
                self.absorb(pulled, rewarded, rows, memo)
                continue
            for other, part, at in rows.split(as_numpy(pulled != chosen)):
                known = part_of(memo, at)
                known = self.memo_of_other(pulled[at], part, known) if other else known
                self.absorb(pulled[at], rewarded[at], part, known)
        self._selected = still_open

    def learn(self, arms: Array, rewards: Array) -> None:
        """Learn from logged pulls, which it did not decide.

        Parameters
        ----------
        arms, rewards : arrays (n,) for a single problem, (R,) or (R, n) for R replications
            One pull in each replication, or n of them in their order. Where features come with each round, `arms` are
            the features of the arms pulled: (n, d), or (R, n, d).

        Notes
        -----
        Counts, sums and, of `LinUCB`, means and widths are those of the data, whatever their order. Policies that learn
        their prior (`adadim.recommended`, `EvidenceLinUCB`) choose it after 1, 2, 4, ... rewards, by those so far: what
        `describe` says of it, and the next decisions, may depend on the order in between. `estimates()` of fixed arms
        does not, and neither does anything that an `adadim.Agent` shows.
        """
        if not self.takes_any_arm:
            raise ForeignArmError(
                f"{type(self).__name__} learns only from the arms it chose, so it cannot learn from logged pulls; "
                "adadim.recommended(problem) can"
            )
        if self.problem.contextual and not self.problem.disjoint:
            raise ForeignArmError(
                f"{type(self).__name__} cannot learn from logged features; adadim.recommended(problem) can"
            )
        logged = [in_library(self.problem, values, name) for values, name in ((arms, "arms"), (rewards, "rewards"))]
        if tuple(logged[0].shape) != tuple(logged[1].shape):
            raise InvalidValueError(
                f"arms and rewards must have one shape, got {tuple(logged[0].shape)} and {tuple(logged[1].shape)}"
            )
        columns = [a[None] if self.problem.single else a if a.ndim > 1 else a[:, None] for a in logged]
        for n in range(columns[0].shape[1]):
            pulled = self._learnable(columns[0][:, n], len(self.problem))
            earned = checked_rewards(self.problem, columns[1][:, n], len(self.problem))
            self.absorb(pulled, earned, self.everyone, {})

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
        problem, name = self.problem, type(self.policy or self).__name__
        if not self.takes_new_arms:
            raise InvalidValueError(f"{name} takes no new arms while it plays; adadim.recommended(problem) does")
        arrives = as_numpy(self.arrives) if problem.growing else problem.arrives
        room = np.flatnonzero((arrives == NEVER_ARRIVES).all(axis=0))
        added = checked_new_arms(problem, features, len(room))
        numbers = room[: added.shape[1]]
        at = like(numbers, problem.reference)
        self.features_there[:, at] = added
        self.arrives[:, at] = self.calendar.decided[:, None] + 1
        self.arms_added()
        return numbers

    def describe(self) -> Any:
        """State in words and numbers: a dict, or a list of one for each replication."""
        rows = self.descriptions()
        if self.takes_late_rewards:
            for row, waiting in zip(rows, self.open_decisions().tolist(), strict=True):
                row["open_decisions"] = waiting
        if self.problem.names is not None:  # the columns it learns in
            for row in rows:
                row["features"] = list(self.problem.names[: row.get("dim", self.problem.dim)])
        return rows[0] if self.problem.single else rows

    def _repr_html_(self) -> str:
        single = self.problem.single
        state = {name.replace("_", " "): value for name, value in self.describe().items()} if single else {}
        about = {"policy": repr(self.policy), **self.problem.html_rows()}
        return html_table(
            type(self).__name__, {**about, **{k: v for k, v in state.items() if k not in ("dim", "replication")}}
        )

    def dimension(self, levels: Levels = None, prior: PriorOnDim = "uniform", *, constant: bool = True) -> Dimension:
        """How many of the features matter, by all that the learner has learned from; see `adadim.dimension`.

        Of R replications the result has a first axis of length R. With `constant` the rewards may have a constant
        besides the features, whether the policy has one or not. Learners that keep pulls and rewards have it: the
        linear ones (`LinUCB`, `LinTS`, `TaperedLinUCB`, `EvidenceLinUCB`, `PrefixLinUCB`, `Greedy`), in contexts too if
        they learn in all features, and on fixed arms (NumPy) masters whose bases are linear and see the rewards as they
        are.

        Examples
        --------
        >>> import adadim
        >>> instance = adadim.instances.sphere(arms=60, dim=12, intrinsic_dim=4, horizon=400, replications=range(2))
        >>> result = adadim.simulate(adadim.EvidenceLinUCB(), instance).learner.dimension()
        >>> result.probabilities.shape, bool((result.probabilities[:, 3:6].sum(axis=1) > 0.8).all())
        ((2, 12), True)
        """
        sums = self.shifted_sums() if constant else self.context_sums() or self.pull_sums()
        if isinstance(sums, list):
            return dimension_of_moments(sums, levels, prior, single=self.problem.single, constant=constant)
        if sums is not None and not self.problem.contextual:
            return dimension_of_arms(self.problem.actions, *sums, levels, prior, constant=constant)
        name = type(self.policy or self).__name__
        raise InvalidTypeError(
            f"{name} does not keep the pulls and rewards that say how many features matter; log them and call "
            "adadim.dimension(features, rewards), or play adadim.recommended(problem)"
        )

    def certificate(self, features: Any = None, *, allowed: Any = None) -> Any:
        """What is certain of the regret so far; `adadim.Certified` has it, around any policy."""
        name = type(self.policy or self).__name__
        raise InvalidTypeError(
            f"{name} keeps no bound on its regret; a policy that keeps one, around any other, is in docs/guarantees.md "
            "(A certificate)"
        )

    def save(self, path: str | Path) -> None:
        """Write the learner to a file, which `adadim.load` reads; it then goes on bit for bit as this one would.

        The file is a zip archive of arrays (npz) and JSON, with a digest over both; reading it runs no code. It is
        written whole or not at all, and only if `adadim.load` can read it: a learner of your own must have all its
        attributes after ``__init__``.

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
        state = take_state(self)
        if self.policy is not None:
            try:
                restore_learner(self.policy, self.problem, state)
            except AdadimError as error:
                raise InvalidTypeError(f"{type(self).__name__} cannot be saved: {error}") from error
        write_learner(Path(path), self.policy, self.problem, state)

    def check_restored(self) -> None:
        """Refuse open decisions, read from a file, that `ask` and `select` of this learner cannot have made."""
        most = len(self.problem)
        arms_there = None if self.problem.contextual and not self.problem.disjoint else self.problem.arms
        for ids, arms, memo in (*self._open.values(), *self._selected):
            fits = _are_positions(ids, len(ids), most) and len(np.unique(ids)) == len(ids)
            fits = fits and _are_positions(arms, len(ids), arms_there)
            remembered = [as_numpy(values) for values in memo.values()]
            if not fits or any(v.shape[:1] != (len(ids),) or v.dtype.name not in MEMO_TYPES for v in remembered):
                raise InvalidValueError(f"an open decision of {type(self).__name__} has other replications or arms")
        if not set(self._uncounted) <= self._open.keys() or max(self._open, default=-1) >= self._asked:
            raise InvalidValueError(f"the open decisions of {type(self).__name__} have other numbers than were given")

    def has_open(self) -> bool:
        """Whether some decision of `ask` or `select` waits for its rewards."""
        return bool(self._open or self._selected)

    def answer_open(self) -> None:
        """Learn rewards of 0 of all open decisions: `adadim.load` tries on a copy whether that is possible."""
        for number, choice in self._open.items():
            ids, arms, memo = self._in_library(choice)
            learn = self.absorb if number in self._uncounted else self.resolve
            learn(arms, arms * 0.0, self._rows(ids), memo)
        for ids, arms, memo in map(self._in_library, self._selected):
            self.absorb(arms, arms * 0.0, self._rows(ids), memo)

    def __deepcopy__(self, memo: dict[int, Any]) -> Learner:
        return restore_learner(self.policy, self.problem, take_state(self))

    def __reduce__(self) -> Any:
        return restore_learner, (self.policy, self.problem, take_state(self))

    def _open_number(self, decision: Any, asked_by: str) -> int:
        if not isinstance(decision, Decision) and not is_integer(decision):
            raise InvalidTypeError(f"{asked_by} needs a decision that ask() gave, or its id, got {shown(decision)}")
        number = decision.number if isinstance(decision, Decision) else int(decision)
        if number not in self._open:
            raise DecisionError(f"decision {number} was answered already, or another learner made it")
        return number

    def _wanted(self, rows: Any) -> Replications:
        return self.everyone if rows is None else checked_rows(self.problem, rows)

    def _learnable(self, arms: Any, count: int) -> Array:
        checked = checked_arm_numbers(self.problem, arms, count)
        if self.problem.growing:
            arrives = as_numpy(self.arrives).min(axis=0)
            for arm in as_numpy(checked).tolist():
                if arrives[arm] == NEVER_ARRIVES:
                    raise InvalidValueError(f"arm {arm} is not there: it has not been added")
        self.check_arms(checked)
        return checked

    def _choose(self, features: Any, allowed: Any, rows: Any) -> OpenChoice:
        wanted = self._wanted(rows)
        if features is not None or allowed is not None or self.problem.contextual:
            if allowed is not None and self.no_allowed:
                raise InvalidValueError(self.no_allowed)
            wanted = wanted.with_offer(*checked_offer(self.problem, features, allowed, len(wanted)))
            if self.problem.growing and allowed is not None:
                self._check_some_available(wanted)
        if not self.takes_late_rewards and (self._open or self._selected):
            for ids, _, _ in (*self._open.values(), *self._selected):
                if len(both := np.intersect1d(ids, wanted.ids)):
                    raise DecisionError(
                        f"{type(self).__name__} makes one decision at a time, since the next depends on the reward of "
                        f"the last, and that of replication {self.problem.replications[both[0]]} is not known yet"
                    )
        if self._uncounted:
            for number in self._uncounted:
                ids, arms, memo = self._in_library(self._open[number])
                self.add_pending(arms, self._rows(ids), memo)
            self._uncounted.clear()
        arms, memo, *_ = self.choose(self.with_available_arms(wanted) if self.problem.growing else wanted)
        return wanted.ids, arms, memo

    def _check_some_available(self, rows: Replications) -> None:
        available = as_numpy(rows.of(self.arrives)) <= as_numpy(rows.of(self.calendar.decided))[:, None] + 1
        empty = np.flatnonzero(~(available & as_numpy(rows.allowed)).any(axis=1))
        if empty.size:
            raise InvalidValueError(f"allowed leaves no arm that has arrived (row {int(empty[0])})")

    def _match_selected(
        self, wanted: Replications, arms: Array, rewards: Array
    ) -> tuple[list[tuple[Array, Array, OpenChoice]], list[OpenChoice]]:
        """Arms, rewards and choice of each `select` that is answered for `wanted`; and the choices that stay open."""
        if len(self._selected) == 1 and self._selected[0][0] is wanted.ids:
            return [(arms, rewards, self._selected[0])], []
        order = {r: position for position, r in enumerate(wanted.ids.tolist())}
        parts, still_open = [], []
        for choice in map(self._in_library, self._selected):
            asked = np.isin(choice[0], wanted.ids)
            if asked.any():
                part = _part_of_choice(choice, asked)
                at = like([order.pop(r) for r in part[0].tolist()], wanted.positions)
                parts.append((arms[at], rewards[at], part))
            if not asked.all():
                still_open.append(_part_of_choice(choice, ~asked))
        for r in order:
            raise NotSelectedError(
                f"update before select: replication {self.problem.replications[r]} has no open decision; "
                "call select() first"
            )
        return parts, still_open

    def _in_library(self, choice: OpenChoice) -> OpenChoice:
        """A choice as arrays of the problem's library: one that was read from a file has NumPy's."""
        ids, arms, memo = choice
        arms, memo, *_ = choice_like(Choice(arms, memo), self.problem.reference)
        return ids, arms, memo

    def _rows(self, ids: np.ndarray[Any, Any]) -> Replications:
        everyone = self.everyone
        if ids is everyone.ids or np.array_equal(ids, everyone.ids):
            return everyone
        return Replications.some(ids, self.problem.reference)

    def _number_or_array(self, arms: Array) -> Any:
        return arms.item() if self.problem.single else arms


def restore_learner(policy: Policy | None, problem: Problem, state: TakenState) -> Learner:
    """A learner of `policy` on `problem` in the given state."""
    if policy is None:
        raise InvalidValueError("only a learner made by policy.start(problem) can be copied or saved")
    learner = _start(policy, problem, 0)
    restore_state(learner, state)
    return learner


def _start(policy: Policy, problem: Problem, seed: int) -> Learner:
    problem = problem.with_writable_arms()
    streams = Streams(seed, Purpose.POLICY, problem.replications, reference=problem.reference)
    return started(policy, problem, streams)


def started(policy: Policy, problem: Problem, streams: Streams) -> Learner:
    """The learner of a policy, which knows the policy that made it."""
    learner = policy.learner(problem, streams)
    learner.policy = policy
    return learner


def _are_positions(values: Array, count: int, most: int | None) -> bool:
    """Whether an array has `count` integers from 0 on, below `most` if there is such a number."""
    numbers = as_numpy(values)
    if numbers.shape != (count,) or numbers.dtype != np.int64:
        return False
    return bool(((numbers >= 0) & (numbers < (np.inf if most is None else most))).all())


def _part_of_choice(choice: OpenChoice, which: np.ndarray[Any, Any]) -> OpenChoice:
    ids, arms, memo = choice
    at = like(np.flatnonzero(which), arms)
    return ids[which], arms[at], part_of(memo, at)
