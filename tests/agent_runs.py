"""Small agents for tests, and the regression they must agree with, written out."""

import numpy as np

import adadim
from adadim.agent.tables import TableLog
from adadim.core.randomness import Purpose, Streams


class Hands:
    """A clock that stands still until it is moved."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


def failing_writes(patch, kind, error, written=0):
    """Let every agent fail to write events of a kind, by this error, after so many of them were written."""
    append = TableLog.append

    def failing(log, events, time):
        events = list(events)
        if any(isinstance(event, kind) for event in events):
            append(log, events[:written], time)
            raise error
        append(log, events, time)

    patch.setattr(TableLog, "append", failing)


def written(path):
    """All that is in the file of an agent, with what is in the log beside it."""
    return [file.read_bytes() for file in (path, path.with_name(f"{path.name}-wal"))]


def offers(count, arms=6, dim=4, seed=0):
    """Arms by name, new in every round."""
    table = np.random.default_rng(seed).normal(size=(count, arms, dim))
    return [{f"arm {k}": row for k, row in enumerate(rows)} for rows in table]


def played(path, count=40, seed=0, **options):
    """An agent that asked `count` times and was told at once, with the features and rewards it saw."""
    agent = adadim.Agent.create(path, dim=4, **options)
    features, rewards = [], []
    rng = np.random.default_rng(seed + 1)
    for arms in offers(count, seed=seed):
        decision = agent.ask(arms)
        features.append(arms[decision.arm])
        rewards.append(float(features[-1] @ [1.0, -0.5, 0.0, 0.0] + 0.3 * rng.normal()))
        agent.tell(decision.id, reward=rewards[-1])
    return agent, np.array(features), np.array(rewards)


def ridge(features, rewards, ridge, weights=None):
    """V and theta of the textbook's ridge regression."""
    weights = np.ones(len(rewards)) if weights is None else weights
    v, b = ridge * np.eye(features.shape[1]), np.zeros(features.shape[1])
    for x, r, w in zip(features, rewards, weights, strict=True):
        v += w * np.outer(x, x)
        b += w * r * x
    return v, np.linalg.solve(v, b)


def numbers(estimates):
    """Means and widths as one array."""
    return np.array(list(estimates.values()))


def state_of(agent):
    """An agent's status without where its store is and how large: a database changes its size by itself."""
    return {key: value for key, value in agent.status().items() if key not in {"path", "bytes"}}


# What is inside an agent, for what no call tells: nothing else in the tests takes it out.


def log_of(agent):
    """The log that an agent keeps open."""
    return agent._log


def model_of(agent):
    """What an agent has of its log in memory."""
    return agent._model


def decider_of(agent):
    """What decides for an agent, as of the last call."""
    return agent._decider


def learner_of(agent):
    """The learner of an agent as the last decision left it."""
    return decider_of(agent).learner


def scores_of(agent, arms, decided=None):
    """Scores by which the agent's next decision among these arms would be made, after so many (by default, its own)."""
    agent.status()  # what is overdue expires
    number = agent._next_number
    table = np.array(list(arms.values()), dtype=float)
    return scores_by(decider_of(agent).prepare(number), table, number - 1 if decided is None else decided)


def scores_by(learner, table, decided, seed=0):
    """Scores by which a learner chooses among arms (K, d), so many decisions having been made; None if by none."""
    learner.resume(decided, Streams(seed, Purpose.POLICY, [0]))
    scores = learner.choose(learner.everyone.with_offer(table[None], None)).scores
    return None if scores is None else scores[0]
