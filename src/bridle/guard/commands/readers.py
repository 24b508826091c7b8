"""Commands that only read: by name where every option only reads, otherwise by name and option.

A row of `LISTED` names the options with which the command reads. `x` is a letter, `x:` a letter
with a value, `x~` one whose value is a plain word; `--name`, `--name=` and `--name~` are long
options in the same way, `--name?` takes its value after `=` only, `-name` is a word with a single
dash, and `+` adds what checkers have in common. A command with another option does not count as
reading: roles that only read are refused it, and the general rule applies to the others.
"""

import os
import re

import msgspec

from bridle.guard.commands.files import old_style
from bridle.guard.commands.given import given
from bridle.guard.commands.options import read
from bridle.guard.effects import Command, Deny, Doubt, Effect, Mutates, Unlisted, Write, hook
from bridle.guard.shell.values import EMPTY, Value, names

READERS = names("""
    cat head tail wc ls dir pwd echo printf grep egrep fgrep zgrep cut tr nl tac rev fold fmt column
    comm cmp diff stat du df basename dirname realpath readlink uname whoami id groups who w uptime
    free ps pgrep pidof pstree true false : test [ expr seq sleep md5sum sha1sum sha224sum sha256sum
    sha384sum sha512sum b2sum cksum sum od hexdump strings readelf ldd which whereis type whatis
    help more zcat bzcat xzcat jq gron getent getconf locale tty nproc lscpu lsblk arch cal bc
    factor numfmt join paste tput clear printenv vmstat netstat ping dig nslookup host pr expand
    unexpand exa eza lsd uuidgen wait jobs fg bg break continue return exit ulimit umask yes shopt
    col lsdiff zipinfo tokei top shellcheck hadolint yamllint shasum envsubst
    """)
"""Commands that only read and print, whatever their options."""

