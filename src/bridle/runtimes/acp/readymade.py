"""The agents that come ready-made, and the way to make one of any other."""

import msgspec

from bridle.runtimes.acp import agents
from bridle.runtimes.acp.adapter import AcpRuntime
from bridle.runtimes.acp.agents import PLAIN, AcpAgent
from bridle.runtimes.contract import AdapterSettings


class OpencodeAcp(AcpRuntime):
    """OpenCode over ACP (`opencode acp`)."""

    id = "opencode-acp"
    agent = agents.OPENCODE
    binary = agent.command
    instruction_path = agent.instruction_file
    install_hint = agent.install


class GeminiAcp(AcpRuntime):
    """Gemini CLI over ACP (`gemini --acp`)."""

    id = "gemini-acp"
    agent = agents.GEMINI
    binary = agent.command
    instruction_path = agent.instruction_file
    install_hint = agent.install


class CopilotAcp(AcpRuntime):
    """GitHub Copilot CLI over ACP (`copilot --acp`)."""

    id = "copilot-acp"
    agent = agents.COPILOT
    binary = agent.command
    instruction_path = agent.instruction_file
    install_hint = agent.install


class ClineAcp(AcpRuntime):
    """Cline over ACP (`cline --acp`)."""

    id = "cline-acp"
    agent = agents.CLINE
    binary = agent.command
    instruction_path = agent.instruction_file
    install_hint = agent.install


class ClaudeAcp(AcpRuntime):
    """Claude Code behind its ACP adapter (`claude-agent-acp`)."""

    id = "claude-acp"
    tells_version = False
    agent = agents.CLAUDE
    binary = agent.command
    instruction_path = agent.instruction_file
    install_hint = agent.install


class CodexAcp(AcpRuntime):
    """Codex behind its ACP adapter (`codex-acp`)."""

    id = "codex-acp"
    tells_version = False
    agent = agents.CODEX
    binary = agent.command
    instruction_path = agent.instruction_file
    install_hint = agent.install
    confines_itself = True


class DeclaredAcp(AcpRuntime):
    """An agent that nobody wrote a row for: the protocol as it is written."""

    binary = ""
    instruction_path = "AGENTS.md"
    stability = "experimental"
    tells_version = False

    def __init__(self, id: str, agent: AcpAgent) -> None:
        super().__init__(AdapterSettings(binary=agent.command))
        # These are facts of the class for every other runtime; here one class serves many.
        vars(self).update(
            id=id,
            agent=agent,
            dialects=(agent,),
            binary=agent.command,
            instruction_path=agent.instruction_file,
            install_hint=agent.install,
        )


def declared_agent(id: str, **fields: object) -> DeclaredAcp:
    """A runtime for an agent of which only `fields` of its row are known."""
    return DeclaredAcp(id, msgspec.structs.replace(PLAIN, **fields))
