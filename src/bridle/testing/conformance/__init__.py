"""The conformance kit: proves on the real CLI, offline, that a runtime keeps Bridle's contract.

from bridle.testing import conformance

report = conformance.check(MyRuntime())
assert report.passed, report.failures

test_conformance = conformance.as_test(MyRuntime)   # or as tests, one for each check
"""

from bridle.testing.conformance.pytest_cases import as_test
from bridle.testing.conformance.report import CheckResult, CheckStatus, Report
from bridle.testing.conformance.runner import NAMES, Kit, check

__all__ = ["NAMES", "CheckResult", "CheckStatus", "Kit", "Report", "as_test", "check"]
