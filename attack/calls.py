"""Every public callable with bad arguments: refused by an AdadimError that names them, or a result without NaN."""

from __future__ import annotations

import dataclasses
import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import adadim
from adadim import instances, policies, serve, study, testing, theory
from adadim.core.design import Design
from attack.damage import BAD, generator
from attack.tally import Tally

BAD_VALUES = (
    *BAD, 1j, b"x", set(), object(), np.nan, np.inf, np.array([]), np.array([np.nan]), np.array(["x"]), np.eye(2) * 1j,
    np.ma.masked_less(np.eye(3), 0.5), np.array(None), range(0), -(10**400), np.float32("nan"), np.uint8(3),
    np.int64(-5), lambda x: x, int,
)  # fmt: skip
SIZES = {"arms": 6, "dim": 4, "intrinsic_dim": 2, "horizon": 12}
EXTRA = {
    "everyday": {"distribution": "gaussian"},
    "products": {"attributes": 3},
    "polynomials": {"variables": 2},
    "pca": {"data": "wine"},
    "lower_bound": {"horizon": 64, "alpha": 0.5},
    "interval": {"arms": 6, "horizon": 12},
    "many_best": {"arms": 6, "horizon": 12, "share": 0.5},
    "owned_arms": {"best": 0.7},
    "shared_contexts": {"models": 2},
    "sphere_rounds": {"theta": [0.5, 0.25]},
    "labelled": {"data": "digits", "covariates": 3, "intrinsic_dim": 2, "horizon": 12},
    "choices": {"data": "electricity", "dim": 7, "intrinsic_dim": 2, "horizon": 12},
    "ratings": {"arms": 4, "factors": 3, "products": 2, "intrinsic_dim": 2, "horizon": 12},
}
OWN_SIZES = ("choices", "labelled", "ratings", "lower_bound", "interval", "many_best")  # these take none of `SIZES`
PROBLEM = adadim.Problem(np.eye(4) * 0.9, horizon=12, noise=0.1, reward_range=1.0)
ROUNDS = adadim.Problem(arms=4, dim=4, horizon=12, noise=0.1)
INSTANCE = adadim.Instance(np.eye(4) * 0.9, theta=np.ones(4) / 2, horizon=12, noise=0.1)
THEORY: dict[str, dict[str, Any]] = {
    "frontier": {"alpha": 0.3, "beta": 0.6},
    "hardness": {"intrinsic_dim": 3, "horizon": 100},
    "schedule": {"horizon": 100, "beta": 0.5, "dim": 10},
    "nonadaptive_rate": {"alpha": 0.5},
    "pareto_rate": {"alpha": 0.5, "beta": 0.5},
    "rate_lower_bound": {"alpha": 0.5, "rate_at_zero": 0.7},
    "recommended_beta": {"alpha_hat": 0.3},
    "confidence_radius": {"horizon": 100, "arms": 10, "failure": 0.1, "norm_bound": 1.0},
    "modified_linucb_bound_order": {"horizon": 100, "arms": 10, "dim": 3, "failure": 0.1},
    "linucbpp_bound_order": {"horizon": 100, "arms": 10, "beta": 0.5, "alpha": 0.5},
    "tapered_information": {"horizon": 100, "dim": 10, "taper": 1.0, "ridge": 1.0},
    "tapered_rate": {"alpha": 0.5, "taper": 1.0, "target": 0.5},
    "theorem1_bound": {"horizon": 2500, "alpha": 0.5, "alpha_easy": 0.0, "budget": 50.0},
    "lower_bound_family": {"horizon": 2500, "alpha": 0.5, "alpha_easy": 0.0, "delta": 0.1, "zero_arm": False},
    "dominates": {"rate_a": lambda a: a, "rate_b": lambda a: a + 0.1, "grid": [0.0, 0.5]},
}

Case = tuple[str, Callable[..., Any], dict[str, Any]]

# Classes of which the library makes the objects, those with a subject of their own, abstract ones, and files of data.
NOT_CALLED = {
    "Agent", "Bound", "Certificate", "Decision", "Dimension", "Evaluation", "Learner", "Outcome", "Policy", "Replay",
    "Residual", "Single",
    "instances.ChoiceInstance", "instances.ChoiceTable", "instances.ContextInstance", "instances.LoggedInstance",
    "instances.RatingInstance", "instances.RatingTable", "instances.RealTable", "instances.TableInstance",
    "instances.movielens",
    "serve.Answer", "serve.AnswerSlate", "serve.Service",
    "study.Cell", "study.CellStatus", "study.MadeBy", "study.Progress",
    "study.Results", "study.Status", "study.Unit", "study.batch_size", "study.load_plugin", "study.instance_kinds",
    "study.policy_kinds", "testing.Check", "testing.Report",
    "theory.Iteration", "theory.LowerBoundFamily", "theory.Schedule", "Random",
}  # fmt: skip


