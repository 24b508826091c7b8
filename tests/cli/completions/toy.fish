# fish completion of bridle, printed by `bridle completion fish`

# Whether the words before the cursor begin with these.
function __bridle_in
    set -l before (commandline -opc)
    set -e before[1]
    for word in $argv
        test (count $before) -gt 0; and test "$before[1]" = "$word"; or return 1
        set -e before[1]
    end
end

# Whether the words before the cursor are just these.
function __bridle_at
    set -l before (commandline -opc)
    set -e before[1]
    test "$before" = "$argv"
end

complete -c bridle -f
complete -c bridle -n '__bridle_at' -a run -d 'run it'
complete -c bridle -n '__bridle_at' -a session -d 'talk to it'
complete -c bridle -n '__bridle_in run' -s r -l runtime -x -a '(bridle completion --list runtimes 2>/dev/null)' -d 'the agent\'s name'
complete -c bridle -n '__bridle_in run' -l file -r -F -d 'a file'
complete -c bridle -n '__bridle_in run' -l json -d 'print JSON'
complete -c bridle -n '__bridle_at session' -a send -d 'send a prompt'
complete -c bridle -n '__bridle_at session' -a list -d 'list them'
complete -c bridle -n '__bridle_in session send' -l timeout -x -d 'seconds'
complete -c bridle -n '__bridle_at session send' -a '(bridle completion --list sessions 2>/dev/null)'
complete -c bridle -n '__bridle_in session list' -l state -x -a 'ready lost' -d 'state'
complete -c bridle -n '__bridle_in session list' -l cwd -x -a '(__fish_complete_directories)' -d 'a folder'
