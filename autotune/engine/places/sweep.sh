# Finds and ends what is left of a launch, by the marker that all its processes inherit.

# marked MARKER: their ids, whatever group or session they moved to.
marked() {
    for file in $(grep -l -F -e "AUTOTUNE_TRIAL=$1" /proc/[0-9]*/environ 2>/dev/null); do
        pid=${file#/proc/}
        pid=${pid%/environ}
        # A supervisor that asks is marked too.
        [ "$pid" = "$$" ] || [ "$pid" = "$PPID" ] || echo "$pid"
    done
}

# sweep MARKER: ends them, however often they fork; tells those that no signal ends.
sweep() {
    rounds=0
    while pids=$(marked "$1") && [ -n "$pids" ] && [ "$rounds" -lt 50 ]; do
        for pid in $pids; do kill -s KILL "$pid" 2>/dev/null; done
        rounds=$((rounds + 1))
        sleep 0.1 2>/dev/null || sleep 1
    done
    echo "$pids"
}
