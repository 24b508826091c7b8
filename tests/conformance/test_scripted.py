"""The kit as a stranger uses it in tests: one case for each check, all passing on `scripted`."""

from bridle.runtimes.scripted import ScriptedRuntime
from bridle.testing import conformance

test_conformance = conformance.as_test(ScriptedRuntime)
