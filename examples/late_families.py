"""How much of what it earns over chance does a policy keep when its rewards come late?

    python examples/late_families.py

On the families of the comparison in which rewards come late, development and held-out: each is played with its delay
and without. The table has (chance - late) / (chance - at once), of mean regrets, for three policies.
"""

import argparse

from rich.console import Console
from rich.table import Column, Table

import adadim
from adadim.experiments import comparison
from adadim.study import instance_kinds

parser = argparse.ArgumentParser(description="What is kept of the earnings over chance when rewards come late.")
parser.add_argument("--trials", type=int, default=5, help="number of replications")
parser.add_argument("--family", action="append", help="a family to play; may be repeated; by default all that are late")
options = parser.parse_args()

families = [f for f in comparison.FAMILIES if f.split in ("late", "late-held-out")]
policies = ("recommended", "EvidenceLinUCB()", "LinUCB()")
family_column = Column("family", overflow="fold")  # long names are broken, not cut
table = Table("group", family_column, *policies, title=f"Share kept, {options.trials} replications")
for family in families:
    if family.name in (options.family or [family.name]):
        parameters = {key: value for key, value in family.instance.items() if key != "kind"}
        instance = instance_kinds()[family.instance["kind"]](**parameters, replications=range(options.trials))
        chance = adadim.simulate(adadim.Random(), instance).final.mean()
        shares = []
        for policy in (adadim.recommended(instance.problem), adadim.EvidenceLinUCB(), adadim.LinUCB()):
            late, at_once = (adadim.simulate(policy, instance, delay=delay).final.mean() for delay in (None, 0))
            shares.append((chance - late) / (chance - at_once))
        table.add_row(family.split, family.name, *(f"{share:.2f}" for share in shares))
Console().print(table)
