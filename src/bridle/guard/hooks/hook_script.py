"""The hook process: a few lines of shell, hardly slower than starting a shell.

A runtime starts a hook for each tool call, so it must be cheap. The shell never touches the payload
and starts no other program: it writes its process id into a FIFO, and the host reads the payload
from the shell's own stdin and answers. Where the host cannot reach that stdin it asks for a copy;
where there is no host the fallback judge runs. Whatever goes wrong, the call is refused.

The agent's own processes can open every pipe of the hook (`/proc/PID/fd`). So the pipe on which the
hook waits only wakes it up: the answer is a file in the guard's folder, which a confined agent
cannot write, named by the hook's process id and by a number that the hook draws for this one
question. A line that another process writes into the pipe leads to a file that does not exist, and
so to a refusal. The fallback judge allows by its exit status, which only the kernel reports.

Once the judge has taken a call, it alone holds the pipe's other end, so that the hook stops waiting
when the judge ends. Before that, and in case a living judge does not answer, the hook checks the
clock once a second, unless the runtime stops a tool whose hook takes too long.
"""

import shlex
import shutil

from bridle.turns.guard_contract import HookShape

SECONDS = 25
"""How long a hook waits for the judge before it refuses."""
BLOCKED = 3
"""Exit status with which the fallback judge refuses."""

SILENT = "the guard does not answer; the call is refused. Report it, and stop if it stays so."
KILLED = "the guard's hook was ended before it had an answer; the call is refused."
LOST = "the guard cannot be reached and could not judge alone; the call is refused."

PAYLOAD, COPY, ANSWERS = 5, 4, 3
"""Descriptors of the hook: its payload, a copy of it on demand, the pipe that it waits on. A shell
moves its stdin while it reads from elsewhere, so the payload has its own number."""

_SCRIPT = """\
{foretold}refuse() {{ printf '%s\\n' {silent}; exit {status}; }}
trap refuse HUP INT TERM
exec 5<&0
alone() {{
  said=$({alone} <&5)
  case "$? $said" in
    '0 allow') {consent} exit 0 ;;
    '{blocked} block '*) printf '%s\\n' "${{said#block }}"; exit {status} ;;
  esac
  printf '%s\\n' {lost}; exit {status}
}} 2>/dev/null
lives() {{
  read -r stat 2>/dev/null </proc/{pid}/stat || return 1
  case $stat in *') '[ZX]' '*) return 1 ;; *' {born} '*) return 0 ;; esac
  return 1
}}
[ -p {fifo} ] || alone
lives || alone
exec 3<<X
x
X
exec 3<>/proc/self/fd/3 <&3
read -r said
[ "$said" = x ] || alone
me=$$
{whoami}{time}hear() {{
  until read -r $late said rest; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || refuse
    [ -z "$late" ] || tick
  done
}}
ask() {{
  read -r key </proc/sys/kernel/random/uuid || alone
  printf '%s\\n' "$me $key$1" 1<>{fifo} || alone
  hear
  [ "$said" = here ] || refuse
  exec 3</proc/self/fd/3 <&3
  hear
}}
answer() {{ read -r said rest 2>/dev/null <{answers}.$me.$key || refuse; }}
tries=0 late=
{start}ask
answer
if [ "$said" = send ]; then
  trap - CHLD
  exec 3<>/proc/self/fd/3 <&3 4<<X
x
X
  exec 4<>/proc/self/fd/4
  read -r said <&4
  [ "$said" = x ] || refuse
  {again}ask ' 4'
  [ "$said" = go ] || refuse
  trap - CHLD
  {cat} <&5 >&4 3>&-
  exec 4>&-
  {again}hear
  answer
fi
{stop}case $said in
  allow) {consent} exit 0 ;;
  block) printf '%s\\n' "$rest"; exit {status} ;;
esac
refuse
"""

_TIME = """\
left={seconds}
tick() {{
  left=$((left - 1))
  [ $left -gt 0 ] && lives || refuse
  if [ -z "$late" ]; then
    {nap}
  fi
}}
"""
"""How the hook measures time: in bash by a timeout of `read`, elsewhere by a process that
sleeps."""
_NAP = "{sleep} 1 >/dev/null 2>&1 3>&- 4>&- 5>&- </dev/null &"
_START = """\
if [ -n "$BASH_VERSION" ]; then late='-t 1'; else
  trap tick CHLD
  {nap}
fi
"""
_AGAIN = """\
[ -n "$late" ] || {{
    trap tick CHLD
    {nap}
  }}
  """
_STOP = """\
trap - CHLD
[ -n "$late" ] || kill $! 2>/dev/null
"""


def hook_script(
    shape: HookShape,
    *,
    fifo: str,
    answers: str,
    pid: int,
    born: str,
    alone: list[str],
    seconds: int,
) -> str:
    """The script of a session's hooks.

    `pid` and `born` (its start time in `/proc`) name the process that answers; `alone` is the
    command that judges when that process is gone. `answers` is how the paths of answers begin
    (`answer_path`).
    """
    quote = shlex.quote
    limit = [shutil.which("timeout") or ""]
    bounded = [*limit, str(seconds), *alone] if limit[0] else alone
    consent = shape.allowed().decode()
    nap = _NAP.format(sleep=quote(shutil.which("sleep") or "sleep"))
    timed = shape.timed
    foretold = f"printf '%s\\n' {quote(shape.refused(KILLED).decode())} >&2\n"
    return _SCRIPT.format(
        foretold=foretold if shape.foretold else "",
        time=_TIME.format(seconds=seconds, nap=nap) if timed else "",
        start=_START.format(nap=nap) if timed else "",
        again=_AGAIN.format(nap=nap) if timed else "",
        stop=_STOP if timed else "",
        silent=quote(shape.refused(SILENT).decode()),
        lost=quote(shape.refused(LOST).decode()),
        status=shape.refusal_status,
        consent=f"printf '%s\\n' {quote(consent)};" if consent else "",
        alone=shlex.join(bounded),
        fifo=quote(fifo),
        answers=quote(answers),
        blocked=BLOCKED,
        pid=pid,
        born=born,
        whoami=_OWN_ID if shape.watched else "",
        cat=quote(shutil.which("cat") or "cat"),
    )


_OWN_ID = "read -r me stat </proc/self/stat || alone\n"
"""The subshell's own process id; `$$` is that of its parent."""


def answer_path(answers: str, pid: int, key: str) -> str:
    """Where the hook `pid` looks for the answer to the question that it named `key`."""
    return f"{answers}.{pid}.{key}"


def hook_command(path: str, shape: HookShape) -> str:
    """The command that runs the script at `path` in the shell that was started for the hook; a
    missing script means a refusal.

    If the runtime allows a call whose hook was killed, the script runs in a subshell, and the
    parent shell refuses instead.
    """
    quoted = shlex.quote(path)
    there = f"[ -r {quoted} ] || {{ echo 'the guard is gone' >&2; exit 2; }}"
    if not shape.watched:
        return f"{there}; . {quoted}"
    lost = shlex.quote(shape.refused(KILLED).decode())
    status = shape.refusal_status
    return (
        f"{there}; {{ (. {quoted}); said=$?; }} 2>/dev/null; "
        f"[ $said = 0 ] || [ $said = {status} ] || {{ printf '%s\\n' {lost}; exit {status}; }}; "
        "exit $said"
    )
