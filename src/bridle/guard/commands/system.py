"""Commands that reach beyond the session: agents, terminals, other users, machines, the system."""

import itertools
import re

from bridle.guard.commands.options import read
from bridle.guard.effects import Command, Deny, Effect, Mutates, Write
from bridle.guard.shell.values import AGENTS, Value, literal, names

AGENT_CLIS = names("""
    claude claude-code codex pi gemini gemini-cli copilot opencode cline aider goose amp
    cursor-agent qwen qwen-code kimi crush droid openhands auggie kiro kiro-cli acpx cn plandex
    gptme openclaw happy vibe swe-agent sweagent devin jules codebuff trae-cli iflow rovodev letta
    mentat opencode-ai aider-chat pi-coding-agent gemini-cli-core
    """)
"""Coding agents: started from inside one they would run without its guard."""

AGENT_PACKAGES = re.compile(
    r"@?(anthropic-ai/claude-code|openai/codex|mariozechner/pi-coding-agent|google/gemini-cli"
    r"|github/copilot|opencode-ai|sourcegraph/amp|qwen-code/qwen-code)(@.*)?\Z"
)

SESSION_CONTROL = names("""
    tmux screen zellij byobu dtach abduco tmate dvtm wezterm kitten ttyrec reptyr tmuxinator mosh
    conspy
    """)

_REFUSED: dict[str, tuple[str, frozenset[str]]] = {
    "agent-cli": ("starts another agent, outside this guard", AGENT_CLIS),
    "session-control": ("reaches other agents' terminals", SESSION_CONTROL),
    "privilege": ("runs with other rights", names("""
        sudo sudoedit su doas pkexec runuser setpriv chroot unshare nsenter capsh newgrp sg visudo
        machinectl pivot_root bwrap gosu su-exec sudo-rs run0 calife""")),
    "scheduler": ("runs commands outside this session", names("""
        crontab at batch systemd-run anacron atrm launchctl schtasks""")),
    "system": ("changes the machine outside the worktree", names("""
        mount umount swapon swapoff useradd userdel usermod groupadd passwd chpasswd chsh chfn
        iptables nft ufw sysctl modprobe insmod rmmod reboot shutdown halt poweroff init service ip
        update-alternatives dpkg rpm apt apt-get aptitude dnf yum apk pacman zypper brew port snap
        flatpak nix-env hostnamectl systemctl timedatectl loginctl setcap""")),
    "sandbox-escape": ("makes a service act outside this session",
                       names("dbus-send gdbus busctl qdbus")),
    "container": ("runs commands where this guard does not reach", names("""
        lxc lxc-attach lxc-execute incus apptainer singularity systemd-nspawn distrobox toolbox
        vagrant multipass limactl lima colima ctr crictl runc crun proot""")),
}  # fmt: skip
"""By rule: what programs that reach beyond the session do, and the programs. Their read-only uses
are in `readers`."""

REFUSED = {
    name: Deny(rule, f"{name} {does}")
    for rule, (does, programs) in _REFUSED.items()
    for name in programs
}


def refused(command: Command) -> list[Effect]:
    """A program that reaches beyond the session; an agent that prints its version does not."""
    asks = len(command.args) == 1 and _first(command) in ("-V", "-v", "-h")
    return [] if asks and command.name in AGENT_CLIS else [REFUSED[command.name]]


def _first(command: Command) -> str | None:
    return command.args[0].text if command.args else ""


_AGENT_PATH = re.compile(
    r"claude-code|@openai/codex|pi-coding-agent|@google/gemini-cli|opencode-ai|@github/copilot"
)


def agent_script(script: Value) -> list[Effect]:
    """A refusal when a program file given to an interpreter is a coding agent."""
    shown = script.show()
    if shown.rstrip("/").rpartition("/")[2] in AGENT_CLIS or _AGENT_PATH.search(shown):
        return [Deny("agent-cli", f"{shown} starts another agent, outside this guard")]
    return []


def version_control(command: Command) -> list[Effect]:
    """hg, svn, jj and similar: reading is free, sending is a push."""
    words = [a.text or "" for a in command.args if not a.lead.startswith("-")]
    first = words[0] if words else ""
    sends = {"push", "dcommit", "submit", "send", "import"}
    if first in sends or words[:2] == ["git", "push"]:
        return [Deny("git-push", f"{command.name} {first} sends work to a remote")]
    if command.name == "svn" and first in names("commit ci delete copy mkdir move lock"):
        return [Deny("git-push", f"svn {first} changes the remote repository")]
    return [Mutates(f"{command.name} {first}")] if first else []


