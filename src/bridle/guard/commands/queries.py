"""Programs of many uses, and the first words with which they only look.

A phrase that ends in a dot is a query only when nothing follows it. The options of a query are
listed too: one list for all, because what such options mean differs little from tool to tool.
"""

import re

from bridle.guard.commands.options import read
from bridle.guard.effects import Command, Effect, Unlisted
from bridle.guard.shell.values import Value
from bridle.guard.tables import names

_CHANGES = names("""
    set delete del fix edit rm add install uninstall update upgrade create remove unset push pull
    apply use flush replace change append clean sync stop start restart kill exec publish clear
    """)
_FLAGS = names("silent quiet verbose debug json no-color no-pager all help version s q v d")
"""Options before the first word that have no value."""
_FORMATS = names("json yaml yml wide name names table text plain csv tsv jsonl pretty short long")

_TABLE = """
npm: ls list ll la view info show search outdated root prefix bin explain fund audit ping why
  version. query config-get config-list config-ls config. run. pkg-get cache-ls help doctor
pnpm: ls list ll why outdated root bin view info help config-get config-list run.
yarn: list info why outdated versions help config-get config-list bin run.
bun: pm-ls pm-bin pm-cache outdated run.
pip: list show freeze check search config-list config-get debug help index inspect hash
uv: tree version. help pip-list pip-show pip-tree pip-check pip-freeze python-list python-find
  cache-dir tool-list
poetry: show check about search version. env-info env-list config-list
cargo: tree metadata search locate-project pkgid read-manifest verify-project version help
go: list version env doc vet help mod-graph mod-why mod-verify
gem: list search query info environment which contents
bundle: list show info outdated check
composer: show info outdated validate why depends licenses
gradle gradlew: tasks projects dependencies properties
conda: list info search env-list
pipx: list
rustup: show which check toolchain-list target-list component-list
nvm: ls list current which use version
pyenv: versions version which root init
dotnet: list nuget-list sln-list
helm: list status version show lint template get history search
docker podman: ps images image-ls image-inspect image-history logs inspect version info
  stats top port diff history search events container-ls container-inspect network-ls volume-ls
  network-inspect volume-inspect compose-ps compose-logs compose-config compose-ls compose-images
  context-ls system-df
docker-compose: ps logs config images
kubectl: get describe logs version explain api-resources api-versions top cluster-info diff
  config-view config-current-context config-get-contexts config-get-clusters config. auth-can-i
terraform: plan validate show output providers version graph state-list state-show
  workspace-list workspace-show
crontab: -l
dpkg: -l -L -s -S --list --listfiles --status --search
apt: list show search policy
apt-cache: show search policy depends rdepends
brew: list info search --prefix config doctor shellenv deps uses outdated
mount: -l.
sysctl: -a -n
systemctl: status list-units list-unit-files is-active is-enabled show cat list-timers is-failed
tmux: ls list-sessions list-windows list-panes list-clients has-session has list-keys
  list-commands -V
screen: -ls -list -v
ip: addr a address link l route r neigh n -s
busctl: list status tree introspect monitor
hg svn: log status st diff show annotate blame cat info ls list help version root
  id heads summary paths files
7z: l t i h b
ar: t p tv
jar: tf -tf tvf -tvf
openssl: version x509 verify dgst sha1 sha256 sha512 md5 asn1parse crl ciphers list help pkey rsa ec
  errstr prime s_client req rand
pre-commit: help validate-config validate-manifest
"""


def _phrases(text: str) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for row in re.split(r"\n(?=\S)", text.strip()):
        head, _, rest = row.partition(": ")
        phrases = frozenset(rest.split())
        found.update((name, phrases) for name in head.split())
    return found


QUERIES = _phrases(_TABLE)

_OPTIONS = names("""
    all all-namespaces namespace long verbose quiet silent json yaml depth tree no-color color help
    version tail since limit state label comments jq repo no-deps format
    format-version outdated recursive check diff no-trunc follow timestamps until filter
    latest top-level invert edges prefix target features no-default-features all-features deps
    test find src short dev production prod only omit long-list installed upgradable
    show-labels watch selector field-selector sort-by no-headers context container
    previous no-pager full type failed plain lines user uptodate outdated-only editable
    not-required exclude verify files why graph stat patch revision rev limit oneline
    in noout text dates subject issuer serial fingerprint enddate startdate connect servername
    showcerts sha1 sha256 sha512 md5 hash pubkey inform outform CAfile untrusted hex modulus
    lts purpose check_private_key starttls alpn brief pubin nocert app json-output explain
    pretty name-only names-only names raw group groups with-deps all-groups
    """)
_LETTERS = frozenset("aAdefiklmnpqrstvRLj0123456789Q")
_FORMAT = re.compile(
    r"(?:jsonpath|custom-columns|go-template|template|json|yaml)(?:-as-json)?=.*", re.DOTALL
)


def asked(command: Command) -> list[Effect] | None:
    """The effects of a query: its options that are not listed. None when it is no query."""
    phrases = QUERIES.get(command.name)
    if phrases is None:
        return None
    args = command.args
    operands = read(args, short="nCR", long=("namespace", "repo", "chdir")).operands
    words = [o.text or "" for o in operands]
    texts = [a.text or "" for a in args]
    if any(text.endswith(";") for text in texts):
        # Another command of the program follows.
        return None
    before = texts[texts.index(words[0]) - 1] if words and texts.index(words[0]) else ""
    valued = before[:1] == "-" and "=" not in before and before.lstrip("-") not in _FLAGS
    if valued and before not in phrases and words[1:]:
        # The word may be the value of the option before it; then the next one decides.
        words = words[1:]
    if not args and command.name == "mount":
        return []
    first, second = words[0] if words else "", words[1] if len(words) > 1 else ""
    checks = first in ("fmt", "format") and bool({"-check", "--check"}.intersection(texts))
    known = (
        (
            texts
            and texts[0][:1] == "-"
            and texts[0] in phrases
            and not any(text in _CHANGES or "=" in text for text in texts[1:])
        )
        or (first in phrases and second not in _CHANGES and not _CHANGES.intersection(words[2:4]))
        or checks
        or (f"{first}-{second}" in phrases and not _CHANGES.intersection(words[2:3]))
        or (len(words) == 1 and f"{first}." in phrases)
    )
    if not known:
        return None
    return _unlisted(command, args)


def _unlisted(command: Command, args: tuple[Value, ...]) -> list[Effect]:
    for number, arg in enumerate(args):
        lead = arg.lead
        if not lead.startswith("-") or lead == "-":
            if arg.open_start:
                return [Unlisted(f"{command.name} with an argument only known at run time")]
            continue
        if arg.text == "--":
            break
        name, equals, _ = lead.lstrip("-").partition("=")
        if lead in QUERIES[command.name] or name in _OPTIONS:
            continue
        if lead[:2] != "--" and set(name) <= _LETTERS and not equals:
            continue
        after = lead.partition("=")[2] if equals else None
        if after is None and args[number + 1 :]:
            after = args[number + 1].text
        shapes = after is not None and (after in _FORMATS or _FORMAT.fullmatch(after) is not None)
        if name in ("o", "output") and shapes:
            continue
        return [Unlisted(f"{command.name} {lead}")]
    return []
