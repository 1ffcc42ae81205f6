"""Conformance suites for what others write: policies (`check_policy`) and stores of an agent's log (`check_log`)."""

from adadim.testing.policies import check_policy
from adadim.testing.report import Check, ConformanceError, Report
from adadim.testing.stores import check_log

__all__ = ["Check", "ConformanceError", "Report", "check_log", "check_policy"]