_ROWS = """
sort shuf: b d f g h i M n R r V z u c C m s e k: t: S: i: n: --key= --field-separator=
  --buffer-size= --parallel= --reverse --numeric-sort --unique --zero-terminated --version-sort
  --human-numeric-sort --general-numeric-sort --random-sort --check --merge --stable --ignore-case
  --dictionary-order --month-sort --debug --sort~ --ignore-leading-blanks --batch-size=
  --files0-from= --input-range= --head-count= --repeat --echo
uniq: c d D i u z f: s: w: --count --repeated --all-repeated? --ignore-case --unique --skip-fields=
  --skip-chars= --check-chars= --zero-terminated --group? >second
xxd: a b c: d e g: i l: o: s: p u r E --cols= >second
tree: a d f i l n r s t u p g h D F L: P: I: C J X Q N --dirsfirst --filelimit= --charset=
  --noreport --gitignore --prune --du --si --matchdirs --ignore-case --sort~ --filesfirst
  --fromfile --depth=
less zless: N R S F X i I M m n e E f g G J q Q r s w b: h: j: p: x: z: --line-numbers --no-init
  --RAW-CONTROL-CHARS --chop-long-lines --quit-if-one-screen --pattern=
bat: p P n A l: r: H: --plain --paging~ --style= --color~ --language= --line-range=
  --highlight-line= --number --theme~ --decorations~ --show-all --wrap~ --tabs~ --list-themes
  --list-languages --file-name= --diff --no-pager --ignored-suffix=
date: d: f: r: u R I --date= --file= --reference= --utc --iso-8601? --rfc-3339~ --rfc-email
  --universal >format
file: b i z L h k p r s v 0 N n F: f: e: --brief --mime --mime-type --mime-encoding --dereference
  --uncompress --keep-going --files-from= --extension
base64: d D i w: --decode --wrap= --ignore-garbage --base64 --base64url --base16
nm: a A B C D g u n p P r S o l v f: t: --demangle --dynamic --extern-only --undefined-only
  --print-size --size-sort --numeric-sort --defined-only --format~ --radix~ --no-demangle
  --debug-syms
objdump size: a f h p r R t T x d D s S l C w j: M: b: m: A B G --disassemble --section-headers
  --headers --syms --reloc --all-headers --demangle --source --full-contents --disassemble-all
  --section= --start-address= --stop-address= --no-show-raw-insn --format~ --totals
lsof: a b c: d: F: g: i: l n N O o P p: R s: t T u: U V v w X S: r:
ss: h V n r a l o e m p i s E t u w x d 4 6 0 O H f: N: A: --numeric --all --listening --options
  --processes --info --summary --tcp --udp --unix --ipv4 --ipv6 --no-header --extended
hostname: f i I s d A a y --fqdn --short --domain --ip-address --all-ip-addresses --long >none
man: k f K w W s: S: a --apropos --whatis --where --all --sections=
info: k: n: f: w --apropos= --node= --where --usage=
ack: >text i v w c l L h H n o x f g Q k s A: B: C: m: r R --color --nocolor --type= --ignore-dir=
  --ignore-file= --noheading --nogroup --group --column --match= --help-types --no-filename
  --literal
ag: >text i v w c l L n o Q s S A: B: C: m: g: G: U a u t f r --nocolor --color --noheading
  --nogroup --column --ignore= --ignore-dir= --hidden --depth= --literal --count --stats --vimgrep
  --nonumbers
rg: >text A: B: C: E: e: f: g: j: M: m: r: t: T: a b c F H h i I l L n N o p P q s S u U v V w x z
  0 . --glob= --iglob= --type= --type-not= --regexp= --file= --replace= --max-count= --context=
  --after-context= --before-context= --sort~ --sortr~ --color~ --colors= --max-depth= --encoding~
  --engine~ --files --files-with-matches --files-without-match --count --count-matches --hidden
  --no-ignore --no-ignore-vcs --no-heading --heading --no-filename --with-filename --line-number
  --no-line-number --only-matching --pcre2 --fixed-strings --ignore-case --smart-case
  --case-sensitive --invert-match --word-regexp --line-regexp --multiline --multiline-dotall --json
  --vimgrep --stats --trim --type-list --follow --null --text --quiet --passthru --column --debug
  --max-columns= --max-filesize= --no-messages --unrestricted --one-file-system --pretty --binary
  --path-separator~ --threads= --no-config --type-add= --glob-case-insensitive --maxdepth=
fd: H I u s i g F a l L p 0 1 q t: e: E: d: c: S: j: x X --hidden --no-ignore --type=
  --extension= --exclude= --max-depth= --min-depth= --exact-depth= --glob --full-path
  --absolute-path --list-details --follow --print0 --color~ --size= --changed-within=
  --changed-before= --max-results= --base-directory= --search-path= --threads= --case-sensitive
  --ignore-case --fixed-strings --regex --unrestricted --no-ignore-vcs --owner= --prune --exec
  --exec-batch --strip-cwd-prefix --relative-path --path-separator~ --quiet --format=
  --one-file-system
sed: n e: E r s u z l: --quiet --silent --expression= --regexp-extended --separate --null-data
  --unbuffered --debug --posix --sandbox --line-length= --zero-terminated f: --file= i I --in-place
  --follow-symlinks
awk: F: v: f: e: b c C g n N O r S t V M P --field-separator= --assign= --file=
  --source= --posix --traditional --csv --re-interval --non-decimal-data --sandbox --version i: l:
  E: o p d D --include= --load= --exec= --pretty-print --profile --dump-variables
tar: t f: v z j J a O x C: --list --file= --gzip --bzip2 --xz --zstd --verbose
  --to-stdout --extract --get --wildcards --exclude= --strip-components= --auto-compress
  --directory= --full-time --no-recursion --numeric-owner --utc --show-transformed-names --lzma
  --auto-compress --occurrence --quoting-style~ --ignore-case
unzip: l v t p Z 1 q c z C a o n j s T h m M x: P: d:
zstdcat: d c f k q v m --no-progress --memory= --long?
lz4: d c t k v q f m --list --test --stdout --decompress !c,t,list,test,stdout
gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd: d c l t k v q f n 1 2 3
  4 5 6 7 8 9 T: --stdout --decompress --list --test --keep --quiet --verbose --to-stdout
  --uncompress !c,l,t,stdout,list,test,to-stdout
curl: s S f L i I k v g G N 4 6 0 1 2 3 # H: A: e: u: X: d: m: w: o: b: r: x: F: y: Y: z: --silent
  --show-error --fail --location --include --head --insecure --verbose --header= --user-agent=
  --user= --request= --data= --data-raw= --data-binary= --data-urlencode= --json= --max-time=
  --connect-timeout= --retry= --retry-delay= --retry-connrefused --write-out= --output=
  --compressed --get --url= --cookie= --referer= --range= --proxy= --cacert= --cert= --key=
  --resolve= --http1.1 --http2 --fail-with-body --no-progress-meter --max-redirs= --form= --ipv4
  --ipv6 --location-trusted --no-buffer --globoff --tlsv1.2 --basic --digest --oauth2-bearer=
  --retry-all-errors --proto= --proto-default= --noproxy= --interface= --limit-rate= --unix-socket=
  --retry-max-time=
wget: q S v d nv O: T: t: U: nd --spider --quiet --server-response --output-document= --timeout=
  --tries= --user-agent= --header= --no-check-certificate --no-verbose --max-redirect= --method~
  --no-proxy --retry-connrefused --compression~ --content-on-error
yq: >text r e c j C M N P n o~ p~ I: x R --output-format~ --input-format~ --prettyPrint --colors
  --unwrapScalar --no-doc --exit-status --null-input --raw-output --tojson --no-colors --indent=
  --arg= --argjson= --slurp --compact-output --xml-output
xmllint: --noout --format --xpath= --schema= --valid --noent --nonet --html --xmlout --recover
  --pretty= --noblanks --encode~ --dtdvalid= --relaxng= --schematron= --c14n --huge --quiet
  --stream --nowarning --noxincludenode --xinclude
cloc: --json --yaml --csv --by-file --by-file-by-lang --quiet --vcs~ --exclude-dir= --include-lang=
  --exclude-lang= --match-f= --not-match-f= --exclude-ext= --include-ext= --git --diff --sum-one
  --hide-rate --list-file= --md --progress-rate= --fullpath --match-d= --not-match-d= --xml
scc: f~ i: M: s~ a c d l p v w x: --by-file --format~ --include-ext= --exclude-dir= --no-complexity
  --no-cocomo --sort~ --wide --not-match= --count-as= --no-duplicates
pv: a b e f i: L: N: n p q r s: t T W w: --name= --size= --rate-limit=
journalctl: u: n: p: o~ b f x e k r q t: S: U: g: D: --unit= --since= --until= --lines= --priority=
  --output~ --boot --follow --no-pager --reverse --user --system --catalog --dmesg --grep=
  --identifier= --disk-usage --list-boots --no-hostname --utc --all --no-full --quiet
history: >none
hash: l t r
stty: a g
fuser: v u m n: 4 6 a s l --all --verbose --user
ctags: x R --recurse --languages= --fields= --exclude= --list-kinds --list-languages n !x
diffstat: l p: n: w: f: m r: t u v s c b C D: E: h
colordiff: u c y w b B i r N q s U: C: W: E a --unified? --side-by-side --brief --recursive
  --color?
delta: n s --line-numbers --side-by-side --color-only --light --dark --no-gitconfig --width=
  --navigate
glow: s~ w: a --style~ --width= --all
tldr: p: l v --platform~ --list --language~
gpg: k K --list-keys --list-secret-keys --verify --fingerprint --list-sigs --keyid-format~
  --with-colons --with-fingerprint --batch --no-tty --show-keys --list-packets --status-fd= v
  --verbose --version
  !k,K,list-keys,list-secret-keys,verify,fingerprint,list-sigs,show-keys,list-packets
ssh-keygen: l B f: E~ v !l,B
tee: a i p --append --ignore-interrupts --output-error? >all
patch: p: R N s i: --dry-run --strip= --reverse --forward --silent --input= --verbose --quiet
  --batch E l u F: --fuzz= --binary d: --directory= !dry-run
mypy: p: m: c: --show-error-codes --package= --module= --strict --ignore-missing-imports --pretty
  --no-pretty --follow-imports~ --python-version~ --explicit-package-bases --namespace-packages
  --no-incremental --no-site-packages --check-untyped-defs --disallow-untyped-defs
  --warn-unused-ignores --warn-unreachable --no-error-summary --no-color-output --output~ +
pyright: p: --outputjson --pythonversion~ --level~ --project= --skipunannotated +
flake8 pylint bandit: j: E r f~ --jobs= --errors-only
  --disable= --enable= --score~ --reports~ --recursive --max-complexity= --per-file-ignores=
  --min-confidence= --show-source --isolated --msg-template= --severity-level~ +
ruff: n e --line-length= --target-version~ --no-fix --show-fixes --show-files --show-settings
  --preview --isolated --exit-zero --force-exclude --fix --fix-only --unsafe-fixes --add-noqa
  --exit-non-zero-on-fix --per-file-ignores= +
black isort: c l: t: S C p: --check-only --line-length= --target-version= --fast --safe --profile~
  --skip-string-normalization --include= --force-exclude= --workers= --preview --show-settings
  --show-files !check,diff,c,check-only,d,show-settings,show-files +
eslint stylelint: f~ --ext= --max-warnings= --print-config= --rule= --no-inline-config --no-ignore
  --report-unused-disable-directives --ignore-pattern= --no-error-on-unmatched-pattern --env-info
  --no-warn-ignored --allow-empty-input +
prettier: c u --list-different --tab-width= --print-width= --no-config --single-quote --no-semi
  --ignore-path= --log-level~ --loglevel~ --parser~ --ignore-unknown --no-editorconfig --use-tabs
  --trailing-comma~ --prose-wrap~ --end-of-line~ --find-config-path= --file-info= --support-info +
tsc: p: --noEmit --project= --pretty? --skipLibCheck --strict --showConfig --listFilesOnly
  --listFiles --target~ --module~ --jsx~ --lib= --esModuleInterop --allowJs --checkJs
  --moduleResolution~ --noUnusedLocals --noImplicitAny --traceResolution >files
  !noEmit,showConfig,listFilesOnly,version,help,all +
rustfmt: --edition~ --files-with-diff --print-config= !check +
gofmt goimports shfmt: r: i: p f --list --simplify --indent= --case-indent -ci -bn -sr -kp
  -fn -ln= -local= +
clang-format: --style= --dry-run --Werror --assume-filename= --lines= --fallback-style~
  --dump-config -style= -n -Werror -assume-filename= -fallback-style= -dump-config -lines= +
rubocop: D P f~ --only= --except= --display-cop-names --parallel --force-exclusion --fail-level~
  --list-target-files --show-cops --lint +
actionlint staticcheck: -color -no-color -oneline -verbose -ignore= -format= -f~ -checks= -tests=
  -go~ -explain= --oneline +
markdownlint: i: j p: --ignore= --disable= --enable= --dot +
codespell: L: S: c H C: --ignore-words-list= --skip= --quiet-level= --summary +
jsonlint: c p t: V: --compact +
vale: --minAlertLevel~ --glob= --no-exit --output~ + >files
phpcs: n s p v q --standard~ --report~ --extensions= --colors --ignore=
ktlint: --relative --color --reporter~ --verbose >files
pipdeptree: p: r w~ f e: --packages= --reverse --warn~ --json --json-tree --freeze
ast-grep 2to3: >files p: l: r: C: A: B: f: x: --pattern= --lang= --rewrite= --globs= --selector=
  --strictness~ --heading~ --fix= --nofix= --list-fixes +
"""


