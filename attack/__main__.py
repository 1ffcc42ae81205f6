"""``python -m attack [SUBJECT ...] [--share 0.1] [--seed 7]``: attack adadim, and say what was tried and what failed.

Each run tries other cases, unless it is given the seed of an earlier one, which that printed.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from attack import damage
from attack.agents import agents
from attack.calls import calls
from attack.files import damaged_blocks, forged_learners, learner_files, results_folders, study_files
from attack.interrupts import interrupts
from attack.numbers import numbers
from attack.processes import environments, kills, names, together
from attack.service import service
from attack.tally import Tally

SUBJECTS: dict[str, tuple[Callable[[int, Path], Tally], int]] = {
    "study files": (study_files, 500),
    "results folders": (results_folders, 400),
    "damaged blocks": (damaged_blocks, 2000),
    "learner files": (learner_files, 500),
    "forged learners": (forged_learners, 2000),
    "calls": (calls, 5000),
    "numbers": (numbers, 500),
    "names": (names, 100),
    "kills": (kills, 100),
    "several processes": (together, 6),
    "environments": (environments, 37),
    "agent": (agents, 2000),
    "interrupts": (interrupts, 1000),
    "service": (service, 1000),
}
SHOWN = 60
LARGEST_SEED = 10**6


def attacked(subject: str, share: float = 1.0) -> Tally:
    """One subject, with a share of its cases."""
    attack, count = SUBJECTS[subject]
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder).resolve() / "a" / "b"  # what a bad path such as ../x makes stays in the folder
        inside.mkdir(parents=True)
        try:
            os.chdir(inside)
            return attack(max(1, round(share * count)), inside)
        finally:
            os.chdir(before)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the attack; the exit code is the number of subjects with failures."""
    parser = argparse.ArgumentParser(prog="python -m attack", description=__doc__)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"of {', '.join(SUBJECTS)}; by default all")
    parser.add_argument("--share", type=float, default=1.0, help="share of the cases to try")
    parser.add_argument("--seed", type=int, help="which of many attacks; by default a new one, which is printed")
    options = parser.parse_args(arguments)
    for subject in options.subjects:
        if subject not in SUBJECTS:
            parser.error(f"no subject {subject!r}; choose from {', '.join(SUBJECTS)}")
    if options.seed is not None and options.seed < 0:
        parser.error(f"--seed must be a non-negative integer, got {options.seed}")
    damage.seed = secrets.randbelow(LARGEST_SEED) if options.seed is None else options.seed
    print(f"--seed {damage.seed}", flush=True)
    failed = 0
    print(f"| {'subject':18} | {'cases':>6} | {'checks':>6} | {'failed':>6} | {'seconds':>7} |", flush=True)
    print(f"|{'-' * 20}|{'-' * 7}:|{'-' * 7}:|{'-' * 7}:|{'-' * 8}:|")
    for subject in options.subjects or SUBJECTS:
        began = time.monotonic()
        tally, count = attacked(subject, options.share), max(1, round(options.share * SUBJECTS[subject][1]))
        took = time.monotonic() - began
        print(f"| {subject:18} | {count:6} | {tally.tried:6} | {len(tally.failures):6} | {took:7.0f} |", flush=True)
        for failure in tally.failures[:SHOWN]:
            print(f"    {failure}", file=sys.stderr)
        failed += bool(tally.failures)
    return failed


if __name__ == "__main__":
    sys.exit(main())
