"""The seed of an attack: a new one for each run by hand, which is printed, or the one that is given."""

import attack_folder  # noqa: F401 (it makes the attack importable)
import pytest

from attack import __main__ as program
from attack import damage
from attack.tally import Tally


@pytest.fixture
def drawn(monkeypatch):
    """What the subjects of each run draw first."""
    numbers = []

    def subject(number):
        def attack(count, folder):
            numbers.append(damage.generator(number).random())
            return Tally(tried=count)

        return attack

    monkeypatch.setattr(damage, "seed", 0)
    monkeypatch.setattr(program, "SUBJECTS", {"one": (subject(1), 1), "two": (subject(2), 1)})
    return numbers


def printed_seed(capsys):
    word, seed = capsys.readouterr().out.splitlines()[0].split()
    assert word == "--seed"
    return seed


def test_each_run_tries_other_cases_and_prints_its_seed(drawn, capsys):
    seeds = set()
    for _ in range(3):
        assert program.main([]) == 0
        seeds.add(printed_seed(capsys))
    assert len(seeds) > 1
    assert len(set(drawn)) == 2 * len(seeds)


def test_a_seed_that_was_printed_tries_the_same_cases_again(drawn, capsys):
    program.main([])
    seed = printed_seed(capsys)
    program.main(["--seed", seed])
    program.main(["two", "--seed", seed])
    assert drawn[2:] == [drawn[0], drawn[1], drawn[1]]
    assert printed_seed(capsys) == seed


@pytest.mark.parametrize("words", [["no subject"], ["--seed", "-1"], ["--seed", "x"]])
def test_what_cannot_be_run_is_refused(words, drawn, capsys):
    with pytest.raises(SystemExit):
        program.main(words)
    assert words[-1] in capsys.readouterr().err
    assert drawn == []