def _public() -> set[str]:
    """Names of all that is public and can be called."""
    rooms = {"instances": instances, "serve": serve, "study": study, "testing": testing, "theory": theory}
    rooms = {"": adadim} | {f"{room}.": module for room, module in rooms.items()}
    names = {room: set(module.__all__) for room, module in rooms.items()}
    names[""] |= {name for name in vars(adadim) if not name.startswith("_")} | {"run"}  # not all are in its __all__
    public = {f"{room}{name}": getattr(module, name) for room, module in rooms.items() for name in names[room]}
    return {
        name
        for name, value in public.items()
        if callable(value) and not (isinstance(value, type) and issubclass(value, Exception)) and name not in NOT_CALLED
    }


def calls(count: int, folder: Path) -> Tally:
    """Replace one argument of a good call by a bad value."""
    tally, draw = Tally(), generator(6)
    cases = list(_cases(folder))
    for name in sorted(_public() - {case[0].split(" ")[0].split("(")[0] for case in cases}):
        tally.expect(False, f"{name} is public, and no case calls it")
    for case in cases:
        tally.attempt(f"{case[0]} as it should be", lambda case=case: case[1](**case[2]), ("nothing is wrong",))
    for i in range(count - len(cases)):
        name, call, good = cases[i % len(cases)]
        key = list(good)[int(draw.integers(len(good)))]
        value = BAD_VALUES[int(draw.integers(len(BAD_VALUES)))]
        what = f"{name}({key}={str(value)[:30]!r} {type(value).__name__})"
        bad = {**good, key: value}
        result = tally.attempt(what, lambda call=call, bad=bad: call(**bad), _expected_words(key, value))
        if _has_nan(result):
            tally.failures.append(f"{what}: gives NaN")
    return tally


def _expected_words(key: str, value: Any) -> tuple[str, ...]:
    """Texts of which a refusal must contain one."""
    texts = key.strip("_"), key.rstrip("s"), str(value)[:15] or "''", repr(value)[:15], type(value).__name__
    return (
        *texts,
        "GiB",
        "give exactly one of theta",
        "a study has no such key",
        "missing; a study needs",
        "key 'kind' is missing",
    )


def _has_nan(result: Any) -> bool:
    if isinstance(result, float):
        return math.isnan(result)
    return isinstance(result, np.ndarray) and result.dtype.kind == "f" and bool(np.isnan(result).any())


def _cases(folder: Path) -> Iterator[Case]:
    for name, arguments in THEORY.items():
        yield f"theory.{name}", getattr(theory, name), arguments
    for kind in study.instance_kinds():
        call = getattr(instances, kind)
        wanted = inspect.signature(call).parameters
        sizes = {k: v for k, v in SIZES.items() if k in wanted and kind not in OWN_SIZES}
        more = {k: p.default for k, p in wanted.items() if p.default is not p.empty}
        good = {**more, **sizes, **EXTRA.get(kind, {})}
        yield f"instances.{kind}", lambda call=call, **options: _drawn(call(**options)), good
    yield "instances.parameter", instances.parameter, {"shape": "decay", "intrinsic_dim": 2, "dim": 4}
    yield "instances.expressive_levels", instances.expressive_levels, {"horizon": 100, "dim": 20, "beta": 0.5}
    yield "instances.survey", instances.survey, {"data": "car"}
    yield "instances.Delay", instances.Delay, {"distribution": "uniform", "least": 2, "most": 20, "never": 0.1}
    yield from _problems()
    for kind, policy_class in policies.kinds().items():
        fields = {f.name: f for f in dataclasses.fields(policy_class) if f.init}
        good = {k: f.default for k, f in fields.items() if f.default is not dataclasses.MISSING}
        good.pop("bound", None)  # takes functions, and what those raise is not adadim's error
        if kind != "Single" and good:
            yield kind, lambda policy_class=policy_class, **options: _played(policy_class(**options)), good
    yield from _learners()
    yield from _studies(folder)


def _drawn(instance: Any) -> Any:
    """The means of the arms, or the features of a first round."""
    return next(instance.rounds()) if callable(instance.means) else instance.means


