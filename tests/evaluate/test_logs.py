"""What a log may look like, and what is refused."""

import numpy as np
import polars as pl
import pytest

import adadim
from adadim.errors import FileError, InvalidTypeError, InvalidValueError
from adadim.play.logs import read_log

PLAIN = {
    "id": ["d1", "d2", "d3", "d4"],
    "arm": ["b", "a", "b", "a"],
    "reward": [1.0, 0.5, None, 0.0],
    "probability": [0.25, 0.75, 0.25, 0.75],
    "age": [30, 40, 50, 70],
}
OFFERS = {
    "id": ["d1", "d2", "d3"],
    "time": [0.0, 1.0, 2.0],
    "arm": ["y", "x", "z"],
    "probability": [0.5, 0.5, 1 / 3],
    "reward": [1.0, 0.0, 2.0],
    "offered": [["x", "y"], ["x", "z"], ["x", "y", "z"]],
    "offered_features": [[[1.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [1.0, 2.0]], [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]],
}


@pytest.mark.parametrize("kind", ["dict", "records", "polars", "pandas", "csv", "parquet"])
def test_a_plain_table(kind, tmp_path):
    frame = pl.DataFrame(PLAIN)
    if kind == "pandas":
        source = pytest.importorskip("pandas").DataFrame(PLAIN)
    elif kind == "records":
        source = frame.to_dicts()
    elif kind in ("csv", "parquet"):
        source = tmp_path / f"log.{kind}"
        (frame.write_csv if kind == "csv" else frame.write_parquet)(source)
    else:
        source = PLAIN if kind == "dict" else frame
    log = read_log(source, standardise=False)
    assert (len(log), log.names, log.arms, log.dim, log.uniform) == (3, ("a", "b"), 2, 5, False)
    np.testing.assert_array_equal(log.chosen, [1, 0, 0])
    np.testing.assert_array_equal(log.rewards, [1.0, 0.5, 0.0])
    np.testing.assert_array_equal(log.propensities, [0.25, 0.75, 0.75])
    np.testing.assert_array_equal(log.offers(1, 3), adadim.interactions(np.array([[40.0], [70.0]]), 2))


@pytest.mark.parametrize("kind", ["dict", "records", "polars", "parquet"])
@pytest.mark.parametrize("flat", [False, True])
def test_rows_that_bring_their_arms(kind, flat, tmp_path):
    columns = dict(OFFERS)
    if flat:
        columns["offered_features"] = [np.ravel(offer).tolist() for offer in OFFERS["offered_features"]]
    source = columns if kind == "dict" else pl.DataFrame(columns)
    if kind == "dict":
        for name in ("offered", "offered_features"):
            values = np.empty(3, dtype=object)
            values[:] = columns[name]
            columns[name] = values
    if kind == "records":
        source = source.to_dicts()
    if kind == "parquet":
        source.write_parquet(tmp_path / "log.parquet")
        source = tmp_path / "log.parquet"
    log = read_log(source)
    assert (len(log), log.arms, log.dim, log.uniform) == (3, 3, 2, True)
    np.testing.assert_array_equal(log.chosen, [1, 0, 2])
    np.testing.assert_array_equal(log.sizes, [2, 2, 3])
    for offer, expected in zip(log.offers(0, 3), OFFERS["offered_features"], strict=True):
        np.testing.assert_array_equal(offer, expected)


def test_an_agents_export():
    """A context before the features of each arm; rows of other systems, without offers; rows that were not random."""
    frame = pl.DataFrame(
        {
            "decision": [1, 2, 3, 4],
            "time": [0.0, 1.0, 2.0, 3.0],
            "arm": ["y", None, "x", "x"],
            "features": [[9.0, 1.0], [9.0, 5.0], [8.0, 2.0], [7.0, 2.0]],
            "reward": [1.0, 0.0, 2.0, 3.0],
            "probability": [0.5, 0.5, 0.25, None],
            "policy": [1, None, 1, 2],
            "context": [[9.0], None, [8.0], [7.0]],
            "offered": [["x", "y"], None, ["x", "z"], ["x"]],
            "offered_features": [[2.0, 1.0], None, [2.0, 3.0], [2.0]],
        }
    )
    log = read_log(frame)
    assert (len(log), log.dim, log.arms) == (2, 2, 2)
    np.testing.assert_array_equal(log.rewards, [1.0, 2.0])
    np.testing.assert_array_equal(log.propensities, [0.5, 0.25])
    np.testing.assert_array_equal(log.chosen, [1, 0])
    np.testing.assert_array_equal(log.offers(0, 2), [[[9.0, 2.0], [9.0, 1.0]], [[8.0, 2.0], [8.0, 3.0]]])


@pytest.mark.parametrize("kind", ["polars", "pandas", "records"])
def test_some_rows_have_a_context_and_others_do_not(kind):
    frame = pl.DataFrame(
        {
            "arm": ["y", "x"],
            "reward": [1.0, 2.0],
            "probability": [0.5, 0.5],
            "context": [[9.0], None],
            "offered": [["x", "y"], ["x", "z"]],
            "offered_features": [[2.0, 1.0], [7.0, 2.0, 7.0, 3.0]],
        }
    )
    source = pytest.importorskip("pandas").DataFrame(frame.to_dicts()) if kind == "pandas" else frame
    log = read_log(frame.to_dicts() if kind == "records" else source)
    np.testing.assert_array_equal(log.offers(0, 2), [[[9.0, 2.0], [9.0, 1.0]], [[7.0, 2.0], [7.0, 3.0]]])


@pytest.mark.filterwarnings("ignore::adadim.EvaluationWarning")
def test_arms_that_change_are_judged_too():
    """Rows offer two or three of four arms; the estimate for always the last arm is by hand."""
    rng = np.random.default_rng(0)
    offered, features, chosen, rewards, chances = [], [], [], [], []
    for _ in range(500):
        names = sorted(rng.choice(list("wxyz"), size=rng.integers(2, 4), replace=False).tolist())
        at = int(rng.integers(len(names)))
        offered.append(names)
        features.append([[1.0, float(ord(name) - ord("w"))] for name in names])
        chosen.append(names[at])
        rewards.append(features[-1][at][1] + 0.1 * rng.standard_normal())
        chances.append(1 / len(names))
    frame = pl.DataFrame(
        {"arm": chosen, "reward": rewards, "probability": chances, "offered": offered, "offered_features": features}
    )
    last = np.array([len(names) - 1 for names in offered])
    found = adadim.evaluate(last, frame)
    agrees = np.array([names[-1] == name for names, name in zip(offered, chosen, strict=True)])
    assert found.ips.value == pytest.approx(np.mean(agrees / np.array(chances) * np.array(rewards)))
    assert found.matched == agrees.sum()
    learned = adadim.evaluate(adadim.LinUCB(), frame)
    best = np.mean([offer[-1][1] for offer in features])
    assert learned.dr.low < best < learned.dr.high  # it learns that later letters pay
    assert learned.dr.value == pytest.approx(best, abs=0.1)


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"reward": [None] * 4}, {}, "no row with a reward"),
        ({}, {"reward": "rewards"}, "no column 'rewards'; did you mean 'reward'"),
        ({}, {"propensity": "p"}, "no column 'p'"),
        ({"probability": [None] * 4}, {}, "is empty: the arms were not chosen at random"),
        ({"probability": [0.5, 0.0, 0.5, 0.5]}, {}, r"must hold probabilities in \(0, 1\], got 0 in row 2"),
        ({}, {"propensity": 1.5}, r"propensity must be a number in \(0, 1\], got 1.5"),
        ({"arm": ["a"] * 4}, {}, "at least two different values"),
        ({"age": ["old"] * 4}, {}, "column 'age' of the log must hold numbers"),
        ({}, {"features": "age"}, "features must be a list of names of columns"),
    ],
)
def test_refused_tables(changes, arguments, message):
    with pytest.raises((InvalidValueError, InvalidTypeError), match=message):
        read_log({**PLAIN, **changes}, **arguments)


