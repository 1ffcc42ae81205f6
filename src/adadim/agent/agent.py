"""The agent: a bandit whose log is a file or in a database, so that processes can share it, stop and come back."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from adadim.agent import logged
from adadim.agent.certificate import certify
from adadim.agent.log import (
    AgentSettings,
    Arm,
    ArmState,
    Keep,
    Log,
    LoggedDecision,
    LogPosition,
    Reward,
    RewardReport,
    Round,
)
from adadim.agent.model import Model
from adadim.agent.policy import Decider, checked_explore, checked_policy
from adadim.agent.requests import (
    MEMORY_BY_DEFAULT,
    Asked,
    Catalogue,
    Coded,
    appended_settings,
    arms_of_frame,
    as_list,
    checked_catalogue_arms,
    checked_context,
    checked_contexts,
    checked_id,
    checked_moment,
    checked_name,
    checked_reports,
    checked_reward,
    checked_settings,
    checked_time,
    in_contexts,
    round_with_features,
    setting_differences,
)
from adadim.agent.rewards import correct, expire, is_overdue, tell_groups
from adadim.agent.statements import ALL, LEARNED_LOG, SIZE, LearnedRow
from adadim.agent.stored_sums import encode
from adadim.agent.stores import create_log, open_log
from adadim.agent.sums import Sums
from adadim.agent.tables import initial_rows
from adadim.core.arrays import FloatArray
from adadim.core.checks import flag, shown
from adadim.core.columns import Category, Column, Missing
from adadim.core.deprecated import renamed_method
from adadim.core.design import Features
from adadim.core.files import as_path
from adadim.core.frames import Costs, Frame, Offered, is_frame
from adadim.core.levels import Levels
from adadim.core.threads import one_thread
from adadim.dimension import Dimension, PriorOnDim, dimension_of_moments
from adadim.errors import AdadimError, AgentExistsError, DecisionError, FileError, InvalidValueError
from adadim.models.fading import MemoryName
from adadim.policies.arguments import checked_plugins
from adadim.policies.base import Policy
from adadim.policies.certificate import Certificate
from adadim.policies.certified import Certified

Inputs = Any  # a sequence of numbers, or values by their columns: a dict, a Series, a frame of one row
ColumnKind = type[float] | Category
# How many, their names, kinds by name, or a frame.
ColumnsGiven = int | Sequence[str] | Mapping[str, ColumnKind] | Frame

CLICKS_HINT = 'all rewards so far are 0 or 1: Agent.create(..., rewards="bernoulli") makes an agent for clicks'
MEMORY_STATUS = ("memory", "half_life", "half_life_since", "world_changed")
DESCRIBED_STATUS = (
    *("policy", "policy_version", "explore", "dim"),
    *MEMORY_STATUS,
    *("decisions", "rewards", "outstanding"),
)


@dataclass(frozen=True)
class AgentDecision(Asked):
    """A decision of an agent, which is on disk.

    Attributes
    ----------
    id : int
        What to give back with the reward; decisions are numbered 1, 2, 3, ...
    arm : str
        Name of the arm to play.
    probability : float
        Probability with which this arm was to be chosen among K arms: explore/K + (1 - explore) p, where p is the
        policy's own: 1 for policies that are not random (1/k if k arms tied) and 0 for the arms that they would not
        choose, 1/K for `Random`, an estimate from 1,001 draws for `LinTS`.
    policy : int
        Version of the policy that chose (see `Agent.replace_policy`).
    time : float
        When, in seconds since 1970.
    """

    id: int
    arm: str
    probability: float
    policy: int
    time: float


@dataclass(frozen=True)
class Slate(Asked):
    """Several arms to show together, best first; a decision for each is on disk.

    Attributes
    ----------
    id : int
        What to give back with the rewards of its arms: the id of its first decision.
    arms : tuple of str
        Names of the arms.
    decisions : tuple of AgentDecision
        Their decisions. The probability of each is that of being chosen among what those before it had left, so that
        their product is the probability of these arms in this order.
    """

    id: int
    arms: tuple[str, ...]
    decisions: tuple[AgentDecision, ...]
    several = True


class AskCall(NamedTuple):
    """The arguments of one call of `Agent.ask_many`, for `Agent.ask_and_tell`."""

    contexts: Sequence[Inputs | None]
    arms: Offered = None
    costs: Costs = None
    single: bool = False  # whether there is one context, and errors call it "context", as in `Agent.ask`
    slots: int | None = None


class TellCall(NamedTuple):
    """The argument of one call of `Agent.tell_many`, for `Agent.ask_and_tell`."""

    answers: Sequence[RewardReport]


class Agent:
    """A bandit whose log and model are stored in a file or a database.

    Every decision and every reward is a row of a log in SQLite, on disk before the call returns; the model is a
    function of that log. Rewards may come late, in any order, twice, or never: widths count a decision as soon as it is
    made, means wait for its reward. Several processes, and several threads
    of each, may use one file. Make one with `Agent.create`, come back to it with `Agent.open`, and close it or use it
    in a ``with`` block.

    Examples
    --------
    >>> import adadim, pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> agent = adadim.Agent.create(pathlib.Path(folder.name, "shop.db"), dim=2)
    >>> decision = agent.ask({"red": [1.0, 0.2], "blue": [1.0, 0.7]})
    >>> agent.tell(decision.id, reward=1.0)
    True
    >>> agent.tell(decision.id, reward=1.0)  # once more: harmless, and nothing new
    False
    >>> agent.status()["rewards"]
    1
    >>> agent.close()
    >>> folder.cleanup()
    """

    def __init__(self, log: Log, plugins: Mapping[str, type[Policy]] | None, clock: Callable[[], float]) -> None:
        # Internal: callers use Agent.create and Agent.open.
        self._log, self._clock, self._lock = log, clock, threading.RLock()
        self._place: LogPosition | None = None  # that of the log as of the last refresh
        self._is_unfinished = False  # whether an exception may have left in memory what the log does not say
        self._model, self._catalogue = Model(log), Catalogue(log)
        self._decider = Decider(log, self._model, checked_plugins(plugins))
        self._refresh()

    # Creating, opening, closing

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        name: str | None = None,
        dim: int | None = None,
        context: ColumnsGiven | None = None,
        arm: ColumnsGiven | None = None,
        features: Features | None = None,
        missing: Missing = "error",
        policy: Policy | None = None,
        explore: float | None = None,
        levels: Levels = None,
        memory: MemoryName = MEMORY_BY_DEFAULT,
        seed: int = 0,
        noise: float | None = None,
        arms: int = 1000,
        rewards: str = "gaussian",
        expire_after: float | None = None,
        expired_reward: float | None = None,
        keep: Keep = "all",
        plugins: Mapping[str, type[Policy]] | None = None,
        clock: Callable[[], float] = time.time,
        exist_ok: bool = False,
    ) -> Agent:
        """Make a new agent in a file that does not exist yet, or in a database.

        It takes features that the caller has made, `dim` numbers for each arm; or it makes them itself, of a context
        and of what an arm is like.

        Parameters
        ----------
        path : path or URL
            The file; or ``"postgresql://user@host/db"``, a database that processes on several machines share.
        name : str, optional
            Which agent of a database; the URL may also end in ``#name``.
        dim : int, optional
            Number of features d that come ready-made, those of the context included; the most basic come first.
        context, arm : int, names, dict or frame, optional
            Instead of `dim`: how many numbers a context has and how many an arm has; what they are called; or what each
            column holds, ``{"hour": float, "device": adadim.Category(["phone", "desktop"])}``. Of a pandas or polars
            frame the columns are taken, as numbers or, if they hold texts or are categorical, as categories.
        missing : {"error", "indicator"}
            What happens to values that are missing (None or NaN) in these columns: they are refused; or each column has
            a further one that is 1 where it has no value, and a number counts as 0 there. A `Category` can say the
            second for itself.
        features : Features, optional
            What features are made of both; by default a constant, the arm, the context and all their products.
        policy : Policy, optional
            What decides; by default `adadim.recommended`. It must take late rewards in any order and features that come
            with each round: `EvidenceLinUCB`, `TaperedLinUCB`, `LinUCB`, `LinTS`, `Greedy` and `Random` do.
        explore : float, optional
            Share of decisions that are drawn uniformly among the arms offered, whatever the policy says; by default 0.
            With one, every arm has a known probability, and the log can say what other policies would have earned
            (`adadim.evaluate`). It costs that share of the difference between the policy's choices and random ones.
            `set_explore` changes it.
        levels : dict or list, optional
            Names for groups of leading features, as in `adadim.dimension`. Where the agent makes its features, they are
            by default "arm", "context", "products" and "own".
        memory : float, "auto" or None
            Half-life in decisions, for rewards that drift: what a decision taught counts half after so many further
            ones. With "auto", the default up to 1,000 features, the agent finds it: of several half-lives, for ever
            among them, the longest that predicts the rewards about as well as the best; `describe` says which is in
            use, and since which decision. With None, the default beyond, it forgets nothing. Whatever the policy, it is
            the agent that forgets. The weights are exact, but no theorem of the library covers a model that forgets.
        seed : int
            Decision n draws from a random stream of (seed, n), whichever process makes it; in a database, where several
            may decide at once, from one of (seed, m), where m is n unless another process decided at the same time.
        noise : float, optional
            Standard deviation of the reward's noise, for policies that need it.
        arms : int
            Most arms in a round; more are refused. Confidence radii grow with the root of its logarithm.
        rewards : {"gaussian", "bernoulli"}
            What rewards are. "bernoulli": clicks, 0 or 1, True or False, or shares in [0, 1], and nothing else; the
            model is then a logistic one, `estimate` gives probabilities and costs of arms are in units of probability.
            See docs/clicks.md.
        expire_after : float, optional
            Seconds after which a decision no longer waits for its reward. Until its reward comes, a decision counts in
            the widths, so that its arm is not asked for again and again; one that expires without a reward counts no
            longer. By default decisions wait, and count, for ever: give it where some rewards never come.
        expired_reward : float, optional
            The reward that such a decision is given, 0 for clicks that did not come, say. By default none.
        keep : {"all", "chosen"}
            Of arms that come with their features: keep those of all arms that were offered, which evaluation needs,
            or only of the one chosen. A decision over the catalogue refers to its version, which has all features.
        plugins : mapping, optional
            Policy classes of your own by name, if `policy` is one.
        clock : function
            Where the time comes from, in seconds since 1970.
        exist_ok : bool
            Open the agent if it exists already, so that a program can be run again. Its settings must be these, also
            where they are defaults; of `memory`, and of `policy`, `explore`, `levels` and `noise`, which can be
            replaced, only those that are given are compared: an agent keeps the memory that it was made with.

        Examples
        --------
        >>> import adadim, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "shop.db")
        >>> for run in range(2):
        ...     with adadim.Agent.create(path, dim=1, exist_ok=True) as agent:
        ...         agent.ask({"a": [1.0], "b": [2.0]}).id
        1
        2
        >>> folder.cleanup()
        """
        exist_ok, plugins = flag(exist_ok, "exist_ok"), checked_plugins(plugins)
        settings = checked_settings(
            dim, context, arm, features, arms, seed, memory, expire_after, expired_reward, keep, missing, rewards
        )
        row = checked_policy(policy, levels, noise, 0.0 if explore is None else explore, settings, plugins)
        now = checked_time(clock)
        rows = initial_rows(now, settings, row, encode(Sums.empty(settings.dim, rewards=settings.rewards)))
        try:
            create_log(path, name, rows, {"policies": 1})
        except AgentExistsError:
            if not exist_ok:
                raise
            agent = cls.open(path, name=name, plugins=plugins, clock=clock)
            try:
                named = None if levels is None or row.levels is None else json.loads(row.levels)
                changeable = {"policy": policy, "explore": explore, "levels": named, "noise": row.noise}
                if memory is MEMORY_BY_DEFAULT:
                    settings = replace(settings, memory=agent._log.settings.memory)
                agent._check_settings(settings, changeable)
            except BaseException:
                agent.close()
                raise
            return agent
        return cls.open(path, name=name, plugins=plugins, clock=clock)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        name: str | None = None,
        plugins: Mapping[str, type[Policy]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Agent:
        """Come back to an agent that `create` made, with `name`, `plugins` and `clock` as there.

        A file of an earlier version is migrated.
        """
        log = open_log(path, name)
        try:
            return cls(log, plugins, clock)
        except BaseException:
            log.close()
            raise

    def close(self) -> None:
        """Write the model to the log, so that the next opening is fast, and close it; calling it twice is harmless."""
        with self._lock:
            with suppress(AdadimError), self._log.transaction():
                self._refresh_in_transaction()
                self._model.write_snapshot_if_due(rows=1)
            self._decider.close()
            self._model.close()
            self._log.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Agent {self.path}: {self.policy}>"

    @property
    def path(self) -> Path | str:
        """The file, or the address in a database, without a password."""
        return self._log.path

    @property
    def dim(self) -> int:
        """Number of features."""
        return self._log.settings.dim

    @property
    def features(self) -> Features | None:
        """What features are made of; None where they come ready-made."""
        design = self._log.settings.design
        return None if design is None else design.features

    @property
    def context_columns(self) -> dict[str, ColumnKind] | None:
        """The columns of a context, `float` or a `Category` by name; None where features come ready-made."""
        design = self._log.settings.design
        return None if design is None else _kinds(design.context_columns)

    @property
    def arm_columns(self) -> dict[str, ColumnKind] | None:
        """The columns of an arm, `float` or a `Category` by name; None where features come ready-made."""
        design = self._log.settings.design
        return None if design is None else _kinds(design.arm_columns)

    @property
    def columns(self) -> list[str] | None:
        """Names of the features that the agent makes; None where they come ready-made."""
        design = self._log.settings.design
        return None if design is None else list(design.columns)

    @property
    def policy(self) -> Policy:
        """What decides."""
        return self._decider.policy

    @property
    def explore(self) -> float:
        """Share of decisions that are drawn uniformly among the arms offered."""
        return self._decider.explore

    @property
    def levels(self) -> dict[str, int] | None:
        """Names of groups of leading features, and the end of each."""
        return None if self._decider.levels is None else dict(self._decider.levels)

    # Asking and telling

    @overload
    def ask(
        self, arms: Offered = None, context: Inputs | None = None, *, costs: Costs = None, slots: None = None
    ) -> AgentDecision: ...

    @overload
    def ask(self, arms: Offered = None, context: Inputs | None = None, *, costs: Costs = None, slots: int) -> Slate: ...

    def ask(
        self,
        arms: Offered = None,
        context: Inputs | None = None,
        *,
        costs: Costs = None,
        slots: int | None = None,
    ) -> AgentDecision | Slate:
        """Choose an arm, or several to show together. What was decided is on disk when this returns.

        Parameters
        ----------
        arms : dict, names or frame, optional
            This round's arms by name with their features, or a pandas frame of them whose index has the names; or names
            of arms of the catalogue; by default all of the catalogue that are active.
        context : sequence of numbers, optional
            Features of the situation, the same for every arm. An agent that makes its features multiplies them with
            those of the arms; it also takes values by the names of columns, in any order: a dict, a Series of pandas or
            a frame of one row. A sequence has them in the order of `context_columns`. Ready-made features have them
            before each arm's own, so their number and that of an arm add up to `dim`. In a linear model they then shift
            all arms alike: where the situation changes which arm is best, give products of both among the arms'
            features.
        costs : dict, optional
            What choosing an arm costs, in units of the reward; it is subtracted from its score, and the model learns
            the reward itself. Arms of the catalogue have theirs from `set_arm`.
        slots : int, optional
            How many arms to choose, each another one: a `Slate` of the best by the policy's scores, in their order. A
            policy that draws its scores draws them for each slot. Each slot is a decision with a reward of its own, and
            all count in the widths from now on.

        Examples
        --------
        >>> import adadim, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with adadim.Agent.create(pathlib.Path(folder.name, "a.db"), dim=2) as agent:
        ...     slate = agent.ask({"red": [1.0, 0.2], "blue": [0.3, 1.0], "grey": [0.1, 0.1]}, slots=2)
        ...     agent.tell(slate.id, {slate.arms[1]: 1.0}), agent.status()["outstanding"]
        (True, 1)
        >>> folder.cleanup()
        """
        with self._lock, one_thread:
            now = self._now()
            rounds = self._rounds(arms, [context], costs, now, single=True, slots=slots)
            results: list[AgentDecision | Slate] = self._write(rounds, [], now)[0]
            return results[0]

    @overload
    def ask_many(
        self, contexts: Iterable[Inputs | None], arms: Offered = None, *, costs: Costs = None, slots: None = None
    ) -> list[AgentDecision]: ...

    @overload
    def ask_many(
        self, contexts: Iterable[Inputs | None], arms: Offered = None, *, costs: Costs = None, slots: int
    ) -> list[Slate]: ...

    def ask_many(
        self,
        contexts: Iterable[Inputs | None] | Frame,
        arms: Offered = None,
        *,
        costs: Costs = None,
        slots: int | None = None,
    ) -> list[AgentDecision] | list[Slate]:
        """Choose an arm for each of many contexts, all or none, say for a batch of users; on disk when this returns.

        The decisions are those that `ask` would make one after the other, each counting the ones before it. They take a
        fraction of the time, since they are written in one transaction.

        Parameters
        ----------
        contexts : sequence or frame
            A context for each decision, as in `ask`; all must have as many numbers. A pandas or polars frame has a row
            for each decision, and a column for each of the context. Where the arms have all `dim` features themselves,
            each is None: ``[None] * 5`` asks five times.
        arms, costs, slots : optional
            As in `ask`, the same for every decision.

        Examples
        --------
        >>> import adadim, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with adadim.Agent.create(pathlib.Path(folder.name, "a.db"), dim=3) as agent:
        ...     agent.set_arms({"red": [1.0, 0.0], "blue": [0.0, 1.0]})
        ...     decisions = agent.ask_many([[0.5], [0.7], [0.2]])
        >>> [decision.id for decision in decisions], sorted({decision.arm for decision in decisions})
        ([1, 2, 3], ['blue', 'red'])
        >>> folder.cleanup()
        """
        frame: Any = contexts if is_frame(contexts) else None
        rows = None if isinstance(contexts, Mapping) or frame is not None else as_list(contexts)
        if rows == [] or (frame is not None and not len(frame)):
            return []
        with self._lock, one_thread:
            now = self._now()
            contexts = contexts if rows is None or isinstance(contexts, np.ndarray) else rows  # it may be an iterator
            return self._write(self._rounds(arms, contexts, costs, now, slots=slots), [], now)[0]

    def tell(self, id: int | AgentDecision | Slate, reward: float | Mapping[str, float]) -> bool:
        """Tell what a decision earned, by its id or the decision itself; on disk when this returns. Gives whether new.

        A reward is a number; True is 1 and False is 0, say for a click. Telling the same again is harmless; another
        reward for the same decision is refused (see `correct`). Of a slate, give rewards by arm, of some of its arms or
        all: all of them are written or none. A number is the reward of the one decision that has the id.
        """
        return self.tell_many([(id, reward)]) > 0

    def tell_many(
        self,
        answers: Mapping[int, float | Mapping[str, float]]
        | Iterable[tuple[int | AgentDecision | Slate, float | Mapping[str, float]]],
    ) -> int:
        """Tell what many decisions earned, rewards by id or pairs of both, all or none. Gives how many were new.

        A decision may be given instead of its id. The reward of a slate is a dict, as in `tell`.

        Examples
        --------
        >>> import adadim, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with adadim.Agent.create(pathlib.Path(folder.name, "a.db"), dim=1) as agent:
        ...     ids = [agent.ask({"a": [1.0], "b": [2.0]}).id for _ in range(3)]
        ...     agent.tell_many(dict.fromkeys(ids, 0.5)), agent.tell_many(dict.fromkeys(ids, 0.5))
        (3, 0)
        >>> folder.cleanup()
        """
        reports = checked_reports(answers, self._log.settings.rewards)
        with self._lock:
            now = self._now()
            with self._log.transaction():
                (result,) = self._tell([reports], now)
        if isinstance(result, DecisionError):
            raise result
        return result

    def ask_and_tell(self, calls: Sequence[AskCall | TellCall]) -> list[list[Any] | int | Exception]:
        """Ask and tell for several callers at the same time, in one transaction; for a service.

        Gives for each call what `ask_many` or `tell_many` would, or the error that it alone has; all are on disk when
        this returns. The calls are concurrent: no decision counts a reward that is reported here.

        Examples
        --------
        >>> import adadim, pathlib, tempfile
        >>> from adadim.agent import AskCall, TellCall
        >>> folder = tempfile.TemporaryDirectory()
        >>> with adadim.Agent.create(pathlib.Path(folder.name, "a.db"), dim=1) as agent:
        ...     first = agent.ask({"a": [1.0], "b": [2.0]})
        ...     made, told, refused = agent.ask_and_tell(
        ...         [AskCall([None], {"a": [1.0]}), TellCall([(first.id, 0.5)]), TellCall([(9, 1.0)])]
        ...     )
        >>> made[0].id, told, refused
        (2, 1, UnknownDecisionError('there is no decision 9; the last one is 2'))
        >>> folder.cleanup()
        """
        try:
            return self._process_calls(calls)
        except FileError as error:
            return [error for _ in calls]
        except Exception as error:
            if len(calls) == 1:
                return [error]
            return [self.ask_and_tell([call])[0] for call in calls]  # so that only the call at fault fails

    def _process_calls(self, calls: Sequence[AskCall | TellCall]) -> list[list[Any] | int | Exception]:
        results: dict[int, list[Any] | int | Exception] = {}
        rounds: dict[int, list[Round]] = {}
        reports: dict[int, list[RewardReport]] = {}
        with self._lock, one_thread:
            now = self._now()
            if any(isinstance(call, AskCall) for call in calls):
                self._refresh(now)
            for at, call in enumerate(calls):
                try:
                    if isinstance(call, TellCall):
                        reports[at] = checked_reports(call.answers, self._log.settings.rewards)
                    elif len(call.contexts):
                        rounds[at] = self._rounds(
                            call.arms, call.contexts, call.costs, single=call.single, fresh=True, slots=call.slots
                        )
                    else:
                        results[at] = []
                except AdadimError as error:
                    results[at] = error
            every_round = [one for part in rounds.values() for one in part]
            decided, tell_results = self._write(every_round, list(reports.values()), now)
        results.update(zip(reports, tell_results, strict=True))
        decisions = iter(decided)
        results.update((at, [next(decisions) for _ in part]) for at, part in rounds.items())
        return [results[at] for at in range(len(calls))]

    def refresh(self) -> float:
        """Learn from the rewards that all processes have reported, so that the next decision need not wait.

        Otherwise the next decision learns from them first, which takes a few factorisations of a (d, d) matrix. Gives
        in how many seconds to call this again, 0 if the learner is up to date or without `enable_background_refresh`.
        """
        with self._lock:
            with self._log.transaction(write=False):
                self._refresh_in_transaction()
                self._model.work_ahead()
            return self._decider.refresh_learner(self._next_number)

    @property
    def is_behind(self) -> bool:
        """Whether a decision now would not use all known rewards, because of `enable_background_refresh`."""
        with self._lock:
            return self._decider.is_behind(self._next_number)

    def enable_background_refresh(self) -> None:
        """From now on, let `refresh` work in a thread of its own, if that takes longer than a decision.

        Decisions that are made meanwhile use earlier rewards, and count all decisions. This is for a service, which
        calls `refresh` after each reward. Without it, every decision uses all rewards that were reported before.
        """
        with self._lock:
            self._decider.enable_background_refresh()
            self._model.enable_background_fits()

    catch_up = renamed_method("catch_up", "refresh")
    work_behind = renamed_method("work_behind", "enable_background_refresh")

    def correct(self, id: int | AgentDecision, reward: float) -> bool:
        """Change what a decision earned, or tell it after it expired. Gives whether this changed anything.

        The log keeps both rewards; the model is as if only this one had been reported.
        """
        number, reward = checked_id(id), checked_reward(reward, rewards=self._log.settings.rewards)
        with self._lock, self._log.transaction():
            return correct(self._log, number, reward, self._now())

    def learn(self, log: Any) -> int:
        """Learn from what another system decided and earned, all or none of it. Gives how many rows were learned.

        They are 0 if the same log was learned before.

        Parameters
        ----------
        log : frame, path, records or arrays
            One row for each decision: a polars or pandas DataFrame; a .parquet, .csv or .ndjson file; a sequence of
            dicts; or a pair of arrays, features (n, d) and rewards (n,). Columns: `reward`; what the features are made
            of; and, if known, `arm` (its name), `probability` and `time` (seconds since 1970). Features are made of the
            agent's own columns (`context_columns` and `arm_columns`), as in a decision; where the log has none of the
            arm's, of the arm of the catalogue that has the name. Or they are ready-made: `features`, a list of `dim`
            numbers, or `x1`, `x2`, ... up to `dim`, a number each. Other columns are ignored. What `export` writes can
            be read; rows without a reward are left out.

        Examples
        --------
        >>> import adadim, pathlib, tempfile
        >>> import polars as pl
        >>> past = pl.DataFrame({"hour": [9, 13, 20], "price": [3.0, 2.5, 3.0], "reward": [0, 1, 1]})
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "a.db")
        >>> with adadim.Agent.create(path, context=["hour"], arm=["price"]) as agent:
        ...     agent.learn(past)
        3
        >>> folder.cleanup()
        """
        with self._lock:
            self._refresh()  # there may be more features by now
            settings, arms = self._log.settings, dict(self._catalogue.arms)
        rows = logged.read_logged_rows(log, settings, arms)
        for at, reward in enumerate(rows.rewards, 1):
            checked_reward(reward, f"reward of row {at}", settings.rewards)
        with self._lock, self._log.transaction():
            now, first = self._now(), self._log.place().number + 1
            digest = rows.digest()
            if self._log.select(LEARNED_LOG, digest):
                return 0
            decisions, rewards = [], []
            for number, (features, reward, arm, probability, time, new) in enumerate(zip(*rows, strict=True), first):
                time = now if time is None else time
                decisions.append(LoggedDecision(number, time, arm, features, probability, None, None, unlisted=new))
                rewards.append(Reward(number, reward))
            self._log.append([LearnedRow(digest, now, len(rewards)), *decisions, *rewards], now)
            return len(rewards)

    # The catalogue

    @property
    def arms(self) -> dict[str, Arm]:
        """Arms of the catalogue that are not retired, by name."""
        with self._lock:
            self._refresh()
            arms, design = self._catalogue.not_retired(), self._log.settings.design
        if design is None or not arms:
            return arms
        numbers = np.array([arm.features for arm in arms.values()])
        columns = design.arm_coding.decode(numbers, [arm.unlisted for arm in arms.values()])
        rows = zip(*columns.values(), strict=True)
        return {
            name: replace(arm, values=dict(zip(columns, row, strict=True)))
            for (name, arm), row in zip(arms.items(), rows, strict=True)
        }

    def set_arm(self, name: str, features: Inputs, *, cost: float = 0.0) -> None:
        """Add an arm to the catalogue, or change the features and cost of one; it may be chosen from now on.

        Its features are `dim` numbers, or fewer if the rest come as context; all arms have as many. Where the agent
        makes features, they are the values of the arm in the order of `arm_columns`, or by the names of columns, as a
        context in `ask`. The cost is in units of the reward. Past decisions keep the features they were made with.
        """
        self.set_arms({checked_name(name): features}, costs={name: cost})

    def set_arms(
        self, arms: Mapping[str, Inputs] | Frame, *, name: str | None = None, costs: Costs | str = None
    ) -> None:
        """Add or change many arms, all or none.

        Parameters
        ----------
        arms : dict or frame
            Features by the name of the arm, as in `set_arm`; or a pandas or polars frame with a row for each arm and
            the columns of an arm.
        name : str, optional
            The column of a frame that has the names of the arms; by default they are the index of a pandas frame. Whole
            numbers are turned into texts.
        costs : dict or str, optional
            Costs by the name of the arm, or the column of a frame that has them.

        Examples
        --------
        >>> import adadim, pathlib, tempfile
        >>> import polars as pl
        >>> articles = pl.DataFrame({"sku": ["s-1", "s-2"], "price": [3.5, 9.0], "kind": ["shoe", "hat"]})
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "a.db")
        >>> with adadim.Agent.create(path, context=["hour"], arm=articles.drop("sku")) as agent:
        ...     agent.set_arms(articles, name="sku")
        ...     agent.arms["s-2"].values
        {'price': 9.0, 'kind': 'hat'}
        >>> folder.cleanup()
        """
        with self._lock:
            if self._log.settings.design is not None:
                self._refresh()  # arms may have more features by now
            checked = checked_catalogue_arms(arms, costs, self._log.settings, name)
            with self._log.transaction():
                self._catalogue.set_arms(checked, self._now())

    def mask_arm(self, name: str) -> None:
        """Leave an arm out until `unmask_arm`, while it is out of stock, say."""
        self._change_arm(name, "masked")

    def unmask_arm(self, name: str) -> None:
        """Let an arm be chosen again."""
        self._change_arm(name, "active")

    def retire_arm(self, name: str) -> None:
        """Take an arm out of the catalogue. What was learned from it stays; rewards still outstanding are welcome."""
        self._change_arm(name, "retired")

    # Reports

    def estimate(self, arms: Offered = None, context: Inputs | None = None) -> dict[str, tuple[float, float]]:
        """Mean reward of arms, given as in `ask`, as the model sees it now, and the standard deviation of the estimate.

        Both are by the decisions that have a reward. The second number is sigma sqrt(x^T V^-1 x), so that mean plus or
        minus twice it is an interval of about 95 % if the model holds; sigma is the noise that was given, or estimated
        from the residuals, and infinite before there is any reward. Of clicks (``rewards="bernoulli"``) the first is a
        probability, and mean plus or minus twice the second is in [0, 1]. Costs do not enter. Under `Random`, which
        learns nothing, the recommended policy's model answers.
        """
        with self._lock:
            return self._estimate(self._rounds(arms, [context], None, single=True)[0])

    def estimate_on_average(self, asked: Round, contexts: FloatArray) -> dict[str, tuple[float, float]]:
        """`estimate` for the arms of a round of the log, on average over contexts (n, c); for a live page.

        A round of the catalogue stands for all arms that are active now. Features are linear in the context, so the
        average is the estimate in the mean context; of clicks, which are not linear, only nearly.
        """
        with self._lock:
            self._refresh()
            context = contexts.mean(axis=0) if len(contexts) else asked.context
            if asked.catalogue is not None and any(arm.state == "active" for arm in self._catalogue.arms.values()):
                return self._estimate(self._catalogue.round(None, Coded(context), None))
            return self._estimate(self._with_current_design(replace(asked, context=context)))

    def _estimate(self, asked: Round) -> dict[str, tuple[float, float]]:
        self._is_unfinished = True
        means, deviations = self._decider.estimates(asked.features, self._next_number)
        self._is_unfinished = False
        return dict(zip(asked.names, zip(means.tolist(), deviations.tolist(), strict=True), strict=True))

    def status(self) -> dict[str, Any]:
        """The state of the agent in numbers.

        `decisions` were made by the agent and `rewards` of them are known; `outstanding` wait for theirs and `expired`
        waited too long. `learned` came from other systems. `compacted` is the last decision that may have been folded.
        `half_life` is the one in use, in decisions, None where nothing is forgotten; with ``memory="auto"`` it has been
        in use since decision `half_life_since`, and `world_changed` is the decision at which the world seemed to change
        for the last time: rewards were predicted so much better without those of long ago that the half-life fell.
        """
        with self._lock:
            self._refresh(self._now())
            sums, place, settings = self._model.sums, self._model.place, self._log.settings
            with self._log.transaction(write=False):
                expired, ((waiting, size),) = self._log.place().expired, self._log.select(SIZE)
                (folded,) = self._log.select(ALL["folded"])
            arms = Counter(arm.state for arm in self._catalogue.arms.values())
            return {
                "path": str(self.path),
                "decisions": place.number - sums.learned,
                "rewards": sums.answered,
                "outstanding": waiting,
                "expired": expired,
                "learned": sums.learned,
                "compacted": folded.upto,
                "arms": arms["active"],
                "masked": arms["masked"],
                "retired": arms["retired"],
                "policy": repr(self.policy),
                "policy_version": self._decider.version,
                "explore": self.explore,
                "dim": settings.dim,
                "memory": settings.memory,
                **self._memory_status(),
                "bytes": size,
            }

    def _memory_status(self) -> dict[str, Any]:
        bank = self._model.bank
        return {
            "half_life": self._model.half_life,
            "half_life_since": 0 if bank is None else bank.since,
            "world_changed": None if bank is None else bank.world_changed,
        }

    def dimension(self, levels: Levels = None, prior: PriorOnDim = "uniform", *, constant: bool = True) -> Dimension:
        """How many of the features matter, by all rewards so far; see `adadim.dimension`.

        It is computed from the model's sums, so the canonical features are those of the choices, in which an arm chosen
        twice counts twice. Where no two choices have equal features it is `adadim.dimension` of them. Where few arms
        are chosen again and again it is a little surer than that. By default with the levels of the agent, and with a
        free constant in the rewards, of which a constant among the features is part. Where version 0.2 compacted the
        log, the means that this needs are unknown: the answer is then without a constant, and says so (`constant`).
        """
        with self._lock:
            self._refresh()
            sums = self._model.sums.at(self._next_number)
            if sums.count is not None and sums.weight:  # clicks, whose weights are precisions: 1 on average
                factor, sums = sums.count / sums.weight, sums.copy()
                sums.fade(factor)
            levels = self._decider.levels if levels is None else levels
            return dimension_of_moments([sums], levels, prior, constant=constant and not math.isnan(sums.total))

    def certificate(
        self,
        arms: Offered = None,
        context: Inputs | None = None,
        *,
        theta_norm: float = 1.0,
        reward_bounds: tuple[float, float] | None = None,
        delta: float | None = None,
        ridge: float | None = None,
    ) -> Certificate:
        """A bound on the regret so far that holds at any time, and which arms can still be best.

        It is a report: the whole log is replayed beside the confidence ellipsoid of `adadim.Certified`, whatever the
        policy, at some 0.2 ms a decision. Nothing is promised beforehand, since the policy is not overruled.

        Parameters
        ----------
        arms, context
            The arms to compare, as in `ask`: by default those of the catalogue, in the context if there are contexts.
        theta_norm, reward_bounds, delta, ridge
            As in `adadim.Certified`. The noise is that of the agent (``Agent.create(noise=...)``), unless
            `reward_bounds` are given. `theta_norm` must be true for the features as they are.

        Notes
        -----
        The means must be linear in the features and stay the same, and how late a reward comes must not depend on it.
        Where decisions expire with a reward (`expired_reward`), all rewards count from the time-out on, so that this
        holds. Decisions that were compacted, or whose offer was not kept (``keep="chosen"``), are not counted.

        Examples
        --------
        >>> import adadim, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> agent = adadim.Agent.create(pathlib.Path(folder.name, "shop.db"), dim=2, noise=0.1)
        >>> for _ in range(60):
        ...     decision = agent.ask({"red": [1.0, 0.0], "blue": [-1.0, 0.0]})
        ...     _ = agent.tell(decision.id, {"red": 0.8, "blue": -0.8}[decision.arm])
        >>> certificate = agent.certificate({"red": [1.0, 0.0], "blue": [-1.0, 0.0]})
        >>> certificate.can_be_best, certificate.regret_at_most < 100
        (('red',), True)
        >>> agent.close()
        >>> folder.cleanup()
        """
        policy = Certified(ridge=ridge, delta=delta, theta_norm=theta_norm, reward_bounds=reward_bounds)
        with self._lock:
            compared, now = None, self._now()
            self._refresh(now)
            if self._model.forgets:
                half_life = self._model.half_life
                memory = "a change of the world" if half_life is None else f"memory={half_life:g}"
                raise InvalidValueError(
                    f"this agent forgets ({memory}), since its rewards drift: nothing is "
                    "certain of the regret of an agent whose rewards drift"
                )
            active = any(arm.state == "active" for arm in self._catalogue.arms.values())
            if arms is not None or context is not None or (active and not self.context_columns):
                compared = self._rounds(arms, [context], None, single=True)[0]
            with self._log.transaction(write=False):
                return certify(self._model.reader, policy, self._decider.noise, compared, now)

    def describe(self) -> dict[str, Any]:
        """The agent and what it has learned, in a few values to read."""
        with self._lock:
            status, dimension, hint = self.status(), self.dimension(), self.hint
            return {
                **{key: status[key] for key in DESCRIBED_STATUS},
                "levels": self.levels,
                "learner": self._decider.describe(self._next_number),
                "features_that_matter": str(dimension),
                "levels_that_matter": dimension.levels_that_matter,
                **({} if hint is None else {"hint": hint}),
            }

    @property
    def hint(self) -> str | None:
        """What to type for a better agent, if its rewards say that there is one; `describe` and the live page show it.

        Examples
        --------
        >>> import adadim, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with adadim.Agent.create(pathlib.Path(folder.name, "a.db"), dim=1) as agent:
        ...     agent.learn(([[1.0]] * 40, [0, 1] * 20))
        ...     agent.hint
        40
        'all rewards so far are 0 or 1: Agent.create(..., rewards="bernoulli") makes an agent for clicks'
        >>> folder.cleanup()
        """
        with self._lock:
            self._refresh()
            return CLICKS_HINT if self._model.sums.look_like_clicks else None

    def export(self, path: str | Path) -> Path:
        """Write the log to a .parquet or .csv file, completely or not at all, with a row for each decision.

        Both can be read by `adadim.evaluate`, `Agent.learn` and the command ``adadim evaluate``. CSV has no lists: a
        list is written as JSON.

        Columns: `decision`, `time`, `arm`, `features` (of the arm chosen in its context), `reward` (null if none),
        `probability`, `policy` (version; null for what was learned), `slate` (its first decision; null outside a
        slate), `context`, `offered` (names), `offered_features` (one list after the other, without the context) and
        `design` (JSON that says what features are made of; null if they come ready-made). The offer is null where it
        was not kept; of a slate it is what the slots before had left. Compacted decisions are not in it. Where the
        agent makes its features, the columns of the context and of the arm chosen follow, with the values that were
        given, also those that no category lists; one that has the name of a column above is called "context NAME" or
        "arm NAME".
        """
        file = as_path(path, "path")
        with self._lock, self._log.transaction(write=False):
            self._log.place()  # there may be more features by now
            return logged.write_log(file, self._model.reader.decisions(), self._log.settings.design)

    # Changes and maintenance

    def replace_policy(self, policy: Policy | None = None, *, levels: Levels = None, noise: float | None = None) -> int:
        """Let another policy decide from now on, or name other levels; what is not given stays. Gives the new version.

        The log stays as it is. Other processes follow at their next call.
        """
        return self._replace_policy(policy=policy, levels=levels, noise=noise)

    def set_explore(self, explore: float) -> int:
        """Draw another share of decisions uniformly from now on. Gives the new version of the policy.

        See `explore` in `create`. The log has the version of each decision, and its probability by the share that was
        in force then. Other processes follow at their next call.

        Examples
        --------
        >>> import adadim, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with adadim.Agent.create(pathlib.Path(folder.name, "a.db"), dim=1, explore=1.0) as agent:
        ...     drawn = agent.ask({"a": [1.0], "b": [2.0]}).probability
        ...     agent.set_explore(0.5)
        ...     drawn, agent.ask({"a": [1.0], "b": [2.0]}).probability
        2
        (0.5, 0.75)
        >>> folder.cleanup()
        """
        return self._replace_policy(explore=checked_explore(explore))

    def replace_features(
        self,
        *,
        context: ColumnsGiven | None = None,
        arm: ColumnsGiven | None = None,
        missing: Missing = "error",
        levels: Levels = None,
    ) -> int:
        """Append features to contexts or arms, or values to their categories. Gives the new number of columns.

        All decisions so far count with 0 there, and so do arms of the catalogue until `set_arm` gives them the new
        feature: the model is that of an agent which was created so and was given zeros. Only an agent that makes its
        features can get more. Other processes follow at their next call.

        Parameters
        ----------
        context, arm : int, names or dict, optional
            How many numbers a context, and an arm, has now; all their names, those of before first; or what each column
            holds, by name, as in `create`. A category then has its values of before first. What is new comes after what
            the context, or the arm, had before: numbers first, then indicators. A value that was not listed when a
            decision was made stays so there.
        missing : {"error", "indicator"}
            As in `create`, for the columns that are new.
        levels : dict or list, optional
            Names for groups of leading features; by default "arm", "context", "products" and "own", whatever
            they were before.

        Examples
        --------
        >>> import adadim, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with adadim.Agent.create(pathlib.Path(folder.name, "a.db"), context=["hour"], arm=["price"]) as agent:
        ...     agent.replace_features(context=["hour", "weekend"]), agent.columns
        (6, ['constant', 'price', 'hour', 'weekend', 'price x hour', 'price x weekend'])
        >>> device = {"device": adadim.Category(["phone", "desktop"])}
        >>> longer = {"device": adadim.Category(["phone", "desktop", "tablet"])}
        >>> with adadim.Agent.create(pathlib.Path(folder.name, "b.db"), context=device, arm=["price"]) as agent:
        ...     agent.replace_features(context=longer), agent.columns[2:6]
        (10, ['device=phone', 'device=desktop', 'device other', 'device=tablet'])
        >>> folder.cleanup()
        """
        with self._lock:
            self._refresh()
            with self._log.transaction():
                self._refresh_in_transaction()
                settings = appended_settings(self._log.settings, context, arm, missing)
                assert settings.design is not None
                named = settings.design.levels if levels is None else levels
                row = self._decider.replacement(levels=named, settings=settings)
                self._model.replace_features(settings)
                self._log.append([row], self._now())
            self._refresh()
            return self.dim

    def compact(self, before: float | datetime) -> int:
        """Fold decisions made before a time into the sums of the model, and drop them from the log. Gives how many.

        The model stays the same. Decisions that wait for their reward stay in the log. Those that were dropped can no
        longer be corrected or exported. `before` is in seconds since 1970, or a datetime.
        """
        moment = checked_moment(before)
        with self._lock:
            self._refresh(self._now())
            with self._log.transaction(write=False):
                portions, dropped = self._model.portions(moment), 0
            for upto in portions:  # so that other processes can write in between
                with self._log.transaction():
                    dropped += self._model.fold(upto)
            self._log.shrink()
            return dropped

    def check_log(self) -> None:
        """Raise a `FileError` unless the log can be read and written now."""
        with self._lock, self._log.transaction():
            self._log.check(whole=False)

    def rebuild(self) -> float:
        """Add up the whole log again, and write the result as the snapshot. Gives the largest change of any sum.

        This is a check of the whole log and of the model, and not needed otherwise: a damaged snapshot is noticed. The
        change is relative to the largest entry of its kind; it is rounding, below 1e-9, if the model was right.
        """
        with self._lock, self._log.transaction():
            self._log.check()
            self._refresh_in_transaction()
            return self._model.renew()

    # Internal

    def _refresh(self, now: float | None = None) -> None:
        """Read what all processes wrote since the last refresh, after decisions that are overdue `now` have expired."""
        after = self._log.settings.expire_after
        if now is not None and after is not None:
            with self._log.transaction(write=False):
                overdue = is_overdue(self._log, now - after)
            if overdue:
                with self._log.transaction():
                    self._expire(now)
        with self._log.transaction(write=False):
            self._refresh_in_transaction()

    def _check_settings(self, settings: AgentSettings, changeable: Mapping[str, Any]) -> None:
        """Refuse settings that are not those of this agent; what is None of those that can be changed may differ."""
        differing = setting_differences(self._log.settings, settings)
        for name, given in changeable.items():
            now = getattr(self._decider, name)
            if given is not None and given != now:
                differing.append(f"{name} is {shown(now)} there, {shown(given)} here")
        if differing:
            raise AgentExistsError(
                f"{self.path}: exists with other settings: {'; '.join(differing)}; open it with Agent.open, give the "
                "settings it has, or choose another name"
            )

    def _refresh_in_transaction(self) -> None:
        if self._is_unfinished:
            self._model.invalidate()
            self._decider.invalidate()
        self._is_unfinished = True
        self._read_news()
        self._is_unfinished = False

    def _read_news(self) -> None:
        self._place, place = None, self._log.place()
        self._decider.refresh(place)
        self._model.refresh(place)
        self._catalogue.refresh(place)
        self._place = place

    def _expire(self, now: float) -> None:
        """Let decisions expire that have waited too long; in a transaction."""
        settings = self._log.settings
        if settings.expire_after is not None:
            expire(self._log, now - settings.expire_after, now, settings.expired_reward)

    def _tell(self, reports: Sequence[list[RewardReport]], now: float) -> list[int | DecisionError]:
        """Write groups of rewards, after decisions that are overdue have expired; in a transaction."""
        self._expire(now)
        return tell_groups(self._log, reports, now)

    @property
    def _next_number(self) -> int:
        """Number of the next decision, as of the last refresh."""
        return self._model.place.number + 1

    def _rounds(
        self,
        arms: Any,
        contexts: Any,
        costs: Any,
        now: float | None = None,
        single: bool = False,
        fresh: bool = False,
        slots: int | None = None,
    ) -> list[Round]:
        """A round for each context, after a refresh unless `fresh`; ready-made features are checked before it."""
        of_frame = arms is not None and is_frame(arms)
        ready_made = (of_frame or isinstance(arms, Mapping)) and self._log.settings.design is None
        if not (ready_made or fresh):
            self._refresh(now)
        settings = self._log.settings
        if of_frame:
            arms, _ = arms_of_frame(arms, settings)
        checked = [checked_context(contexts[0], settings)] if single else checked_contexts(contexts, settings)
        if isinstance(arms, Mapping):
            asked = round_with_features(arms, checked[0], costs, settings)
        else:
            asked = self._catalogue.round(arms, checked[0], costs)
        rounds = in_contexts(asked, checked, slots)
        if ready_made and not fresh:
            self._refresh(now)
        return rounds

    def _with_current_design(self, asked: Round) -> Round:
        """The round by the present design of features, which may have been replaced since it was made."""
        design = self._log.settings.design
        return asked if asked.design is design else replace(asked, design=design)

    def _write(
        self, rounds: Sequence[Round], reports: Sequence[list[RewardReport]], now: float
    ) -> tuple[list[Any], list[int | DecisionError]]:
        """Decide in each of these rounds, after a refresh, and write the decisions and groups of rewards.

        Gives a decision or a slate for each round, and the results of `tell_groups`.
        """
        results: list[int | DecisionError] = []

        def tell() -> None:
            if reports:
                results.extend(self._tell(reports, now))

        if not rounds:
            with self._log.transaction():
                tell()
            return [], results
        checkpoint, count = None, sum(asked.decisions for asked in rounds)
        self._is_unfinished = True  # the model counts decisions before they are written
        if self._model.snapshot_is_due():
            with self._log.transaction():
                self._model.write_snapshot_if_due()
        self._decider.prepare(self._next_number)  # before the transaction, in which other processes have to wait

        def decide(draws: Sequence[int] | None) -> list[LoggedDecision]:
            nonlocal checkpoint
            if draws is not None:
                checkpoint = (self._next_number, self._model.checkpoint()) if count > 1 else None
                return self._decide(rounds, now, draws)
            if self._place != self._log.place():
                self._read_news()  # so that decisions are counted in the order of their numbers
            return self._decide([self._with_current_design(asked) for asked in rounds], now)

        decisions = self._log.commit(count, decide, tell)
        if checkpoint is not None and decisions[0].number != checkpoint[0]:
            self._model.restore(checkpoint[1])
        self._is_unfinished = False
        return self._results(rounds, decisions), results

    def _results(self, rounds: Sequence[Round], decisions: Iterable[LoggedDecision]) -> list[Any]:
        """A decision for each round, or a slate."""
        version = self._decider.version
        decided = (AgentDecision(d.number, str(d.arm), d.probability or 0.0, version, d.time) for d in decisions)
        results: list[AgentDecision | Slate] = []
        for asked in rounds:
            if asked.slots is None:
                results.append(next(decided))
            else:
                slots = tuple(islice(decided, asked.slots))
                results.append(Slate(slots[0].id, tuple(one.arm for one in slots), slots))
        return results

    def _decide(self, rounds: Sequence[Round], now: float, draws: Sequence[int] | None = None) -> list[LoggedDecision]:
        """Decisions that are to be written; all but the last count in the model already."""
        decisions: list[LoggedDecision] = []
        first, version = self._next_number, self._decider.version
        choices = self._decider.choose_in_turn(rounds, first, draws)
        for asked in rounds:
            slate = None if asked.slots is None else first + len(decisions)
            for chosen, features, probability in islice(choices, asked.decisions):
                number, arm = first + len(decisions), asked.names[chosen]
                draw = None if draws is None else draws[len(decisions)]
                decisions.append(
                    LoggedDecision(number, now, arm, features, probability, version, asked, None, draw, slate)
                )
        self._model.add_batch()
        return decisions

    def _now(self) -> float:
        return checked_time(self._clock)

    def _replace_policy(self, **changes: Any) -> int:
        """Write another version of the policy, with these arguments of `Decider.replacement`; gives its number."""
        with self._lock:
            self._refresh()
            row = self._decider.replacement(**changes)
            with self._log.transaction():
                self._log.append([row], self._now())
            self._refresh()
            return self._decider.version

    def _change_arm(self, name: str, state: ArmState) -> None:
        checked_name(name)
        with self._lock, self._log.transaction():
            self._catalogue.change_state(name, state, self._now())


def _kinds(columns: Iterable[Column]) -> dict[str, ColumnKind]:
    return {column.name: float if column.category is None else column.category for column in columns}
