"""One thread for linear algebra, and what the process had before."""

import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import adadim
from adadim.core import threads as threads_module
from adadim.core.threads import OneThread


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def three_threads():
    with threadpool_limits(3, user_api="blas"):
        yield


@pytest.mark.parametrize("main_first", [True, False])
def test_what_the_process_had_comes_back_whoever_leaves_first(main_first):
    one, inside, leave = OneThread(), threading.Event(), threading.Event()

    def other() -> None:
        with one:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with one:
        thread.start()
        assert inside.wait(10)
        with one:
            assert threads() == {1}
        if not main_first:
            leave.set()
            thread.join()
        assert threads() == {1}
    leave.set()
    thread.join()
    assert threads() == {3}
    with one:
        assert threads() == {1}
    assert threads() == {3}


def test_it_comes_back_after_an_error():
    with pytest.raises(ZeroDivisionError), OneThread():
        raise ZeroDivisionError
    assert threads() == {3}


@pytest.mark.parametrize("line", range(40))
def test_an_interrupt_at_any_line_leaves_nothing_behind(line):
    """An exception raised at a line of entering or leaving, nested or not; the next one to enter is in one thread."""
    one, passed = OneThread(), 0

    def step(frame, event, _):
        nonlocal passed
        if frame.f_code.co_filename != threads_module.__file__:
            return None
        if event == "line":
            passed += 1
            if passed > line:
                sys.settrace(None)
                raise KeyboardInterrupt
        return step

    def interrupted():
        with one, one:
            pass

    before = sys.gettrace()
    sys.settrace(step)
    try:
        interrupted()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    with one:
        assert threads() == {1}
        with one:
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {3}


def test_an_agent_decides_in_one_thread(tmp_path, monkeypatch):
    seen, eigh = [], np.linalg.eigh

    def watched(*given, **more):
        seen.append(threads())
        return eigh(*given, **more)

    with adadim.Agent.create(tmp_path / "a.db", dim=3) as agent:
        monkeypatch.setattr(np.linalg, "eigh", watched)
        rng = np.random.default_rng(0)
        for _ in range(5):
            decision = agent.ask({"a": rng.normal(size=3), "b": rng.normal(size=3)})
            agent.tell(decision.id, float(rng.normal()))
    assert seen
    assert all(found == {1} for found in seen)
    assert threads() == {3}
