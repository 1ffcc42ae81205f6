"""Made-up results of the comparison."""

import numpy as np

from made_up_results import MadeUpResults


def stub(table, split="development", numbers=None):
    """Results made by hand: {family: {policy: final regrets}}."""
    regret = {
        (family, policy): np.array(finals, dtype=float).reshape(-1, 1)
        for family, row in table.items()
        for policy, finals in row.items()
    }
    return MadeUpResults(regret, numbers=numbers, labels={"split": split})


def by_name(rows):
    return {(row.family, row.policy, row.reference): row for row in rows}
