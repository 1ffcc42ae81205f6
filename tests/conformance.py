"""What each policy can play, tried out: kinds of offers, libraries, late rewards, masks, files, arms that are added.

    PYTHONPATH=tests python tests/conformance.py docs/architecture.md

writes the table into the page, between the marks that stand there.
"""

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import adadim
from adadim.errors import AdadimError, DecisionError
from policy_examples import MADE_WITH, PUBLIC, by_default

OFFERS = ("fixed", "contexts", "disjoint", "arriving")
ASPECTS = ("late", "masked", "saved", "add_arms")
BEGIN, END = "<!-- what each policy can play: begin -->\n", "<!-- what each policy can play: end -->\n"
ROUNDS, ARMS, DIM, LATE_BY = 24, 6, 5, 9
FEATURES = np.random.default_rng(3).standard_normal((ARMS, DIM)) / 4


def problem_of(offer, library):
    """A small problem of the kind."""
    known = {"horizon": 200, "noise": 0.2, "reward_range": 1.0}
    if offer in ("contexts", "disjoint"):
        problem = adadim.Problem(arms=ARMS, dim=DIM, disjoint=offer == "disjoint", **known)
    elif offer == "arriving":
        problem = adadim.Problem(FEATURES, arrives=[1, 1, 1, 10, 20, 500], **known)
    else:
        problem = adadim.Problem(FEATURES, **known)
    return problem.to("cpu") if library == "torch" else problem


def offered(offer, problem, rng):
    """What comes with a round, if anything does."""
    if offer == "contexts":
        features = rng.standard_normal((ARMS, DIM)) / 4
        return [features if problem.xp is np or "numpy" in problem.xp.__name__ else problem.xp.asarray(features)]
    return [rng.standard_normal(DIM) / 4] if offer == "disjoint" else []


def plays(policy, offer, library="numpy", aspect=None):
    """Whether a policy plays so; refusing with a sentence of the library's own is how it says that it does not."""
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            learner = policy.start(problem_of(offer, library), seed=2)
        except AdadimError:
            return False
        if aspect == "add_arms":
            return adds_arms(policy)
        waiting = []
        for t in range(ROUNDS):
            allowed = None
            if aspect == "masked":
                allowed = np.ones(ARMS, dtype=bool)
                allowed[t % ARMS] = False
            try:
                decision = learner.ask(*offered(offer, learner.problem, rng), allowed=allowed)
            except DecisionError:
                if aspect != "late":
                    raise
                return False
            except AdadimError:
                if aspect != "masked":
                    raise
                return False
            arm = int(decision.arms)
            assert 0 <= arm < ARMS
            assert allowed is None or allowed[arm]
            assert offer != "arriving" or arm < 3 or t >= 9
            waiting.append((decision, float(arm) / 10 + 0.2 * rng.standard_normal()))
            if aspect == "saved" and t == ROUNDS // 2:
                learner = restored(policy, learner)
                decision, reward = waiting.pop()
                learner.tell(decision, reward)
            while len(waiting) > (LATE_BY if aspect == "late" else 0):
                learner.tell(*waiting.pop(int(rng.integers(len(waiting)))))
    return True


def restored(policy, learner):
    """The learner from its file, while a decision is open."""
    with tempfile.TemporaryDirectory() as folder:
        learner.save(Path(folder, "learner.npz"))
        return adadim.load(Path(folder, "learner.npz"), learner.problem, policy=policy)


def adds_arms(policy):
    """Whether arms can be added while it plays, and are chosen then."""
    problem = adadim.Problem(FEATURES[:3], arms=ARMS, horizon=200, noise=0.2, reward_range=1.0)
    try:
        learner = policy.start(problem)
        learner.add_arms(FEATURES[3:5])
    except AdadimError:
        return False
    for _ in range(ROUNDS):
        learner.update(learner.select(), 0.1)
    return True


def row(policy):
    """Everything about one policy: on which offers, with torch, and each aspect on the first offer that it plays."""
    offers = {offer: plays(policy, offer) for offer in OFFERS}
    torch = {offer: can and plays(policy, offer, "torch") for offer, can in offers.items()}
    first = next(offer for offer, can in offers.items() if can)
    return offers | {"torch": torch == offers} | {aspect: plays(policy, first, aspect=aspect) for aspect in ASPECTS}


def table():
    """The matrix as Markdown, a row for each policy of the library."""
    heads = (*OFFERS, "torch", *ASPECTS)
    lines = [
        "| policy | " + " | ".join(head.replace("_", " ") for head in heads) + " |",
        "|---" * (len(heads) + 1) + "|",
    ]
    for name, kind in PUBLIC.items():
        policy = (by_default(kind) + MADE_WITH.get(name, []))[0]
        cells = row(policy)
        lines.append(f"| `{name}` | " + " | ".join("yes" if cells[head] else "" for head in heads) + " |")
    return "\n".join(lines) + "\n"


def written(page):
    """The table that stands in a page."""
    return page.split(BEGIN)[1].split(END)[0]


if __name__ == "__main__":
    path = Path(sys.argv[1])
    page = path.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    path.write_text(f"{before}{BEGIN}{table()}{END}{after}", encoding="utf-8")
