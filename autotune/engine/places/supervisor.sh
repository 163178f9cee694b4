# Runs one server on the far side of an ssh connection and ends it together with the connection.
#
# POSIX sh and the tools of any Linux (busybox too): sleep, grep, setsid. It comes over the
# connection, so nothing has to be installed, and what it runs stands in no process list but that of
# the server itself. The near side sends a line now and then; `stop`, the end of the input or too
# long a silence end the server. All output is the server's own.

# sweeper: a script that ends by its marker what else is left; set by the near side.
sweeper=:

# after: what must follow the end of the server; replaced where a container must be removed.
after() { :; }

# supervise GRACE_S SILENCE_S WORD...
supervise() {
    grace=$1 silence=$2
    shift 2
    ticks=0 quiet=0 over='' asked=''
    trap 'ticks=$((ticks + 1)) quiet=$((quiet + 1))' USR1
    trap 'quiet=0' USR2
    trap 'over=1' TERM HUP
    exec 3<&0 </dev/null
    if command -v setsid >/dev/null 2>&1; then
        setsid "$@" 3<&- &
    else
        "$@" 3<&- &
    fi
    server=$!
    # From here on the shell says nothing: "Killed" in the log would be taken for the server's word.
    exec >/dev/null 2>&1
    (while sleep 1; do kill -s USR1 $$ || exit; done) 3<&- &
    clock=$!
    (
        while read -r line && [ "$line" != stop ]; do kill -s USR2 $$; done
        kill -s TERM $$
    ) <&3 3<&- &
    reader=$!
    exec 3<&-
    while :; do
        wait "$server"
        status=$?
        kill -0 "$server" || break # not woken by a signal: it has ended
        [ "$quiet" -lt "$silence" ] || over=1
        if [ -n "$over" ] && [ -z "$asked" ]; then
            # To the first process alone: SGLang that sees its children end reports a crash.
            asked=$ticks
            kill -s TERM "$server"
        fi
        [ -z "$asked" ] || [ $((ticks - asked)) -le "$grace" ] || break
    done
    kill -s KILL "$clock" "$reader"
    if kill -s TERM -- "-$server"; then
        sleep 0.3 || sleep 1
    fi
    kill -s KILL -- "-$server"
    # By a shell without the marker: it would find its own children for ever.
    env -u AUTOTUNE_TRIAL /bin/sh -c "$sweeper" sweep "$AUTOTUNE_TRIAL"
    after
    exit "$status"
}
