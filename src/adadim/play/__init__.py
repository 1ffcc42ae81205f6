"""Running a policy on a problem with a known truth (`simulate`), and on a log of past choices (`evaluation`)."""
