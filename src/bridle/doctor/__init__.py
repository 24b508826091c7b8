"""The doctor: whether what Bridle knows about an agent is true of the CLI on this machine."""

from bridle.doctor.examine import examine, examine_all
from bridle.doctor.report import Diagnosis, Finding

__all__ = ["Diagnosis", "Finding", "examine", "examine_all"]