def _problems() -> Iterator[Case]:
    features = {"features": np.eye(4) * 0.9}
    yield "ActionSet", lambda features, levels: adadim.ActionSet(features, levels).base, {**features, "levels": [2, 4]}
    common = {"horizon": 12, "noise": 0.1, "reward_range": 1.0, "replications": [0]}
    levels = {"levels": {"price": 2, "text": 4}}
    yield "Problem", lambda features, **o: adadim.Problem(features, **o).actions.base, {**features, **common, **levels}
    for name in ("theta", "means"):
        more = {**features, **common, name: np.ones(4) / 2, "rewards": "gaussian"}
        yield f"Instance of {name}", lambda features, **o: adadim.Instance(features, **o).means, more
    yield "Instance.to", INSTANCE.to, {"device": "cpu"}
    yield "Problem.with_horizon", PROBLEM.with_horizon, {"horizon": 5}
    yield "Problem.with_levels", PROBLEM.with_levels, {"levels": [2, 4]}
    good = {"policy": adadim.LinUCB(), "instance": INSTANCE, "seed": 1, "record": 3}
    yield "simulate", lambda **options: adadim.simulate(**options).regret, good
    yield from _tables()
    yield from _posteriors()
    yield "recommended", adadim.recommended, {"problem": PROBLEM}
    drawn = {"outcomes": {"UCB": adadim.simulate(adadim.UCB(), INSTANCE)}, "band": "std", "title": "one"}
    yield "plot", lambda **options: adadim.plot(**options).axes[0].get_title(), drawn
    yield "start", lambda problem, seed: adadim.LinUCB().start(problem, seed=seed), {"problem": PROBLEM, "seed": 1}
    yield "truncate", lambda dim: PROBLEM.actions.truncate(dim), {"dim": 2}


def _posteriors() -> Iterator[Case]:
    x = np.random.default_rng(0).standard_normal((20, 4))
    good = {
        "features": x,
        "rewards": x[:, 0],
        "levels": {"a": 2, "b": 4},
        "prior": "uniform",
        "taper": 0.5,
        "ridge": 0.1,
    }
    yield "dimension", lambda **o: adadim.dimension(**o).probabilities, good
    chosen = {"features": x, "rewards": x[:, 0], "arms": x}
    yield "dimension of choices", lambda **o: adadim.dimension(**o).probabilities, chosen
    residual = {"explored": x, "rewards": x[:, 0], "dim": 2, "contexts": x, "floor": 0.1}
    yield "estimate_residual", lambda **o: adadim.estimate_residual(**o).value, residual
    for kind in policies.parts().values():
        fields = {f.name: f.default for f in dataclasses.fields(kind) if f.default is not dataclasses.MISSING}
        yield kind.__name__, kind, fields
    settings = {f.name: f.default for f in dataclasses.fields(serve.Settings)}
    yield "serve.Settings", serve.Settings, {**settings, "token": "x" * 20}
    address = {"url": "http://127.0.0.1:9", "token": "x" * 20, "timeout": 1.0, "attempts": 1, "pause": 0.1}
    yield "serve.Client", lambda **o: serve.Client(**o), address


def _tables() -> Iterator[Case]:
    context = {"context": np.ones((2, 3)), "arms": 2, "order": [2, 0], "shared": True}
    levels = {"arms": 2, "groups": {"lab": 2}, "shared": False}
    parts = {"constant": True, "arm": True, "context": True, "products": 2, "own": 3}
    yield "Features", adadim.Features, parts
    yield "Category", adadim.Category, {"values": ["phone", "desktop"], "unknown": "error", "missing": "indicator"}
    made = {"context": ["hour", "day"], "arm": 3, "features": adadim.Features(own=2)}
    yield "Features of an agent", lambda **o: Design.of(**o).columns, made
    for room, module in (("", adadim), ("instances.", instances)):
        yield f"{room}interactions", module.interactions, context
        yield f"{room}interaction_levels", module.interaction_levels, levels
    rows = {
        "x": np.arange(12.0),
        "arm": np.arange(12) % 2,
        "reward": np.arange(12) / 12,
        "propensity": np.full(12, 0.5),
    }
    common = {"frame": rows, "features": ["x"], "horizon": 5, "noise": 0.3, "standardise": True, "shared": False}
    more = {**common, "replications": [0, 1], "seed": 0}
    yield "instances.table of classes", lambda **o: instances.table(**o).covariates, {**more, "classes": "arm"}
    yield (
        "instances.table of choices",
        lambda **o: instances.table(**o).covariates,
        {**more, "arm": "arm", "reward": "reward"},
    )
    names = {"arm": "arm", "reward": "reward", "propensity": "propensity", "features": ["x"], "standardise": True}
    options = {"noise": 0.3, "warmup": 0.25, "level": 0.9, "seed": 0}
    good = {"policy": adadim.LinUCB(), "log": rows, **names, **options}
    yield "evaluate", _evaluated, good
    yield "evaluate arms", _evaluated, {**good, "policy": np.zeros(12, dtype=int)}


def _evaluated(**options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adadim.EvaluationWarning)  # twelve rows say nothing
        return adadim.evaluate(**options).ips.value