class Listed(msgspec.Struct, frozen=True):
    """One row: options by name, with how their value is given."""

    options: dict[str, str]
    """From a name to `""` (a flag), `:` (any value), `~` (a plain word) or `?` (after `=` only)."""
    words: dict[str, str]
    """The same for words with a single dash."""
    needs: tuple[str, ...] = ()
    """Without one of these the command writes."""
    operands: str = "any"
    """Which operands are written: `second` or `all`, or by default none; with `files` a word that
    is not a file is a task; with `text` the first is a pattern. With `none` any operand changes
    something, with `format` one without a `+`."""


def _listed(text: str) -> dict[str, Listed]:
    found: dict[str, Listed] = {}
    for row in re.split(r"\n(?=\S)", text.strip()):
        head, _, rest = row.partition(": ")
        options: dict[str, str] = {}
        words: dict[str, str] = {}
        needs: tuple[str, ...] = ()
        operands = "any"
        for word in rest.replace(" +", f" {_CHECKS}").split():
            name, kind = (word[:-1], word[-1]) if word[-1] in ":=~?" else (word, "")
            kind = ":" if kind == "=" else kind
            if word[0] == "!":
                needs = tuple(word[1:].split(","))
            elif word[0] == ">":
                operands = word[1:]
            elif word.startswith("--"):
                options[name[2:]] = kind
            elif word[0] == "-":
                words[name[1:]] = kind
            else:
                options[name] = kind
        row_of = Listed(options, words, needs, operands)
        found.update((name, row_of) for name in head.split())
    return found


