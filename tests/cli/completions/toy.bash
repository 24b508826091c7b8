# bash completion of bridle, printed by `bridle completion bash`

_bridle_next() {
    case "$1" in
        '') echo 'run session --help --version' ;;
        'run') echo '-r --runtime --file --json' ;;
        'session') echo 'send list --help' ;;
        'session send') echo '--timeout' ;;
        'session list') echo '--state --cwd' ;;
    esac
}

_bridle_value() {
    case "$1" in
        'run -r'|'run --runtime') echo 'runtimes' ;;
        'run --file') echo 'files' ;;
        'session send --timeout') echo 'any' ;;
        'session list --state') echo 'choices ready lost' ;;
        'session list --cwd') echo 'folders' ;;
    esac
}

_bridle_argument() {
    case "$1" in
        'run 0') echo 'any' ;;
        'session send 0') echo 'sessions' ;;
        'session send 1') echo 'any' ;;
    esac
}

# Prints the words that fit the place after the words given.
_bridle_found() {
    local at="" kind="" option="" count=0 word
    for word in "$@"; do
        if [ -n "$option" ]; then
            option=""
        elif [ "${word#-}" != "$word" ]; then
            [ -n "$(_bridle_value "$at $word")" ] && option="$word"
        elif [ -n "$(_bridle_next "${at:+$at }$word")" ]; then
            at="${at:+$at }$word"
        else
            count=$((count + 1))
        fi
    done
    if [ -n "$option" ]; then
        kind="$(_bridle_value "$at $option")"
    else
        kind="$(_bridle_argument "$at $count")"
        _bridle_next "$at"
    fi
    case "$kind" in
        runtimes|sessions) bridle completion --list "$kind" 2>/dev/null ;;
        "choices "*) echo "${kind#choices }" ;;
        files|folders) echo "<$kind>" ;;
    esac
}

_bridle() {
    local current="${COMP_WORDS[COMP_CWORD]}" word
    local -a before=() words=()
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        # Bash takes `--flag=value` apart at the `=`.
        [ "$word" = "=" ] || before+=("$word")
    done
    [ "$current" = "=" ] && current=""
    # `compgen -W` would expand the words, and a session may have any name.
    read -r -d '' -a words <<< "$(_bridle_found "${before[@]}")"
    COMPREPLY=()
    for word in "${words[@]}"; do
        case "$word" in
            "<files>"|"<folders>") COMPREPLY=(); return ;;
            "$current"*) COMPREPLY+=("$word") ;;
        esac
    done
}

complete -o bashdefault -o default -F _bridle bridle
