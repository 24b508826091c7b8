"""x"""

from bridle.runtimes.acp.history import History
from collections.abc import Mapping

def read_prompts(kind: str, env: Mapping[str, str], session_id: str) -> list[History] | None:
    """x"""
    return None