_CHECKS = (
    "l d s q v e --check --diff --quiet --verbose --silent --color? --no-color --colors --count "
    "--statistics --select= --ignore= --extend-select= --extend-ignore= --exclude= "
    "--extend-exclude= --format~ --output-format~ --formatter~ --json? --stats "
    "--max-line-length= --stdin --stdin-filename= --stdin-filepath= --filename= --context="
)
"""What checkers have in common; a row gets it by its `+`."""

LISTED = _listed(_ROWS)

_ASKS = frozenset({"-V", "-version", "-v"})
_FD_RUNS = names("-x -X --exec --exec-batch")
_WORD = re.compile(r"[\w.,%+@-]*")
_RUNS = re.compile(r"pre|(?:.*-)?(?:pager|program|command|cmd|exec|bin|html)|P|H")


def reading(command: Command, row: Listed) -> list[Effect]:
    """What a listed command does beyond reading."""
    if len(command.args) == 1 and command.args[0].text in _ASKS:
        return []
    args = command.args
    if command.name == "tar" and args and not args[0].lead.startswith("-"):
        args = tuple(old_style(list(args)))
    if command.name == "fd":
        # What follows is the command that it runs.
        args = args[: next((n for n, a in enumerate(args) if a.text in _FD_RUNS), len(args))]
    if row.words:
        args = tuple(a for a in args if not _is_word(a, row.words))
    valued = {name for name, kind in row.options.items() if kind}
    if "o" not in row.options:
        valued.add("o")
    options = read(
        args,
        "".join(name for name in valued if len(name) == 1),
        [name + row.options[name].strip(":~") for name in valued if len(name) > 1] + ["output"],
        flags=[name for name in row.options if len(name) > 1 and name not in valued],
    )
    effects: list[Effect] = []
    # An abbreviation may mean an option that is not listed.
    spelled = {a.lead[2:].partition("=")[0] for a in args if a.lead.startswith("--")}
    other = [
        (name, value)
        for name, value in options.order
        if not _is_allowed(name, value, row) or (len(name) > 1 and name not in spelled)
    ]
    if other:
        unknown = [f"--{name}" for name in spelled if name not in row.options]
        shown = unknown[0] if unknown else f"-{other[0][0]}"
        effects.append(Unlisted(f"{command.name} {shown}"))
        written = [value for name, value in other if name in ("o", "output")]
        effects.extend(Write(value) for value in written if value.text != "-")
        run = [value for name, value in other if value.parts and _RUNS.fullmatch(name)]
        effects.extend(hook(value) for value in run)
        if len(written) < len(other):
            text = options.operands[:1] if row.operands == "text" else []
            effects.extend(given(command, tuple(a for a in command.args if a not in text)))
    if options.open_options:
        effects.append(Doubt(command.name))
    if row.needs and not options.has(*row.needs):
        effects.append(Mutates(command.name))
        effects.extend(given(command, command.args))
    if row.operands == "second":
        effects.extend(Write(value) for value in options.operands[1:2] if value.text != "-")
    elif row.operands == "files" and any(_is_subcommand(v, command) for v in options.operands):
        effects.append(Mutates(f"{command.name} with another task"))
    elif row.operands == "all":
        effects.extend(Write(value) for value in options.operands if value.text != "-")
    for value in options.operands if row.operands in ("none", "format") else ():
        if row.operands == "none" or not value.lead.startswith("+"):
            detail = f"{command.name} {value.show()} changes the machine outside the worktree"
            return [*effects, Deny("system", detail)]
    return effects


