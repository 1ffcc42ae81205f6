"""Operations put together to kernels: the same numbers as torch, whatever is done to whatever part of memory.

Here the kernels are run by `numpy_kernels`, which raises where threads or programs of a GPU would race; `test_cuda` has
the same on a GPU.
"""

from __future__ import annotations

import types
import warnings
from collections import Counter

import numpy as np
import pytest

import adadim
import numpy_kernels
from adadim.core import recording
from adadim.core.arrays import is_numpy
from adadim.core.recording import Recorder, on_host
from fused_cases import LAST_DIGITS, ONE_KERNEL, SEVERAL, WIDTH, compare, random_operations, tensors
from recorded_policies import HORIZON, NEVER, POLICIES, has_iterations, in_numpy, on_torch


@pytest.fixture
def fused(torch):
    """Calls a function, its operations fused; `fused.texts` has the kernels of the last call."""
    from adadim.core.fusion import Fusing

    def launch(text, *given):
        call.texts.append(text)
        numpy_kernels.FusedKernel(text, *given).run()

    def call(function, *arguments):
        call.texts = []
        mode = Fusing(launch)
        with mode:
            result = function(*arguments)
            mode.flush()
        return result

    return call


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_what_each_replication_does_by_itself_is_one_kernel(fused, name):
    compare(fused, ONE_KERNEL[name], tensors(), LAST_DIGITS)
    assert len(fused.texts) == 1


@pytest.mark.parametrize("name", SEVERAL)
def test_what_does_not_fit_one_kernel_is_done_in_order(fused, name):
    compare(fused, SEVERAL[name], tensors(), LAST_DIGITS)
    assert len(fused.texts) > 1 or "done by torch" in name


@pytest.mark.parametrize("seed", range(60))
def test_operations_at_random(fused, seed):
    compare(fused, lambda n: random_operations(n, seed), tensors(seed), LAST_DIGITS)
    assert fused.texts


def test_other_numbers_and_lengths_need_no_other_kernel(fused, torch):
    def function(x, factor):
        return (x * factor).amax(-1) + factor

    texts = []
    for count, width, factor in [(3, 5, 2.0), (4, 9, -1.5), (2, 16, 0.0)]:
        fused(function, torch.ones((count, width), dtype=torch.float64), factor)
        texts += fused.texts
    assert len(texts) == 3
    assert len(set(texts)) == 1


def test_what_nobody_can_ask_for_is_not_written(fused):
    n = tensors()
    fused(lambda: ((n.row + 1.0) * 2.0).sqrt())
    assert "".join(fused.texts).count("tl.store") == 1
    kept = []
    fused(lambda: (kept.append(n.row + 1.0), kept[0] * 2.0))
    assert "".join(fused.texts).count("tl.store") == 2
    fused(lambda: (n.row + 1.0)[:, None][:, 0])  # a view of what is forgotten
    assert "".join(fused.texts).count("tl.store") == 1


def test_a_race_would_be_noticed(torch):
    """The tests here can fail."""
    x = torch.arange(6.0, dtype=torch.float64).reshape(3, 2)
    text = "def fused(p0, n0):\n    r = tl.program_id(0)\n    v0 = tl.load(p0 + r * n0)\n"
    for lines in ("    tl.store(p0 + r * n0, v0 + 1.0)\n", "    tl.store(p0 + (r - 1) * (r > 0) * n0 + 1, v0)\n"):
        with pytest.raises(numpy_kernels.Race):
            numpy_kernels.FusedKernel(text + lines, 3, [x, 2], []).run()
    lines = "    tl.debug_barrier()\n    tl.store(p0 + r * n0, v0 + 1.0)\n"
    numpy_kernels.FusedKernel(text + lines, 3, [x, 2], []).run()
    assert x[:, 0].tolist() == [1, 3, 5]


