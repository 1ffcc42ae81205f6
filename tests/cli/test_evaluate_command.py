"""The command `adadim evaluate`."""

import json

import numpy as np
import polars as pl
import pytest

import adadim
from command_line import adadim_, refused


@pytest.fixture(autouse=True)
def log(working_folder):
    rng = np.random.default_rng(0)
    x, arm = rng.standard_normal((500, 2)), rng.integers(3, size=500)
    rewards = np.where(arm == 0, x[:, 0], 0.1) + 0.2 * rng.standard_normal(500)
    frame = pl.DataFrame(
        {"arm": arm, "reward": rewards, "propensity": np.full(500, 1 / 3), "age": x[:, 0], "weight": x[:, 1]}
    )
    frame.write_parquet("log.parquet")
    frame.rename({"arm": "drug", "reward": "cd4"}).drop("propensity").write_csv("trial.csv")
    return frame


def test_json_is_what_the_function_says(log):
    printed, error = adadim_("evaluate", "log.parquet", "-p", "LinUCB(dim=4, scale=0.5)", "-p", "recommended", "--json")
    assert error == ""
    found = json.loads(printed)
    assert list(found) == ["LinUCB(dim=4, scale=0.5)", "recommended"]
    for text, policy in zip(found, (adadim.LinUCB(dim=4, scale=0.5), adadim.recommended), strict=True):
        expected = adadim.evaluate(policy, log)
        for name, estimate in expected.estimates.items():
            assert found[text][name]["value"] == pytest.approx(estimate.value)
            assert found[text][name]["low"] == pytest.approx(estimate.low)
        assert found[text]["effective"] == pytest.approx(expected.effective)
        assert found[text]["warnings"] == []


def test_a_trial_in_csv(log):
    call = ["evaluate", "trial.csv", "--arm", "drug", "--reward", "cd4", "--propensity", "uniform", "-f", "age"]
    printed, _ = adadim_(*call)
    for word in ("recommended", "replay", "SNIPS", "doubly robust", "the log itself", "effective sample size"):
        assert word in printed
    found = json.loads(adadim_(*call, "--json")[0])["recommended"]
    expected = adadim.evaluate(adadim.recommended, log, features=["age"])
    assert found["dr"]["value"] == pytest.approx(expected.dr.value)


def test_a_policy_that_cannot_play_leaves_the_others_theirs(log):
    call = ["evaluate", "log.parquet", "-p", "recommended", "-p", "LinUCB++", "-p", "Random"]
    found = json.loads(adadim_(*call, "--json", code=1)[0])
    assert list(found) == ["recommended", "LinUCB++", "Random"]
    assert found["LinUCB++"].keys() == {"error"}
    assert "so this policy needs arms that stay" in found["LinUCB++"]["error"]
    assert found["recommended"]["snips"]["value"] == pytest.approx(adadim.evaluate(adadim.recommended, log).snips.value)
    assert found["Random"]["snips"]["value"] == pytest.approx(adadim.evaluate(adadim.Random(), log).snips.value)
    printed, error = adadim_(*call, code=1)
    assert error == ""
    assert (
        "LinUCB++\nerror: a mixture-arm replays arms of earlier rounds, so this policy needs arms that stay" in printed
    )
    assert printed.count("doubly robust") == 2
    refused("evaluate", "log.parquet", "-p", "LinUCB++", message="so this policy needs arms that stay")


def test_the_export_of_an_agent():
    rng = np.random.default_rng(0)
    arms = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.5, 0.5]}
    for explore in (0.3, 0.0):
        with adadim.Agent.create(f"{explore}.db", dim=2, explore=explore) as agent:
            for _ in range(15):
                decisions = agent.ask_many([None] * 20, arms)
                agent.tell_many({d.id: rng.random() < 0.3 + 0.4 * arms[d.arm][0] for d in decisions})
            agent.export(f"{explore}.parquet")
    call = ("evaluate", "0.3.parquet", "-p", "recommended", "-p", "LinTS", "--json")
    for found in json.loads(adadim_(*call)[0]).values():
        assert found["warnings"] == []
        assert found["dr"]["low"] < 0.7  # what the best arm earns
    printed, error = adadim_("evaluate", "0.0.parquet", "-p", "LinTS")
    assert error == ""
    assert "of the log had probability 1" in printed
    assert "explore=0.02" in printed
    assert "are wrong" not in printed


def test_a_warning_is_shown():
    pl.read_parquet("log.parquet").head(30).write_parquet("short.parquet")
    printed, error = adadim_("evaluate", "short.parquet", "--warmup", 0)
    assert "warning: the effective sample size is" in printed
    assert error == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-p", "LinUBC"], "there is no policy 'LinUBC'; did you mean 'LinUCB'"),
        (["-p", "LinUCB(3)"], "--policy must look like"),
        (["-p", "LinUCB(dim=__import__('os'))"], "--policy must look like"),
        (["-p", "LinUCB(rigde=1)"], "did you mean 'ridge'"),
        (["--reward", "gain"], "log.parquet has no column 'gain'"),
        (["--propensity", "1.5"], r"propensity must be a number in \(0, 1\]"),
        (["-f", "age,height"], "no column 'height'"),
    ],
)
def test_refusals(options, message):
    refused("evaluate", "log.parquet", *options, message=message)


def test_help_teaches():
    printed, _ = adadim_("evaluate", "--help")
    for word in ("Example: adadim evaluate log.parquet", "--propensity", "uniform", "warning"):
        assert word in printed


def test_the_log_of_an_agent_in_csv():
    rng = np.random.default_rng(1)
    with adadim.Agent.create("shop.db", context=1, arm=1, policy=adadim.Random()) as agent:
        agent.set_arms({"1": [0.3], "2": [0.9]})
        for _ in range(200):
            decision = agent.ask(context=rng.normal(size=1))
            agent.tell(decision.id, float(decision.arm) + 0.1 * rng.normal())
        agent.export("shop.csv")
        agent.export("shop.parquet")
    csv, parquet = (adadim_("evaluate", f"shop.{kind}", "--json") for kind in ("csv", "parquet"))
    assert csv == parquet
    assert json.loads(csv[0])["recommended"]["dr"]["value"] > 1.8
