"""Other packages for contextual bandits, each used as its own documentation says, behind one small interface.

A tool plays one of two kinds of tasks. With *labels* a round is a context (p + 1,), its first entry 1, and each of K
arms has a model of its own. With *alternatives* a round is the features (K, d) of its arms, the first column 1, and all
arms share a model. `choose` returns the arm and what the tool needs for learning; `learn` may be called later.

`settings` are at most eight, the first as the documentation of the tool has it; "cut" says that the tool is given the
features that a practitioner would choose by hand. `drift` is what the documentation offers where the world changes.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any, ClassVar

import numpy as np

Setting = dict[str, Any]


@dataclass(frozen=True)
class Sizes:
    """What a tool is told before the first round."""

    arms: int
    columns: int  # with the constant
    labels: bool
    seed: int


def all_and_cut(*settings: Setting) -> list[Setting]:
    """Each setting with all features, then each with those chosen by hand."""
    return [*settings, *({**setting, "cut": True} for setting in settings)]


class Tool(ABC):
    """One package with one setting on one task."""

    name: ClassVar[str]
    package: ClassVar[str]
    settings: ClassVar[list[Setting]]
    drift: ClassVar[Setting | None] = None
    plays_alternatives: ClassVar[bool] = True

    def __init__(self, sizes: Sizes, setting: Setting) -> None:
        self.sizes, self.setting = sizes, setting
        self.rng = np.random.default_rng([sizes.seed, 40])
        self.start()

    @abstractmethod
    def start(self) -> None:
        """Make the model."""

    @abstractmethod
    def choose(self, seen: np.ndarray) -> tuple[int, Any]:
        """An arm for this round, and what `learn` needs."""

    @abstractmethod
    def learn(self, memo: Any, reward: float) -> None:
        """Learn the reward of a decision."""

    def best(self, scores: np.ndarray) -> int:
        """The arm of the highest score, ties at random."""
        return int(self.rng.choice(np.flatnonzero(scores == scores.max())))


class Adadim(Tool):
    """`adadim.recommended` on all features: of labels, on the products of arms and covariates.

    As in an agent, it is told neither the noise nor the number of rounds; LinUCB, which needs the noise, is told 0.5.
    """

    name, package = "adadim", "adadim"
    settings = all_and_cut(
        {"policy": "recommended"},
        {"policy": "recommended", "rewards": "bernoulli"},
        {"policy": "recommended", "scale": 0.7},
        {"policy": "LinUCB", "scale": 0.35},
    )
    drift: ClassVar[Setting | None] = {"memory": "auto"}

    def start(self) -> None:
        adadim: Any = importlib.import_module("adadim")
        self.interactions = adadim.interactions
        sizes, setting = self.sizes, self.setting
        told: Setting = {"noise": 0.5} if setting["policy"] == "LinUCB" else {}
        problem = adadim.Problem(
            arms=sizes.arms,
            dim=1 + sizes.arms * sizes.columns if sizes.labels else sizes.columns,
            horizon=None,
            rewards=setting.get("rewards", "gaussian"),
            **told,
        )
        policy: Any = adadim.LinUCB() if setting["policy"] == "LinUCB" else adadim.recommended(problem)
        changed = {name: setting[name] for name in ("scale", "memory") if name in setting}
        self.learner = replace(policy, **changed).start(problem, seed=sizes.seed)

    def choose(self, seen: np.ndarray) -> tuple[int, Any]:
        decision = self.learner.ask(self.interactions(seen[1:], self.sizes.arms) if self.sizes.labels else seen)
        return int(decision.arms), decision

    def learn(self, memo: Any, reward: float) -> None:
        self.learner.tell(memo, reward)


class VowpalWabbit(Tool):
    """`--cb_explore_adf`; the first setting is that of its tutorial on personalising content, with costs of -1 and 0.

    In the others a cost is 1 - reward. `--regcb` and `--regcbopt` take costs to be in [0, 1] unless they are told
    otherwise; given -1 and 0 they play like chance.
    """

    name, package = "Vowpal Wabbit", "vowpalwabbit"
    settings = all_and_cut(
        {"explore": "--epsilon 0.2", "best cost": -1.0},
        {"explore": "--squarecb"},
        {"explore": "--regcb --mellowness 0.001"},
        {"explore": "--regcbopt --mellowness 0.01"},
    )
    drift: ClassVar[Setting | None] = {"rates": "--power_t 0"}

    def start(self) -> None:
        vowpalwabbit = importlib.import_module("vowpalwabbit")
        products = "-q UA" if self.sizes.labels else ""
        arguments = f"--cb_explore_adf {self.setting['explore']} {products} {self.setting.get('rates', '')} --quiet"
        self.work: Any = vowpalwabbit.Workspace(arguments)
        self.labels = [f"|A {arm}" for arm in range(self.sizes.arms)]

    @staticmethod
    def _columns(values: np.ndarray) -> str:
        return " ".join(f"{i}:{value:.6g}" for i, value in enumerate(values.tolist()) if value)

    def choose(self, seen: np.ndarray) -> tuple[int, Any]:
        # Its own constant stands for the first column.
        if self.sizes.labels:
            examples = [f"shared |U {self._columns(seen[1:])}", *self.labels]
        else:
            examples = [f"|A {self._columns(row)}" for row in seen[:, 1:]]
        probabilities = np.asarray(self.work.predict(examples))
        arm = min(int(np.searchsorted(np.cumsum(probabilities), self.rng.random())), self.sizes.arms - 1)
        return arm, (examples, arm, probabilities[arm])

    def learn(self, memo: Any, reward: float) -> None:
        examples, arm, probability = memo
        place = arm + self.sizes.labels  # after the line of what is shared
        cost = self.setting.get("best cost", 0.0) + 1.0 - reward
        examples[place] = f"0:{cost}:{probability} {examples[place]}"
        self.work.learn(examples)


class BayesianBandits(Tool):
    """A learner for each arm, or one that all arms share; the first setting is that of its README for either."""

    name, package = "bayesianbandits", "bayesianbandits"
    settings = all_and_cut(
        {"model": "documented"},
        {"model": "EmpiricalBayesNormalRegressor", "policy": "ThompsonSampling"},
        {"model": "EmpiricalBayesGLM", "policy": "ThompsonSampling"},
        {"model": "EmpiricalBayesNormalRegressor", "policy": "InformationDirectedSampling"},
    )
    drift: ClassVar[Setting | None] = {"rate": 0.99}

    def start(self) -> None:
        package: Any = importlib.import_module("bayesianbandits")
        sizes, setting = self.sizes, self.setting
        forgetting = {"forgetting": package.StabilizedForgetting(setting["rate"])} if "rate" in setting else {}
        if setting["model"] == "documented":
            policy = package.UpperConfidenceBound(alpha=0.84) if sizes.labels else package.ThompsonSampling()
            model, given = (
                (package.NormalInverseGammaRegressor, {})
                if sizes.labels
                else (
                    package.NormalRegressor,
                    {"alpha": 1.0, "beta": 1.0},
                )
            )
        else:
            policy, model, given = getattr(package, setting["policy"])(), getattr(package, setting["model"]), {}
        if sizes.labels:
            arms = [package.Arm(arm, learner=model(**given, **forgetting)) for arm in range(sizes.arms)]
            self.agent: Any = package.ContextualAgent(arms, policy, random_seed=sizes.seed)
        else:
            self.agent = package.LipschitzContextualAgent(
                arms=[package.Arm(arm) for arm in range(sizes.arms)],
                learner=model(**given, **forgetting),
                arm_featurizer=package.FunctionArmFeaturizer(self._features),
                policy=policy,
                random_seed=sizes.seed,
            )

    def _features(self, flat: Any, arms: Any) -> np.ndarray:
        rounds = np.asarray(flat).reshape(-1, self.sizes.arms, self.sizes.columns)
        return rounds[:, list(arms)].transpose(0, 2, 1)

    def choose(self, seen: np.ndarray) -> tuple[int, Any]:
        row = seen.reshape(1, -1)
        (arm,) = self.agent.pull(row)
        return int(arm), (row, arm)

    def learn(self, memo: Any, reward: float) -> None:
        row, arm = memo
        self.agent.select_for_update(arm).update(row, np.array([reward]))


class River(Tool):
    """`LinUCBDisjoint`. It has no policy for arms with features, so it does not play alternatives."""

    name, package = "river", "river"
    settings = all_and_cut(*({"alpha": 1.0, "beta": beta} for beta in (1.0, 4.0, 16.0, 64.0)))
    drift: ClassVar[Setting | None] = {"smoothing": 0.99}  # 0.8 of its documentation remembers five rounds
    plays_alternatives = False

    def start(self) -> None:
        bandit: Any = importlib.import_module("river.bandit")
        self.policy = bandit.LinUCBDisjoint(seed=self.sizes.seed, **without_cut(self.setting))
        self.arms = list(range(self.sizes.arms))

    def choose(self, seen: np.ndarray) -> tuple[int, Any]:
        context = dict(enumerate(seen.tolist()))
        arm = self.policy.pull(self.arms, context=context)
        return arm, (arm, context)

    def learn(self, memo: Any, reward: float) -> None:
        self.policy.update(*memo, reward)


class MABWiser(Tool):
    """LinUCB or LinTS, the first two as in its docstrings.

    It has a model for each arm. On alternatives one arm holds the model that all share, and the alternatives are its
    contexts: `predict_expectations` scores them.
    """

    name, package = "MABWiser", "mabwiser"
    settings = all_and_cut(
        {"policy": "LinUCB", "alpha": 1.25},
        {"policy": "LinTS", "alpha": 0.25},
        {"policy": "LinUCB", "alpha": 0.5},
        {"policy": "LinUCB", "alpha": 0.1},
    )

    def start(self) -> None:
        mab: Any = importlib.import_module("mabwiser.mab")
        policy = getattr(mab.LearningPolicy, self.setting["policy"])(alpha=self.setting["alpha"])
        arms = list(range(self.sizes.arms)) if self.sizes.labels else [0]
        self.bandit = mab.MAB(arms, policy, seed=self.sizes.seed)
        # It cannot start from nothing; rows of zeros leave the models as they are.
        self.bandit.fit(arms, [0.0] * len(arms), np.zeros((len(arms), self.sizes.columns)))

    def choose(self, seen: np.ndarray) -> tuple[int, Any]:
        if self.sizes.labels:
            scores = self.bandit.predict_expectations(seen[None])
            arm = self.best(np.array([scores[arm] for arm in range(self.sizes.arms)]))
            return arm, (arm, seen)
        arm = self.best(np.array([score[0] for score in self.bandit.predict_expectations(seen)]))
        return arm, (0, seen[arm])

    def learn(self, memo: Any, reward: float) -> None:
        arm, row = memo
        self.bandit.partial_fit([arm], [reward], row[None])


class ContextualBandits(Tool):
    """`online.LinUCB` and `LinTS`, the first with the beta prior and the smaller alpha that its docstring recommends.

    With that prior an arm is played at random until it has three rewards of 1 and three of 0, so LinUCB also plays as
    in the paper (`ucb_from_empty`). LinTS samples predictions ("ci"): where version 0.3.30 samples coefficients, their
    spread grows with the data. They have a model for each arm. On alternatives `linreg.LinearRegression` is the model
    that all share.
    """

    name, package = "contextualbandits", "contextualbandits"
    settings = all_and_cut(
        {"policy": "LinUCB", "alpha": 0.1, "start": {"ucb_from_empty": False, "beta_prior": "auto"}},
        {"policy": "LinUCB", "alpha": 0.1, "start": {"ucb_from_empty": True}},
        {"policy": "LinUCB", "alpha": 0.35, "start": {"ucb_from_empty": True}},
        {"policy": "LinTS", "alpha": 0.1, "start": {"smoothing": (1, 2)}},
    )

    def start(self) -> None:
        alpha, first = self.setting["alpha"], self.setting["start"]
        if not self.sizes.labels:
            linreg: Any = importlib.import_module("contextualbandits.linreg")
            # 'chol' factors anew at every partial_fit.
            self.model = linreg.LinearRegression(lambda_=1.0, fit_intercept=False, method="sm", use_float=False)
            self.fitted = False
            return
        online: Any = importlib.import_module("contextualbandits.online")
        given = {"nchoices": self.sizes.arms, "random_state": 1 + self.sizes.seed, **first}  # it refuses 0
        if self.setting["policy"] == "LinUCB":
            self.policy = online.LinUCB(alpha=alpha, **given)
        else:
            self.policy = online.LinTS(v_sq=alpha, sample_from="ci", method="sm", **given)

    def choose(self, seen: np.ndarray) -> tuple[int, Any]:
        if self.sizes.labels:
            row = seen[None, 1:]  # it adds a constant
            arm = int(self.policy.predict(row)[0])
            return arm, (row, arm)
        if not self.fitted:
            arm = int(self.rng.integers(self.sizes.arms))
        else:
            alpha, ucb = self.setting["alpha"], self.setting["policy"] == "LinUCB"
            arm = self.best(
                self.model.predict_ucb(seen, alpha if ucb else self.rng.normal(scale=alpha, size=len(seen)))
            )
        return arm, (seen[arm : arm + 1], arm)

    def learn(self, memo: Any, reward: float) -> None:
        row, arm = memo
        if self.sizes.labels:
            self.policy.partial_fit(row, np.array([arm]), np.array([reward]))
        else:
            self.model.partial_fit(row, np.array([reward]))
            self.fitted = True


TOOLS: dict[str, type[Tool]] = {
    tool.name: tool for tool in (Adadim, BayesianBandits, VowpalWabbit, MABWiser, ContextualBandits, River)
}


def without_cut(setting: Setting) -> Setting:
    return {name: value for name, value in setting.items() if name != "cut"}


def version(tool: type[Tool]) -> str | None:
    """The version that is installed, or None."""
    try:
        return metadata.version(tool.package)
    except metadata.PackageNotFoundError:
        return None