def test_probabilities_must_be_said():
    plain = {name: values for name, values in PLAIN.items() if name != "probability"}
    with pytest.raises(InvalidValueError, match="does not say with which probability"):
        read_log(plain)
    assert read_log(plain, propensity="uniform").uniform
    assert read_log(plain, propensity=0.5).uniform
    assert not read_log(plain, propensity=0.25).uniform


def test_refused_offers():
    wrong = pl.DataFrame({**OFFERS, "arm": ["y", "y", "z"]})
    with pytest.raises(InvalidValueError, match="row 2 of the log: column 'arm' must be one of the arms offered"):
        read_log(wrong)
    with pytest.raises(InvalidValueError, match="no row with a reward, a probability and the arms"):
        read_log(pl.DataFrame(OFFERS).with_columns(offered=pl.lit(None)), propensity=0.5)
    with pytest.raises(InvalidValueError, match="row 1 of the log: column 'arm' must be one of the arms offered"):
        read_log(pl.DataFrame({**OFFERS, "offered": [1, 2, 3]}))
    for values in ([["a", "b"]] * 3, [[None, 1.0]] * 3, [1.0, 2.0, 3.0]):
        with pytest.raises(InvalidValueError, match="row 1 of the log: offered_features must hold finite features"):
            read_log(pl.DataFrame({**OFFERS, "offered_features": values}))
    for context in ([["a"]] * 3, [[None]] * 3, [[[1.0]]] * 3, [1.0, 2.0, 3.0]):
        with pytest.raises(InvalidValueError, match="row 1 of the log: context must be a list of finite numbers"):
            read_log(pl.DataFrame({**OFFERS, "context": context}))
    features = [OFFERS["offered_features"][0], [[1.0], [2.0]], OFFERS["offered_features"][2]]
    with pytest.raises(InvalidValueError, match="row 2 of the log has 1 features per arm, the first has 2"):
        read_log(pl.DataFrame({**OFFERS, "offered_features": features}))


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        read_log(tmp_path / "log.csv")
    with pytest.raises(InvalidValueError, match=r"must be a .parquet or .csv file"):
        read_log(tmp_path / "log.txt")


@pytest.mark.parametrize(
    ("policy", "arguments", "message"),
    [
        (np.zeros(2, dtype=int), {}, r"an arm for each of the 3 rows"),
        (np.full(3, 2), {}, r"must be in 0..1"),
        (np.full((3, 2), 0.4), {}, "sum to 1"),
        ("LinUCB", {}, "policy must be a Policy"),
        (adadim.LinUCB, {}, r"policy must be an adadim policy such as LinUCB\(\)"),
        (lambda problem: 3, {}, "policy must be an adadim policy such as LinUCB"),
        (np.zeros(3, dtype=int), {"model": np.zeros((3, 3))}, "model must hold finite predicted rewards"),
        (np.zeros(3, dtype=int), {"level": 1.0}, "level must be"),
        (adadim.LinUCB(), {"warmup": 1.0}, "warmup must be"),
    ],
)
def test_refused_policies(policy, arguments, message):
    with pytest.raises((InvalidValueError, InvalidTypeError), match=message):
        adadim.evaluate(policy, PLAIN, **arguments)