def kill(command: Command) -> list[Effect]:
    """kill: never every process, never process 1; the shell's own jobs are free."""
    args = list(command.args)
    if args and args[0].text in ("-l", "-L", "--list", "-0"):
        return []
    first = args[0].text or "" if args else ""
    if first in ("-s", "-n", "--signal"):
        args = args[2:]
    elif first.startswith("-") and first != "--" and len(args) > 1:
        args = args[1:]
    targets = [arg for arg in args if arg.text != "--"]
    for target in targets:
        if AGENTS in target.parts:
            return [Deny("session-control", "kill may end other agents")]
        if target.text in ("-1", "1", "-0"):
            return [Deny("session-control", f"kill {target.text} ends other agents' processes")]
    own = all((t.text or "").startswith("%") or t.holds("atom") for t in targets)
    return [] if own else [Mutates("kill ends a process")]


def kill_by_name(command: Command) -> list[Effect]:
    """pkill and killall: what they match may belong to other agents."""
    options = read(command.args, short="suUgGPtFOork", long=("signal", "user", "uid", "parent"))
    if options.has("u", "U", "user", "uid", "v", "inverse", "g", "t"):
        return [Deny("session-control", f"{command.name} ends processes of the whole user")]
    for operand in options.operands:
        text = operand.text
        if text is None or re.fullmatch(r"[\W_]*", text) or _names_agent(text):
            return [Deny("session-control", f"{command.name} may end other agents")]
        if _names_hook(text):
            return [Deny("session-control", f"{command.name} may end the guard's hooks")]
    return [Mutates(f"{command.name} ends processes by name")]


_HOOK = "sh -c [ -r /.local/state/bridle/run/guard-0/hook.sh ]; . /bridle/guard/0/hook.sh dash bash"
"""What a guard hook's command line contains, wherever the user's home is, and its shells."""


def _names_hook(text: str) -> bool:
    """Whether a pattern for processes may match the guard's hooks.

    The pattern is not run: an agent's expression could take forever.
    """
    for choice in re.sub(r"\[[^\]]{0,99}\]", " ", text.lower()).split("|"):
        if all(word in _HOOK for word in re.findall(r"[a-z0-9]+", choice)):
            return True
    return False


def _names_agent(text: str) -> bool:
    words = set(re.findall(r"[a-z][a-z0-9-]*", text.lower()))
    common = {"node", "python", "python3", "bun", "tmux", "bash", "sh", "zsh", "bridle", "ssh"}
    hosts = AGENT_CLIS | SESSION_CONTROL | common
    if words & (AGENT_CLIS | SESSION_CONTROL | {"bridle"}):
        return True
    return text.lower() in hosts


REMOTE = names("ssh sftp telnet rsh rlogin rexec ftp lftp sshpass autossh socat nc ncat netcat")


def remote_shell(command: Command) -> list[Effect]:
    """ssh and similar."""
    if _first(command) in ("-V", "-G", "--version"):
        return []
    letters = "".join(a.lead[1:] for a in command.args if re.match(r"-[a-zA-Z]+\Z", a.lead))
    asks = "z" in letters and not set(letters) & set("ecl")
    if asks and command.name in ("nc", "ncat", "netcat"):
        # It only checks whether a port answers.
        return []
    return [Deny("remote", f"{command.name} runs commands outside this session")]


def github(command: Command) -> list[Effect]:
    """gh, glab and hub: reading is free; anything that writes to the forge counts as a push."""
    words = [a.text or "" for a in command.args if not a.lead.startswith("-")]
    reading = {"view", "list", "diff", "status", "checks", "watch", "ls"}
    if not words or words[0] in ("--version", "help", "status", "browse", "search", "version"):
        return []
    if words[0] == "api":
        texts = [a.text or "" for a in command.args]
        writing = any(
            t in ("-f", "-F", "--field", "--raw-field", "--input")
            or re.match(r"(-X|--method=?)(?!GET)[A-Z]", t)
            or t.startswith(("-f", "-F"))
            for t in texts
        ) or any(a in ("-X", "--method") and b != "GET" for a, b in itertools.pairwise(texts))
        return [Deny("git-push", "changes the forge by its API")] if writing else []
    if len(words) > 1 and words[1] in reading:
        opens = any(a.text in ("-w", "--web") for a in command.args)
        return [Mutates(f"{command.name} opens a browser")] if opens else []
    if words[0] == "auth" and words[1:2] == ["status"]:
        return []
    if words[:2] in (["pr", "checkout"], ["co", ""]) or words[0] == "co":
        return [Deny("git-branch", "checks out a branch that is not yours")]
    if words[:2] in (["repo", "clone"], ["run", "download"], ["release", "download"]):
        options = read(command.args, short="DR", long=("dir", "repo"))
        places = options.values("D", "dir") + options.operands[3:4]
        written = [Write(place, "merge") for place in places]
        return [Mutates(f"{command.name} {words[0]} {words[1]}"), *written]
    return [Deny("git-push", f"{command.name} {' '.join(words[:2])} changes the forge")]


