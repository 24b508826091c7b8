"""The doctor: checks what Bridle knows about an agent against the CLI on this machine."""

from bridle.doctor.diagnosis import examine, examine_all
from bridle.doctor.report import Diagnosis, Finding

__all__ = ["Diagnosis", "Finding", "examine", "examine_all"]