@pytest.fixture
def captures(monkeypatch):
    """Rounds are recorded where they are: what a recording lacks is not done. Gives whether each was to be fused."""
    begun, compiled = [], set()

    class Compiles(numpy_kernels.FusedKernel):
        is_compiled = property(lambda self: self.text in compiled)

        def compile(self):
            if "tl.exp" in self.text:
                raise RuntimeError("too large")
            compiled.add(self.text)

    def capture(self, launch):
        begun.append(launch is not None)
        self.call_fused(launch)
        return types.SimpleNamespace(replay=lambda: None)

    monkeypatch.setattr(recording, "cuda_kernels", lambda reference: types.SimpleNamespace(FusedKernel=Compiles))
    monkeypatch.setattr(recording, "can_record", lambda reference: True)
    monkeypatch.setattr(Recorder, "_capture", capture)
    return begun


def rounds_of(function, x):
    """Plays two rounds, the second recorded: what that does on the host, and what its operations gave."""
    out, host = x * 0.0, []

    def play():
        on_host(host.append, "once")
        out.copy_(function(x))

    recorder = Recorder(play, x)

    def play_two(sequence):
        recorder(sequence)
        out.zero_()
        host.clear()
        recorder(sequence)
        return host, out

    return play_two


def test_kernels_that_a_recording_lacks_are_compiled_and_it_is_done_again(captures, torch):
    x = torch.arange(6.0, dtype=torch.float64)
    play = rounds_of(lambda x: x * 2.0, x)
    for sequence in ("one", "other"):
        host, out = play(sequence)
        assert torch.equal(out, x * 2.0)
        assert host == ["once"]  # not also for the recording that was thrown away
    assert captures == [True, True, True]  # the last one lacks nothing


def test_where_a_kernel_cannot_be_made_torch_does_it(captures, torch):
    x = torch.arange(6.0, dtype=torch.float64)
    play = rounds_of(lambda x: x.exp() + 1.0, x)
    with pytest.warns(RuntimeWarning, match="too large"):
        host, out = play("one")
    assert torch.equal(out, x.exp() + 1.0)
    assert host == ["once"]
    with warnings.catch_warnings(action="error"):  # it is not tried again
        assert torch.equal(play("other")[1], x.exp() + 1.0)
    assert captures == [True, False, False]


def test_rows_that_are_too_long_are_done_by_torch(fused, torch, monkeypatch):
    from adadim.core import fusion

    monkeypatch.setattr(fusion, "MAX_WIDTH", WIDTH - 1)
    compare(fused, lambda n: (n.row * 2.0 + 1.0, n.each * 2.0), tensors(), LAST_DIGITS)
    assert len(fused.texts) == 1


def test_very_long_kernels_are_divided(fused, torch):
    def function(n):
        x = n.row
        for i in range(400):
            x = x * 1.001 + i
        return x

    compare(fused, function, tensors(), LAST_DIGITS)
    assert 2 <= len(fused.texts) <= 5


@pytest.fixture
def replays(monkeypatch):
    """Rounds are fused as on a GPU; a replay fuses them again. Gives the number of kernels of every round."""
    rounds = []

    def launch(*given):
        rounds[-1] += 1
        numpy_kernels.FusedKernel(*given).run()

    class Graph:
        def __init__(self, recorder):
            self.recorder = recorder

        def replay(self):
            rounds.append(0)
            actions = recording._recording.actions = []
            self.recorder.call_fused(launch)
            recording._recording.actions = None
            for action in actions:
                action()

    monkeypatch.setattr(recording, "can_record", lambda reference: not is_numpy(reference))
    monkeypatch.setattr(Recorder, "record", lambda self: Graph(self))
    rounds.append(0)
    return rounds


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in NEVER])
def test_policies_pull_the_same_arms(name, replays, torch):
    rounds = HORIZON if has_iterations(name) else 12
    here, there = (adadim.simulate(POLICIES[name], i, seed=5) for i in (in_numpy(True, rounds), on_torch(True, rounds)))
    np.testing.assert_array_equal(there.pulls, here.pulls)
    np.testing.assert_allclose(there.regret, here.regret, rtol=0, atol=1e-9)
    assert Counter(count > 0 for count in replays)[True] >= 9