_OWN_DENIED = names("run serve acp mcp model-server demo daemon init conformance")
_SESSION_READ = names("list show logs export wait")


def orchestrator(command: Command) -> list[Effect]:
    """Bridle's own command: mail, status and similar; never sessions without a guard."""
    words = [a.text or "" for a in command.args if not a.lead.startswith("-")]
    first = words[0] if words else ""
    second = words[1] if len(words) > 1 else ""
    texts = {a.text for a in command.args}
    if "--unguarded" in texts:
        return [Deny("agent-cli", "starts an agent without a guard")]
    if first in _OWN_DENIED or (first == "chain" and second == "run"):
        return [Deny("agent-cli", f"{command.name} {first} starts agents outside this guard")]
    if first == "session" and second not in _SESSION_READ:
        return [Deny("session-control", f"{command.name} session {second} reaches other sessions")]
    if first == "guard" and second in ("deploy", "undeploy", "remove"):
        return [Deny("path-protected", "changes the guard's deployment")]
    if first == "hooks" and second not in ("list", "show", "status", ""):
        return [Deny("path-protected", "changes the guard's hooks")]
    if first == "runtime" and "--probe" in texts:
        return [Deny("agent-cli", f"{command.name} runtime {second} --probe starts agents")]
    if (first, second) in (("runtime", "set"), ("config", "init")):
        return [Deny("path-protected", "changes the orchestrator's configuration")]
    return []


def tracker(command: Command) -> list[Effect]:
    """A safe command whose data is its own; `sd` with other words is an in-place editor."""
    words = [a.text or "" for a in command.args]
    first = words[0] if words else ""
    if command.name == "sd" and not re.fullmatch(
        r"|list|ls|ready|show|create|update|close|reopen|dep|deps|sync|blocked|stats|prime|init|doctor"
        r"|search|label|labels|claim|assign|comment|tree|next|edit|new|status|info|log|export|help"
        r"|block|unblock|tpl|migrate|onboard|config|--\w[\w-]*|-[hV]",
        first,
    ):
        return [Write(a, "entry") for a in command.args[2:]] or [Mutates("sd")]
    return []


# --- containers: which of the user's files they share ---

CONTAINERS = names("docker podman nerdctl docker-compose podman-compose buildah finch")


def container(command: Command) -> list[Effect]:
    """docker and podman: what is mounted, and with which rights."""
    words = [a.text or "" for a in command.args if not a.lead.startswith("-")]
    first = words[0] if words else ""
    if not first:
        return []
    if first in ("push", "login") or words[:2] == ["image", "push"]:
        return [Deny("publish", f"{command.name} {first}")]
    effects: list[Effect] = [Mutates(f"{command.name} {first}")]
    options = read(
        command.args, short="ov", flags=("privileged",),
        long=("volume", "mount", "output", "cap-add", "device", *_FILES, *_NAMESPACES),
    )  # fmt: skip
    shares = any(v.text == "host" for v in options.values(*_NAMESPACES))
    if shares or options.has("privileged", "cap-add", "device"):
        effects.append(Deny("container", f"{command.name} with rights of the machine"))
    for value in options.values("v", "volume", "mount"):
        effects.extend(_mounted(value))
    effects.extend(Write(v) for v in options.values(*_FILES))
    if first in ("build", "buildx", "save", "export", "image", "container"):
        effects.extend(_saved(options.values("o", "output")))
    if first == "cp" and len(words) > 2 and ":" not in words[-1]:
        effects.append(Write(command.args[-1], "merge"))
    return effects


_FILES = ("iidfile", "cidfile", "metadata-file")
_NAMESPACES = ("pid", "ipc", "userns", "uts")


def _saved(values: list[Value]) -> list[Effect]:
    """What -o names: a path, or `type=local,dest=PATH`."""
    dests = [(re.search(r"dest=([^,]*)", value.lead), value) for value in values]
    places = [literal(match[1]) if match else value for match, value in dests]
    return [Write(place, "merge") for place in places if place.text != "-"]


def _mounted(value: Value) -> list[Effect]:
    lead = value.lead
    if "type=" in lead or "source=" in lead or "src=" in lead:
        match = re.search(r"(?:source|src)=([^,]*)", lead)
        if re.search(r",(readonly|ro)(=true|=1)?(,|\Z)", lead):
            return []
        if "type=bind" in lead and match:
            return [Write(literal(match.group(1)), "merge")]
        return []
    text = value.show()
    fields = text.split(":")
    if len(fields) > 2 and fields[2] == "ro":
        return []
    if not fields[0].startswith(("/", ".", "~", "$", "<")):
        return []
    if "docker.sock" in fields[0]:
        return [Deny("container", "mounts the container daemon's socket")]
    if value.text is None:
        return [] if not value.holds("any") else [Write(value, "merge")]
    return [Write(literal(fields[0]), "merge")]
