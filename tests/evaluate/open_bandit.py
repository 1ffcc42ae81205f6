"""obp, the Open Bandit Pipeline: its estimators and the sample of its data, without what it plots with."""

import importlib
import importlib.util
import sys
import types
from pathlib import Path

import pytest

SETS = [(policy, campaign) for policy in ("random", "bts") for campaign in ("all", "men", "women")]


def obp_folder():
    found = importlib.util.find_spec("obp")
    if found is None or not found.submodule_search_locations:
        pytest.skip("obp is not installed: pip install --no-deps obp==0.4.1")
    return Path(next(iter(found.submodule_search_locations)))


def obp_estimators():
    """The module obp.ope.estimators; the package around it would import seaborn and more."""
    folder = obp_folder()
    for name in ("torch", "pandas", "sklearn"):
        pytest.importorskip(name, reason=f"obp's estimators import {name}")
    if "obp.ope" not in sys.modules:
        package = types.ModuleType("obp.ope")
        package.__path__ = [str(folder / "ope")]
        sys.modules["obp.ope"] = package
    return importlib.import_module("obp.ope.estimators")


def open_bandit_file(policy, campaign):
    return obp_folder() / "dataset" / "obd" / policy / campaign / f"{campaign}.csv"
