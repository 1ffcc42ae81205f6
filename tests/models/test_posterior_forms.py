"""The forms of the posterior, the choice between them, and the two array libraries."""

from typing import get_args

import numpy as np
import pytest

from adadim import models
from adadim.core.rows import Replications
from adadim.models.fixed import GRAM_BLOCK, HostFeature, HostGram
from adadim.models.tensors import DeviceFeature, DeviceGram
from posterior_states import (
    FORMS,
    STATE,
    assert_same,
    both_forms,
    feed,
    history,
    make,
    rows_of,
    unit_rows,
)

# The forms, and the choice between them


def test_forms_agree():
    rng = np.random.default_rng(19)
    features = unit_rows(rng, 3, 40, 15)
    arms, rewards = history(rng, 500, 40, 3, run=2)
    first, *others = (feed(make(features, 0.1, form), arms, rewards) for form in FORMS)
    for other in others:
        assert_same(other, first)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_automatic_form(library, request):
    wide, tall = np.eye(4), unit_rows(np.random.default_rng(20), 400, 4)
    array, kinds = (np.asarray, (HostGram, HostFeature))
    if library == "torch":
        array, kinds = (request.getfixturevalue("torch").asarray, (DeviceGram, DeviceFeature))
    for features, kind in zip((wide, tall), kinds, strict=True):
        assert type(make(array(features), 1.0, "auto")) is kind
    for form, kind in zip(FORMS, kinds, strict=True):
        assert type(make(array(wide), 1.0, form)) is kind
    with pytest.raises(ValueError, match="form must be 'auto', 'gram' or 'feature', got 'dense'"):
        make(np.eye(4), 1.0, "dense")


@both_forms
@pytest.mark.parametrize("ridge", [0, -1.0, float("nan"), float("inf"), "1"])
def test_ridge_must_be_positive(form, ridge):
    with pytest.raises(ValueError, match=f"ridge must be a positive finite number .*, got {ridge!r}"):
        make(np.eye(2), ridge, form)


# torch


@both_forms
@pytest.mark.parametrize("levels", [None, [2, 6]], ids=["plain", "expressive"])
def test_torch_agrees_with_numpy(torch, form, levels):
    rng = np.random.default_rng(21)
    features = unit_rows(rng, 4, 15, 6)
    here = make(features, 0.1, form, levels)
    there = make(torch.asarray(features), 0.1, form, levels)
    width = here.actions.arms

    def step(rows=None):
        count = 4 if rows is None else len(rows)
        arms, rewards = rng.integers(width, size=count), rng.standard_normal(count)
        for state, array in ((here, np.asarray), (there, torch.asarray)):
            state.absorb(array(arms), array(rewards), state.everyone if rows is None else rows_of(state, *rows))

    for _ in range(100):
        step()
    for _ in range(150):
        step(rng.permutation(4)[: rng.integers(1, 5)])
    assert isinstance(there.mean, torch.Tensor)
    assert_same(here, there)
    pulled, sums = rng.integers(0, 4, size=(2, width)), rng.standard_normal((2, width))
    here.rebuild(pulled, sums, rows_of(here, 2, 0))
    there.rebuild(torch.asarray(pulled), torch.asarray(sums), rows_of(there, 2, 0))
    assert_same(here, there)
    for _ in range(60):
        step(rng.permutation(4)[: rng.integers(1, 5)])
    assert_same(here, there)


# Properties


def test_forms_cover_the_public_ones():
    assert set(FORMS) == set(get_args(models.Form)) - {"auto"}


@both_forms
@pytest.mark.parametrize("levels", [None, [2, 6]], ids=["plain", "expressive"])
def test_a_mask_leaves_the_others_alone(torch, form, levels):
    """Five blocks of masked pulls: bit for bit the same outside the mask, and NumPy's posterior inside it."""
    rng = np.random.default_rng(24)
    features = unit_rows(rng, 4, 15, 6)
    here, there = make(features, 0.1, form, levels), make(torch.asarray(features), 0.1, form, levels)
    for _ in range(5 * GRAM_BLOCK + 3):
        mask = rng.random(4) < [0.9, 0.5, 0.05, 0.0]
        arms, rewards = rng.integers(here.actions.arms, size=4), rng.standard_normal(4)
        ids, before = np.flatnonzero(mask), {name: getattr(there, name).clone() for name in STATE}
        here.absorb(arms[ids], rewards[ids], rows_of(here, *ids))
        masked = Replications.where(torch.asarray(mask))
        there.absorb(torch.asarray(arms), torch.asarray(np.where(mask, rewards, 1e6)), masked)
        for name in STATE:
            np.testing.assert_array_equal(getattr(there, name)[~mask], before[name][~mask], err_msg=name)
    assert_same(here, there)
    assert sorted(here.counts.sum(axis=1).tolist())[0] == 0


@both_forms
def test_absorbing_touches_no_memory_but_its_own(torch, form):
    """Where the state lies is fixed, so that recorded operations find it."""
    rng = np.random.default_rng(25)
    state = make(torch.asarray(unit_rows(rng, 2, 9, 4)), 0.1, form)
    held = [(state, name) for name in STATE]
    held += [(state, name) for name in ("_p", "_h", "_slot")] if form == "gram" else [(state._lanes, "_w")]
    addresses = [getattr(owner, name).data_ptr() for owner, name in held]
    for _ in range(2 * GRAM_BLOCK + 1):
        arms, rewards = torch.asarray(rng.integers(9, size=2)), torch.asarray(rng.standard_normal(2))
        state.absorb(arms, rewards, state.everyone)
    assert [getattr(owner, name).data_ptr() for owner, name in held] == addresses
