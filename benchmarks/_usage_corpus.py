"""A home folder full of Claude Code transcripts, in the schema that Claude Code 2.1 writes.

The same seed gives the same files. `write_corpus` returns what they truly add up to, counted while
they are written: every message id once, whether it has several lines, is in a fork's copy, or is a
sub-agent's.
"""

import json
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODELS = ("claude-opus-4-8", "claude-sonnet-4-6", "claude-haiku-4-5-20251001")
_TEXT = (
    "the session reads a line and the parser keeps what the record says about tokens while "
    'def main(path: str) -> int:\n    return 0\n "quoted" \\ escaped \t tab '
    "naïve café → usage input_tokens output assistant model cache "
)
_WORDS = _TEXT.split(" ")

Counts = dict[str, int]


class Corpus:
    """Writes sessions until `size` bytes are reached, and counts what they used."""

    def __init__(self, home: Path, size: int, seed: int) -> None:
        self._home = home
        self._size = size
        self._random = random.Random(seed)
        self._texts = [self._text(length) for length in (200, 600, 1500, 4000, 9000, 20000)]
        self._clock = 1_790_000_000.0
        self.written = 0
        self.files = 0
        self.lines = 0
        self.total: Counts = {
            "input_tokens": 0,
            "output_tokens": 0,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
            "requests": 0,
        }
        self.naive = 0
        """What adding up every line would say, all classes together."""

    def write(self) -> None:
        """Write sessions, about one in eight with a fork, one in four with a sub-agent."""
        while self.written < self._size:
            project = f"/home/dev/project-{self._random.randrange(24)}"
            folder = self._home / ".claude" / "projects" / project.replace("/", "-")
            folder.mkdir(parents=True, exist_ok=True)
            session = self._id()
            lines = list(self._session(project, session, self._random.randrange(20, 160)))
            self._file(folder / f"{session}.jsonl", lines)
            if self._random.random() < 0.25:
                agents = folder / session / "subagents"
                agents.mkdir(parents=True)
                agent = self._id().replace("-", "")[:17]
                inner = self._session(project, session, 12, agent)
                self._file(agents / f"agent-{agent}.jsonl", list(inner))
            if self._random.random() < 0.125:
                self._fork(folder, project, lines)

    def _fork(self, folder: Path, project: str, lines: list[dict[str, Any]]) -> None:
        session = self._id()
        copied = [{**line, "sessionId": session} for line in lines]
        for line in copied:
            self._count_line(line)
        head = {"type": "mode", "mode": "normal", "sessionId": session}
        began = {"type": "queue-operation", "operation": "enqueue", "timestamp": self._time()}
        own = list(self._session(project, session, 10))
        self._file(folder / f"{session}.jsonl", [head, began, *copied, *own])

    def _session(
        self, project: str, session: str, requests: int, agent: str = ""
    ) -> Iterator[dict[str, Any]]:
        parent: str | None = None
        model = self._random.choice(MODELS)
        common = {
            "userType": "external",
            "entrypoint": "sdk-cli",
            "cwd": project,
            "sessionId": session,
            "version": "2.1.197",
            "gitBranch": "main",
        }
        head: dict[str, Any] = {"isSidechain": bool(agent)} | ({"agentId": agent} if agent else {})
        for _ in range(requests):
            own = self._id()
            content: Any = self._random.choice(self._texts[:3])
            if parent is not None:
                content = [
                    {
                        "tool_use_id": f"toolu_{own[:20]}",
                        "type": "tool_result",
                        "content": self._random.choice(self._texts),
                        "is_error": False,
                    }
                ]
            yield {
                "parentUuid": parent,
                **head,
                "promptId": session,
                "type": "user",
                "message": {"role": "user", "content": content},
                "uuid": own,
                "timestamp": self._time(),
                **common,
            }
            for line in self._answer(own, head, common, model):
                parent = line["uuid"]
                yield line

    def _answer(
        self, parent: str, head: dict[str, Any], common: dict[str, Any], model: str
    ) -> Iterator[dict[str, Any]]:
        long_lived = self._random.random() < 0.3
        write = self._random.randrange(0, 5000)
        usage = {
            "input_tokens": self._random.randrange(1, 60),
            "cache_creation_input_tokens": write,
            "cache_read_input_tokens": self._random.randrange(0, 150_000),
            "output_tokens": self._random.randrange(1, 3000),
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "service_tier": "standard",
            "cache_creation": {
                "ephemeral_1h_input_tokens": write if long_lived else 0,
                "ephemeral_5m_input_tokens": 0 if long_lived else write,
            },
            "inference_geo": "",
            "iterations": [],
            "speed": "standard",
        }
        blocks: list[dict[str, Any]] = [
            {"type": "text", "text": self._random.choice(self._texts[:3])}
        ]
        if self._random.random() < 0.5:
            thought = {"type": "thinking", "thinking": self._texts[1], "signature": self._texts[2]}
            blocks.insert(0, thought)
        if self._random.random() < 0.8:
            arguments = {"file_path": "/tmp/a.py", "content": self._random.choice(self._texts[:5])}
            blocks.append(
                {
                    "type": "tool_use",
                    "id": f"toolu_{parent[:20]}",
                    "name": "Write",
                    "input": arguments,
                }
            )
        identity, request = f"msg_{self._id()}", f"req_{self._id()}"
        self._count(usage)
        for block in blocks:
            own = self._id()
            line = {
                "parentUuid": parent,
                **head,
                "message": {
                    "model": model,
                    "id": identity,
                    "type": "message",
                    "role": "assistant",
                    "content": [block],
                    "stop_reason": "tool_use",
                    "stop_sequence": None,
                    "usage": usage,
                },
                "requestId": request,
                "type": "assistant",
                "uuid": own,
                "timestamp": self._time(),
                **common,
            }
            self._count_line(line)
            parent = own
            yield line

    def _count(self, usage: dict[str, Any]) -> None:
        self.total["input_tokens"] += usage["input_tokens"]
        self.total["output_tokens"] += usage["output_tokens"]
        self.total["cache_read_tokens"] += usage["cache_read_input_tokens"]
        self.total["cache_write_tokens"] += usage["cache_creation_input_tokens"]
        self.total["requests"] += 1

    def _count_line(self, line: dict[str, Any]) -> None:
        usage = line["message"].get("usage") if line["type"] == "assistant" else None
        if usage:
            self.naive += (
                usage["input_tokens"]
                + usage["output_tokens"]
                + usage["cache_read_input_tokens"]
                + usage["cache_creation_input_tokens"]
            )

    def _file(self, path: Path, lines: list[dict[str, Any]]) -> None:
        text = "".join(
            json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines
        )
        data = text.encode()
        path.write_bytes(data)
        self.written += len(data)
        self.files += 1
        self.lines += len(lines)

    def _text(self, length: int) -> str:
        words: list[str] = []
        while sum(map(len, words)) < length:
            words += self._random.choices(_WORDS, k=20)
        return " ".join(words)

    def _id(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _time(self) -> str:
        from datetime import UTC, datetime

        self._clock += self._random.random() * 20
        moment = datetime.fromtimestamp(self._clock, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def write_corpus(home: Path, megabytes: int, seed: int = 7) -> dict[str, Any]:
    """Fill `home`; returns its true totals, kept beside the files. Files that exist are reused."""
    facts = home / "facts.json"
    if facts.exists():
        known: dict[str, Any] = json.loads(facts.read_text())
        return known
    corpus = Corpus(home, megabytes * 1_000_000, seed)
    corpus.write()
    found = {
        "total": corpus.total,
        "naive_tokens": corpus.naive,
        "bytes": corpus.written,
        "files": corpus.files,
        "lines": corpus.lines,
    }
    facts.write_text(json.dumps(found))
    return found