def _played(policy: adadim.Policy) -> Any:
    return adadim.simulate(policy, INSTANCE, record=[6]).regret


def _learners() -> Iterator[Case]:
    for policy in (adadim.LinUCB(), adadim.UCB(), adadim.EvidenceLinUCB(), adadim.Certified()):

        def update(arms: Any, rewards: Any, policy: adadim.Policy = policy) -> Any:
            learner = policy.start(PROBLEM)
            learner.select()
            return learner.update(arms, rewards)

        def learn(arms: Any, rewards: Any, policy: adadim.Policy = policy) -> Any:
            return policy.start(PROBLEM).learn(arms, rewards)

        def tell(decision: Any, rewards: Any, policy: adadim.Policy = policy) -> Any:
            learner = policy.start(PROBLEM)
            asked = learner.ask()
            return learner.tell(asked if decision is True else decision, rewards)

        name = type(policy).__name__
        yield f"{name}.update", update, {"arms": 0, "rewards": 0.5}
        yield f"{name}.learn", learn, {"arms": [0, 1], "rewards": [0.5, 0.1]}
        yield f"{name}.tell", tell, {"decision": True, "rewards": 0.5}
    certified = adadim.Certified().start(ROUNDS)
    yield "Learner.certificate", certified.certificate, {"features": np.eye(4), "allowed": np.ones(4, dtype=bool)}
    for policy in (
        adadim.LinUCB(),
        adadim.EvidenceLinUCB(),
        adadim.LinTS(),
        adadim.Greedy(),
        adadim.LinMED(),
        adadim.PriorThompson(),
        adadim.PriorElimination(),
        adadim.PriorBalancing(),
        adadim.FeelGood(draws=20),
        adadim.RadiusMixture(),
        adadim.RadiusExp3(explore=0.2),
        adadim.ALEXP(),
        adadim.IDS(draws=20),
        adadim.MaxRatio(),
        adadim.Certified(),
    ):

        def ask(features: Any, allowed: Any, rewards: Any, policy: adadim.Policy = policy) -> Any:
            learner = policy.start(ROUNDS)
            return learner.tell(learner.ask(features, allowed=allowed), rewards)

        def log(features: Any, rewards: Any, policy: adadim.Policy = policy) -> Any:
            return policy.start(ROUNDS).learn(features, rewards)

        name, x = type(policy).__name__, np.eye(4) * 0.9
        yield f"{name}.ask in rounds", ask, {"features": x, "allowed": np.ones(4, dtype=bool), "rewards": 0.5}
        yield f"{name}.learn in rounds", log, {"features": x, "rewards": np.ones(4)}


def _studies(folder: Path) -> Iterator[Case]:
    sphere = {"kind": "sphere", **SIZES}
    parts = {"name": "small", "instances": {"s": sphere}, "policies": {"p": {"kind": "Random"}}, "trials": 2}
    more = {"seed": 0, "record": 2, "only": {}, "plugins": {}, "labels": {}}
    yield "study.Study", lambda **options: study.Study(**options).check(), {**parts, **more}
    yield "Study.from_dict", lambda table: study.Study.from_dict(table), {"table": parts}
    yield "study.from_spec", study.from_spec, {"table": {"kind": "LinUCB"}}
    yield "study.to_spec", study.to_spec, {"policy": adadim.LinUCB()}
    small = study.Study(**parts)
    options = {"folder": folder / "calls", "jobs": 1, "batch": 1, "device": "cpu", "cluster": None, "shared": False}
    for room, call in (("", adadim.run), ("study.", study.run)):
        yield f"{room}run", lambda study_, call=call, **o: call(study_, **o).frame(), {"study_": small, **options}
    results = study.run(small, folder / "calls", jobs=1)
    yield "study.load", lambda **o: study.load(**o).frame(), {"folder": folder / "calls"}
    yield "study.status", study.status, {"folder": folder / "calls"}
    adadim.LinUCB().start(PROBLEM).save(folder / "learner.npz")
    saved = {"path": folder / "learner.npz", "problem": PROBLEM, "policy": None, "plugins": None}
    yield "load", lambda **o: adadim.load(**o).select(), saved
    checked = {"policy": adadim.Random(), "torch": False, "only": "value"}
    yield "testing.check_policy", lambda **o: testing.check_policy(**o).failed, checked
    # What a function given as store raises is not adadim's error.
    yield "testing.check_log", lambda **o: testing.check_log(folder, **o).failed, {"only": ["snapshot"]}
    names = {"instance": "s", "policy": "p", "trials": [0]}
    yield "Results.curves", lambda **o: results.curves(**o)[1], names
    yield "Results.final", results.final, names
    yield "Results.parameters", results.parameters, {"instance": "s"}
