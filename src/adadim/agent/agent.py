"""The agent: a bandit in a file, which survives its process and can be asked and told by several at once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from adadim.agent import logged
from adadim.agent.arms import Arm, Catalogue
from adadim.agent.choice import choose
from adadim.agent.decision import AgentDecision
from adadim.agent.inputs import (
    check_length,
    checked_costs,
    checked_id,
    checked_name,
    checked_pairs,
    checked_reward,
    checked_time,
    listed,
    matrix,
    vector,
)
from adadim.agent.log import Log, first_rows
from adadim.agent.model import Model
from adadim.agent.policy import checked_policy, policy_of, problem_of
from adadim.agent.schema import create_file
from adadim.agent.sums import Sums, difference, encode
from adadim.backend.memory import check_fits
from adadim.checks import integer, is_number, positive, shown
from adadim.dimension import Dimension, Levels, Prior, checked_levels, dimension_of_sums
from adadim.errors import AdadimError, DecisionError, FileError, InvalidTypeError, InvalidValueError
from adadim.files import as_path
from adadim.policies.base import Learner, Policy
from adadim.policies.inputs import checked_plugins
from adadim.policies.recommended import recommended
from adadim.policies.sums import EstimatesFromSums, LearnsFromSums
from adadim.randomness import check_seed

__all__ = ["Agent"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
Features = Any
"""A sequence of numbers."""


PORTION = 20_000  # decisions that compact() folds in one transaction


class Agent:
    """A bandit that lives in a file.

    Every decision and every reward is a row of a log in SQLite, on disk before the call returns; the model is a
    function of that log. Rewards may come late, in any order, twice, or never. Several processes, and several threads
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
        # Not for callers: Agent.create and Agent.open are the ways in.
        self._log, self._clock, self._plugins = log, clock, checked_plugins(plugins)
        self._lock = threading.RLock()
        self._closed = False
        with log.transaction(write=False):
            settings = log.settings()
        self._settings = settings
        self.dim: int = settings["dim"]
        self._model = Model(log, self.dim, settings["memory"])
        self._catalogue = Catalogue(log)
        self._version = 0
        self._known: Any = None  # the state of log and policy that the learner has
        self._look()

    # Life

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        dim: int,
        policy: Policy | None = None,
        levels: Levels = None,
        memory: float | None = None,
        seed: int = 0,
        noise: float | None = None,
        arms: int = 1000,
        expire_after: float | None = None,
        expired_reward: float | None = None,
        plugins: Mapping[str, type[Policy]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Agent:
        """Make a new agent in a file that is not there yet.

        Parameters
        ----------
        path : path
            The file.
        dim : int
            Number of features d, those of the context included; the most basic come first.
        policy : Policy, optional
            What decides; by default `adadim.recommended`. It must take late rewards in any order and features that come
            with each round: `EvidenceLinUCB`, `TaperedLinUCB`, `LinUCB`, `LinTS`, `Greedy` and `Random` do.
        levels : dict or list, optional
            Names for groups of leading features, as in `adadim.dimension`.
        memory : float, optional
            Half-life in decisions, for rewards that drift: what a decision taught counts half after so many further
            ones. The weights are exact, but no theorem of the library covers a model that forgets.
        seed : int
            Decision n draws from a random stream of (seed, n), whichever process makes it.
        noise : float, optional
            Standard deviation of the reward's noise, for policies that need it.
        arms : int
            Most arms in a round; more are refused. Confidence radii grow with the root of its logarithm.
        expire_after : float, optional
            Seconds after which a decision no longer waits for its reward.
        expired_reward : float, optional
            The reward that such a decision is given, 0 for clicks that did not come, say. By default none.
        plugins : mapping, optional
            Policy classes of your own by name, if `policy` is one.
        clock : function
            Where the time comes from, in seconds since 1970.

        Examples
        --------
        See `Agent`.
        """
        file, plugins = as_path(path, "path"), checked_plugins(plugins)
        settings: dict[str, Any] = {
            "dim": integer(dim, "dim", meaning="the number of features"),
            "arms": integer(arms, "arms", meaning="the largest number of arms in a round"),
            "seed": check_seed(seed),
            "memory": None if memory is None else positive(memory, "memory", "a half-life in decisions"),
            "expire_after": None if expire_after is None else positive(expire_after, "expire_after", "in seconds"),
            "expired_reward": None if expired_reward is None else checked_reward(expired_reward, "expired_reward"),
        }
        check_fits(32.0 * settings["dim"] ** 2, dim=settings["dim"])  # the sums, V^-1, a factor and a copy
        if expired_reward is not None and expire_after is None:
            raise InvalidValueError(
                "expired_reward says what expired decisions earn: give expire_after= in seconds too"
            )
        table, noise = checked_policy(policy, settings, noise, plugins)
        names = None if levels is None else json.dumps(checked_levels(levels, settings["dim"]))
        policy_row, empty = (checked_time(clock), table, names, noise), encode(Sums.empty(settings["dim"]))
        create_file(file, lambda connection: first_rows(connection, settings, policy_row, empty))
        return cls.open(file, plugins=plugins, clock=clock)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        plugins: Mapping[str, type[Policy]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Agent:
        """Come back to an agent.

        Parameters
        ----------
        path : path
            A file that `Agent.create` made. One of an earlier version is brought up to date.
        plugins, clock
            As in `create`.
        """
        log = Log(as_path(path, "path"))
        try:
            return cls(log, plugins, clock)
        except BaseException:
            log.close()
            raise

    def close(self) -> None:
        """Keep the model in the file, so that the next opening is fast, and let go of it."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            with suppress(AdadimError), self._log.transaction():
                self._model.look()
                if self._model.due(every=1):
                    self._model.keep()
            self._log.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Agent {self._log.path}: {self.policy}>"

    @property
    def path(self) -> Path:
        """The file."""
        return self._log.path

    @property
    def policy(self) -> Policy:
        """What decides."""
        return self._policy

    @property
    def levels(self) -> dict[str, int] | None:
        """Names of groups of leading features, and the end of each."""
        return None if self._levels is None else dict(self._levels)

    # Asking and telling

    def ask(
        self,
        arms: Mapping[str, Features] | Iterable[str] | None = None,
        context: Features | None = None,
        *,
        costs: Mapping[str, float] | None = None,
    ) -> AgentDecision:
        """Choose an arm. The decision is on disk when this returns.

        Parameters
        ----------
        arms : dict, or names, optional
            This round's arms by name with their features; or names of arms of the catalogue; by default all of the
            catalogue that are active.
        context : sequence of numbers, optional
            Features of the situation, the same for every arm. They are put before each arm's own, so their number and
            that of an arm add up to `dim`. In a linear model they shift all arms alike: where the situation changes
            which arm is best, give products of both among the arms' features.
        costs : dict, optional
            What choosing an arm costs, in units of the reward; it is subtracted from its score, and the model learns
            the reward itself. Arms of the catalogue have theirs from `set_arm`.

        Examples
        --------
        See `Agent`.
        """
        with self._lock:
            before = None if context is None else vector(context, "context")
            given = matrix(arms, self.dim, before, self._settings["arms"]) if isinstance(arms, Mapping) else None
            prices = None if costs is None or given is None else checked_costs(costs, given[0])
            now = self._now()
            self._look(expire=now)
            if given is None:
                names, rows, prices = self._from_catalogue(arms, before, costs)
            else:
                names, rows = given
            offered = _after(before, rows)
            self._prepare(self._last + 1)  # here, so that others need not wait for it
            with self._log.transaction():
                if self._model.behind():
                    self._model.keep_if_due()
                number = self._log.last_number() + 1
                self._prepare(number)
                chosen, probability = choose(self._learner, offered, prices, self._ties, self._settings["seed"], number)
                written = self._log.add_decision(
                    now,
                    names[chosen],
                    offered[chosen],
                    offer=self._log.offer(names, rows),
                    context=before,
                    probability=probability,
                    policy=self._version,
                )
            return AgentDecision(written, names[chosen], probability, self._version, now)

    def tell(self, id: int, reward: float) -> bool:
        """Tell what a decision earned; on disk when this returns.

        Telling the same again is harmless; another reward for the same decision is refused (see `correct`).

        Parameters
        ----------
        id : int
            That of the decision.
        reward : float
            What it earned.

        Returns
        -------
        bool
            Whether this was new.
        """
        return self.tell_many([(id, reward)]) == 1

    def tell_many(self, answers: Mapping[int, float] | Iterable[tuple[int, float]]) -> int:
        """Tell what many decisions earned, all or none of it.

        Parameters
        ----------
        answers : dict or pairs
            Id and reward of each.

        Returns
        -------
        int
            How many were new.

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
        pairs, new = checked_pairs(answers), 0
        with self._lock:
            now = self._now()
            with self._log.transaction():
                self._expire(now)
                for number, reward in pairs:
                    new += self._tell(number, reward, now)
        return new

    def correct(self, id: int, reward: float) -> bool:
        """Change what a decision earned, or tell it after it expired.

        The log keeps both rewards; the model is as if only this one had been told.

        Returns
        -------
        bool
            Whether this changed anything.
        """
        number, reward = checked_id(id), checked_reward(reward)
        with self._lock, self._log.transaction():
            known = self._log.reward_of(number)
            if known == reward:
                return False
            if known is None and not self._log.is_expired(number):
                raise DecisionError(f"decision {number} has no reward yet; call tell({number}, reward={reward:g})")
            self._log.add_reward(number, self._now(), reward, known)
        return True

    def learn(self, log: Any) -> int:
        """Learn from what another system decided and earned, all or none of it.

        Parameters
        ----------
        log : frame, path, records or arrays
            One row for each decision: a polars or pandas DataFrame; a .parquet, .csv or .ndjson file; a sequence of
            dicts; or a pair of arrays, features (n, d) and rewards (n,). Columns: `reward`; `features`, a list of `dim`
            numbers, or instead `x1`, `x2`, ... up to `dim`, a number each; and, if known, `arm`, `probability`
            and `time` (seconds since 1970). What `export` writes can be read; rows without a reward are left out.

        Returns
        -------
        int
            How many rows were learned; 0 if the same log was learned before.
        """
        rows = logged.read_log(log, self.dim)
        with self._lock, self._log.transaction():
            digest = rows.digest()
            if self._log.knows_log(digest):
                return 0
            return self._log.add_log(digest, self._now(), rows)

    # The catalogue

    @property
    def arms(self) -> dict[str, Arm]:
        """Arms of the catalogue that are not retired, by name."""
        with self._lock:
            self._look()
            return self._catalogue.present()

    def set_arm(self, name: str, features: Features, *, cost: float = 0.0) -> None:
        """Add an arm to the catalogue, or change the features and cost of one; it may be chosen from now on.

        Past decisions keep the features they were made with.

        Parameters
        ----------
        name : str
            Its name.
        features : sequence of numbers
            Its features: `dim` of them, or fewer if the rest come as context; all arms have as many.
        cost : float
            What choosing it costs, in units of the reward.
        """
        self.set_arms({checked_name(name): features}, costs={name: cost})

    def set_arms(self, arms: Mapping[str, Features], *, costs: Mapping[str, float] | None = None) -> None:
        """Add or change many arms, all or none."""
        if not isinstance(arms, Mapping):
            raise InvalidTypeError(f"arms must be a dict from names to features, got {shown(arms)}")
        rows = {checked_name(name): vector(values, f"features of {name!r}") for name, values in arms.items()}
        prices = dict(zip(rows, checked_costs({} if costs is None else costs, rows).tolist(), strict=True))
        with self._lock, self._log.transaction():
            self._catalogue.look()
            others = {len(arm.features) for name, arm in self._catalogue.present().items() if name not in rows}
            for name, row in rows.items():
                if len(row) > self.dim:
                    raise InvalidValueError(
                        f"features of {name!r} must be at most dim = {self.dim} numbers, got {len(row)}"
                    )
                if others and len(row) not in others:
                    raise InvalidValueError(
                        f"features of {name!r} must be {min(others)} numbers, as those of other arms, got {len(row)}"
                    )
                others.add(len(row))
                self._catalogue.write(self._now(), Arm(name, row, prices[name], "active"))

    def mask_arm(self, name: str) -> None:
        """Leave an arm out until `unmask_arm`, while it is out of stock, say."""
        self._change_arm(name, "masked")

    def unmask_arm(self, name: str) -> None:
        """Let an arm be chosen again."""
        self._change_arm(name, "active")

    def retire_arm(self, name: str) -> None:
        """Take an arm out of the catalogue. What was learned from it stays; rewards still outstanding are welcome."""
        self._change_arm(name, "retired")

    # What it knows

    def estimate(
        self, arms: Mapping[str, Features] | Iterable[str] | None = None, context: Features | None = None
    ) -> dict[str, tuple[float, float]]:
        """Mean reward of arms as the model sees it now, and the standard deviation of that estimate.

        The second number is sigma sqrt(x^T V^-1 x), so that mean plus or minus twice it is an interval of about 95 % if
        the model holds; sigma is the noise that was given, or estimated from the residuals, and infinite before there
        is any reward. Costs do not enter. Under `Random`, which learns nothing, the recommended policy's model answers.

        Parameters
        ----------
        arms, context
            As in `ask`.
        """
        with self._lock:
            before = None if context is None else vector(context, "context")
            if isinstance(arms, Mapping):
                names, rows = matrix(arms, self.dim, before, self._settings["arms"])
                self._look()
            else:
                self._look()
                names, rows, _ = self._from_catalogue(arms, before, None)
            self._prepare(self._last + 1)
            learner: Any = self._learner
            if not isinstance(learner, EstimatesFromSums):
                learner = recommended(self._problem).start(self._problem)
                learner.restart(self._model.sums.at(self._last + 1))
            mean, width = learner.estimates(_after(before, rows))
        return {name: (float(m), float(w)) for name, m, w in zip(names, mean, width, strict=True)}

    def status(self) -> dict[str, Any]:
        """How things stand.

        `decisions` were made by the agent and `rewards` of them are known; `outstanding` wait for theirs and `expired`
        waited too long. `learned` came from other systems. `compacted` is the last decision that may have been folded.
        """
        with self._lock:
            self._look(expire=self._now())
            sums, arms = self._model.sums, self._catalogue.known.values()
            with self._log.transaction(write=False):
                waiting, expired = self._log.outstanding(), self._log.expired()
                upto = self._log.folded()[1]
            return {
                "path": str(self._log.path),
                "decisions": self._last - sums.learned,
                "rewards": sums.answered,
                "outstanding": waiting,
                "expired": expired,
                "learned": sums.learned,
                "compacted": upto,
                "arms": sum(arm.state == "active" for arm in arms),
                "masked": sum(arm.state == "masked" for arm in arms),
                "retired": sum(arm.state == "retired" for arm in arms),
                "policy": repr(self._policy),
                "policy_version": self._version,
                "dim": self.dim,
                "memory": self._settings["memory"],
                "bytes": self._log.path.stat().st_size,
            }

    def dimension(self, levels: Levels = None, prior: Prior = "uniform") -> Dimension:
        """How many of the features matter, by all rewards so far; see `adadim.dimension`.

        It is computed from the model's sums, so the canonical features are those of the choices, in which an arm chosen
        twice counts twice. Where no two choices have equal features it is `adadim.dimension` of them. Where few arms
        are chosen again and again it is a little surer than that.

        Parameters
        ----------
        levels : dict or list, optional
            By default those of the agent.
        prior
            As in `adadim.dimension`.
        """
        with self._lock:
            self._look()
            sums = self._model.sums.at(self._last + 1)
            return dimension_of_sums(sums, self._levels if levels is None else levels, prior)

    def describe(self) -> dict[str, Any]:
        """What it is and what it has learned, for people."""
        with self._lock:
            status = self.status()
            self._prepare(self._last + 1)
            learner = self._learner
            described = learner.describe() if isinstance(learner, Learner) else {}
            described.pop("replication", None)
            return {
                **{key: status[key] for key in ("policy", "policy_version", "dim", "memory", "decisions", "rewards")},
                "levels": self.levels,
                "learner": described,
                "features_that_matter": str(self.dimension()),
            }

    def export(self, path: str | Path) -> Path:
        """Write the log to a Parquet file, whole or not at all, a row for each decision.

        Columns: `decision`, `time`, `arm`, `features` (of the arm chosen, after the context), `reward` (null if none),
        `probability`, `policy` (version; null for what was learned), `context`, `offered` (names) and
        `offered_features` (one list after the other, without the context). Compacted decisions are not in it.
        """
        file = as_path(path, "path")
        with self._lock, self._log.transaction(write=False):
            return logged.write_log(file, self._log.every_decision())

    # Keeping it

    def replace_policy(self, policy: Policy | None = None, *, levels: Levels = None, noise: float | None = None) -> int:
        """Let another policy decide from now on, or name other levels; what is not given stays. The log stays as it is.

        Other processes follow at their next call.

        Returns
        -------
        int
            The new version.
        """
        with self._lock:
            self._look()
            table, noise = checked_policy(
                self._policy if policy is None else policy,
                self._settings,
                self._noise if noise is None else noise,
                self._plugins,
            )
            names = self._levels if levels is None else checked_levels(levels, self.dim)
            with self._log.transaction():
                self._log.add_policy(self._now(), table, None if names is None else json.dumps(names), noise)
            self._look()
            return self._version

    def compact(self, before: float | datetime) -> int:
        """Fold decisions made before a time into the sums of the model, and drop them from the log.

        The model stays the same. Decisions that wait for their reward stay in the log. Those that were dropped can no
        longer be corrected or exported.

        Parameters
        ----------
        before : float or datetime
            Seconds since 1970, or a datetime.

        Returns
        -------
        int
            How many decisions were dropped.
        """
        if isinstance(before, datetime):
            before = before.timestamp()
        if not is_number(before) or not np.isfinite(before):
            raise InvalidValueError(f"before must be a time, in seconds since 1970 or a datetime, got {shown(before)}")
        gone = 0
        with self._lock:
            with self._log.transaction():
                self._expire(self._now())
                at, last = self._log.folded()[1], self._log.last_before(float(before))
            for upto in (*range(at + PORTION, last, PORTION), last):  # so that others can write in between
                with self._log.transaction():
                    gone += self._model.fold(upto)
            with self._log.transaction():
                self._log.drop_unused_offers()
            self._log.shrink()
        return gone

    def rebuild(self) -> float:
        """Add up the whole log anew, and keep the result in place of the snapshot.

        Nobody needs to call this, since a damaged snapshot is noticed; it looks the whole file through and shows that
        the model is what the log says.

        Returns
        -------
        float
            The largest change of any sum, relative to the largest entry of its kind: rounding, below 1e-9.
        """
        with self._lock, self._log.transaction():
            self._log.check()
            self._model.look()
            before = self._model.sums
            self._model.rebuild()
            self._model.keep()
            self._known = None
            return difference(before, self._model.sums)

    # Inside

    def _now(self) -> float:
        return checked_time(self._clock)

    def _look(self, expire: float | None = None) -> None:
        """Take in what this and other processes wrote since the last look."""
        if expire is not None and self._settings["expire_after"] is not None:
            with self._log.transaction():
                self._expire(expire)
        with self._log.transaction(write=False):
            self._model.look()
            self._catalogue.look()
            self._last = self._log.last_number()
            if self._log.policy_version() != self._version:
                self._read_policy()

    def _read_policy(self) -> None:
        version, table, levels, noise = self._log.policy()
        try:
            policy: Policy = policy_of(table, self._plugins)
        except (AdadimError, ValueError) as error:
            raise FileError(f"{self._log.path}: {error}") from error
        self._problem = problem_of(self._settings, noise)
        learner = policy.start(self._problem)
        assert isinstance(learner, LearnsFromSums)  # checked when it was written
        self._learner: LearnsFromSums = learner
        self._policy, self._version, self._noise = policy, version, noise
        self._levels: dict[str, int] | None = None if levels is None else json.loads(levels)
        self._ties: Any = getattr(policy, "ties", "random")
        self._known = None

    def _prepare(self, number: int) -> None:
        """Bring the learner to what the log says, for decision `number`."""
        model = self._model
        state = (model.generation, model.seq, number if model.half_life else None)
        if state != self._known:
            self._learner.restart(model.sums.at(number))
            self._known = state

    def _from_catalogue(
        self, arms: Any, before: FloatArray | None, costs: Any
    ) -> tuple[list[str], FloatArray, FloatArray | None]:
        """Names, features and costs of arms of the catalogue."""
        if arms is None:
            chosen = self._catalogue.active()
            if not chosen:
                raise InvalidValueError(
                    "the catalogue has no active arm: give arms to ask({name: features}), or add some by set_arm"
                )
        else:
            given = listed(arms)
            if given is None:
                raise InvalidTypeError(f"arms must be a dict from names to features, or names, got {shown(arms)}")
            chosen = [self._catalogue.get(name) for name in dict.fromkeys(map(checked_name, given))]
            for arm in chosen:
                if arm.state == "masked":
                    raise InvalidValueError(f"arm {arm.name!r} is masked; call unmask_arm, or leave it out")
            if not chosen:
                raise InvalidValueError("arms must not be empty: name at least one to choose from")
        if len(chosen) > self._settings["arms"]:
            raise InvalidValueError(
                f"{len(chosen)} arms are more than the {self._settings['arms']} that the agent was created for (arms=)"
            )
        names = [arm.name for arm in chosen]
        for arm in chosen:
            check_length(len(arm.features), arm.name, self.dim, 0 if before is None else len(before))
        prices = np.array([arm.cost for arm in chosen])
        if costs is not None:
            asked = checked_costs(costs, names)
            prices = np.where([name in costs for name in names], asked, prices)
        return names, np.array([arm.features for arm in chosen]), prices if prices.any() else None

    def _tell(self, number: int, reward: float, now: float) -> bool:
        if self._log.is_outstanding(number):
            self._log.add_reward(number, now, reward)
            return True
        known = self._log.reward_of(number)
        if known == reward:
            return False
        if known is None:
            raise DecisionError(
                f"decision {number} expired before its reward came; correct({number}, reward={reward:g}) records it "
                "all the same"
            )
        raise DecisionError(
            f"decision {number} has the reward {known:g} already, got {reward:g}; "
            f"correct({number}, reward={reward:g}) changes it"
        )

    def _expire(self, now: float) -> None:
        """Let decisions expire that have waited too long; in a transaction."""
        after = self._settings["expire_after"]
        if after is not None:
            for number in self._log.overdue(now - after):
                self._log.expire(number, now, self._settings["expired_reward"])

    def _change_arm(self, name: str, state: Any) -> None:
        checked_name(name)
        with self._lock, self._log.transaction():
            self._catalogue.look()
            self._catalogue.write(self._now(), replace(self._catalogue.get(name), state=state))


def _after(context: FloatArray | None, rows: FloatArray) -> FloatArray:
    """Features of the arms with the context before each."""
    if context is None:
        return rows
    return np.column_stack([np.broadcast_to(context, (len(rows), len(context))), rows])