def _is_subcommand(value: Value, command: Command) -> bool:
    """Whether a plain word among the operands is not a file, and so names a task."""
    text = value.text or ""
    plain = re.fullmatch(r"[A-Za-z][A-Za-z-]*", text) is not None and text not in _TASKS
    return plain and not any(
        place is not None and os.path.lexists(os.path.join(place, text))
        for place in command.directories
    )


_TASKS = names("run scan outline help src lib app tests test docs")
"""Tasks that only read, and folders that most trees have."""


def _is_word(value: Value, words: dict[str, str]) -> bool:
    lead = value.lead
    name, equals, _ = lead.lstrip("-").partition("=")
    if not lead.startswith("-") or name not in words:
        return False
    kind = words[name]
    return not equals or kind == ":" or (kind == "~" and _is_plain(value.after(len(lead))))


def _is_allowed(name: str, value: Value, row: Listed) -> bool:
    kind = row.options.get(name)
    if kind is None:
        return False
    if len(name) == 1 and value.lead.startswith("="):
        value = value.after(1)
    return kind != "~" or value == EMPTY or _is_plain(value)


def _is_plain(value: Value) -> bool:
    return value.text is not None and _WORD.fullmatch(value.text) is not None


# --- programs of many uses, and the first words with which they only look ---------------------

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
    all all-features all-namespaces app check color comments connect container context dates deps
    depth dev diff editable enddate exclude explain failed features field-selector files filter find
    fingerprint follow format format-version full graph group groups hash help in installed invert
    issuer jq json label latest limit lines long lts md5 name-only names names-only namespace
    no-color no-default-features no-deps no-headers no-pager no-trunc noout not-required omit
    oneline only outdated patch plain prefix pretty previous prod production quiet raw recursive
    repo rev revision selector serial servername sha1 sha256 sha512 short show-labels showcerts
    silent since sort-by src startdate stat state subject tail target test text timestamps top-level
    tree type until upgradable user verbose verify version watch why yaml
    """)
_LETTERS = frozenset("aAdefiklmnpqrstvRLj0123456789Q")
_FORMAT = re.compile(
    r"(?:jsonpath|custom-columns|go-template|template|json|yaml)(?:-as-json)?=.*", re.DOTALL
)


def asked(command: Command) -> list[Effect] | None:
    """The effects of a query: its options that are not listed. None when it is not a query."""
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
