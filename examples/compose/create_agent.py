"""Makes the agent "shop" in a database, if it is not there yet, and lets a role ask and tell: URL ROLE."""

import sys
from pathlib import Path

import psycopg

import adadim

url, role = sys.argv[1:]
try:
    adadim.Agent.open(url, name="shop").close()
except adadim.FileError:
    with adadim.Agent.create(url, name="shop", context=["hour", "age"], arm=["price", "margin"]) as agent:
        agent.set_arms({"sku-1": [0.9, 0.2], "sku-2": [0.4, 0.5], "sku-3": [0.1, 0.9]})
grants = Path(__file__).with_name("grants.sql").read_text(encoding="utf-8")
with psycopg.connect(url) as connection:
    connection.execute(grants.replace("TO worker;", f"TO {role};"))
