#compdef bridle
# zsh completion of bridle, printed by `bridle completion zsh`

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
    local current="${words[CURRENT]}" found
    local -a before
    before=("${(@)words[2,CURRENT-1]}")
    case "$current" in
        --*=*) before+=("${current%%=*}"); compset -P '*=' ;;
    esac
    found="$(_bridle_found "${before[@]}")"
    case "$found" in
        *"<files>"*) _files ;;
        *"<folders>"*) _files -/ ;;
        *) compadd -- ${=found} || _files ;;
    esac
}

compdef _bridle bridle
