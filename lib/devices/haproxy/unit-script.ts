/** What a unit saves when it stops or reloads, and how it is told its role: a shell script on its host. */
import { maps } from './content.ts';

/** A unit's own program: what its units of systemd and keepalived call, with the folders of `UnitFolders`. */
export function formatScript({
  configuration,
  state,
  run,
}: {
  readonly configuration: string;
  readonly state: string;
  readonly run: string;
}): string {
  return `#!/bin/sh
# Written by vipnat device configuration. Saves what HAProxy has got at run time, and tells HAProxy the role of its host.
# What is saved is read once, and within a minute: later it would send clients to members that are gone.
set -eu
umask 022
export LC_ALL=C
configuration=${configuration}
state=${state}
run=${run}
${scriptBody}`;
}

const scriptBody = `kept='${maps.owners} ${maps.frontends}'

ask() {
    printf '%s\\n' "$1" | socat -t 20 - "UNIX-CONNECT:$run/admin.sock"
}

# A pipe would hide that HAProxy has not answered.
show() {
    ask "show map $1" > "$run/shown"
    sed -n 's/^0x[0-9a-f]* //p' "$run/shown"
}

# Seconds since the host started: a clock can jump.
uptime() {
    cut -d . -f 1 /proc/uptime
}

# The next start begins with nothing.
empty() {
    rm -f "$run/saved"
    for map in $kept; do : > "$state/$map"; done
    echo 1 > "$state/servers.state"
    printf 'role unknown\\nsaving no\\ncontent empty\\n' > "$state/${maps.role}"
}

# From the first line on the driver writes nothing here. HAProxy that answers the last question has answered all.
save() {
    ask 'set map ${maps.role} saving yes' > "$run/answer"
    for map in $kept ${maps.role}; do show "$map" > "$state/$map.new"; done
    ask 'show servers state' > "$state/servers.state.new"
    grep -q '^# be_id' "$state/servers.state.new"
    sed -i 's/^saving yes$/saving no/' "$state/${maps.role}.new"
    show ${maps.role} > "$run/answer"
    grep -q '^saving yes$' "$run/answer"
    for file in $kept servers.state ${maps.role}; do mv "$state/$file.new" "$state/$file"; done
    uptime > "$run/saved"
}

resume() {
    ask 'set map ${maps.role} saving no' > "$run/answer" || :
    empty
}

case "\${1:-}" in
prepare) # before a start
    mkdir -p "$state" "$run"
    saved=$(cat "$run/saved" 2> /dev/null || :)
    [ -n "$saved" ] && [ $(($(uptime) - saved)) -le 60 ] || empty
    sed -i 's/^role .*/role unknown/' "$state/${maps.role}"
    ;;
loaded) # after a start
    empty
    echo 0 > "$state/ended"
    ;;
ended) # after an end, whatever it came of
    echo 1 > "$state/ended"
    ;;
save) # before a stop
    trap empty EXIT
    trap 'exit 1' HUP INT TERM
    save
    trap - EXIT
    ;;
reload) # with the process id of HAProxy's master
    trap resume EXIT
    trap 'exit 1' HUP INT TERM
    save
    haproxy -c -q -f "$configuration/haproxy.cfg"
    kill -USR2 "$2"
    for _ in $(seq 300); do
        if show ${maps.role} 2> /dev/null | grep -q '^saving no$'; then trap empty EXIT; exit 0; fi
        sleep 0.1
    done
    exit 1
    ;;
notify) # by keepalived: INSTANCE NAME STATE PRIORITY
    if [ "$4" = MASTER ]; then role=active; else role=standby; fi
    echo "$role" > "$run/role.new"
    mv "$run/role.new" "$run/role"
    "$0" check || :
    ;;
check) # by keepalived: whether this unit can serve
    role=$(cat "$run/role" 2> /dev/null || echo unknown)
    ask "set map ${maps.role} role $role;show map ${maps.role}" | grep -q ' content kept$'
    ;;
*)
    echo "usage: $0 prepare|loaded|ended|save|reload PID|notify INSTANCE NAME STATE PRIORITY|check" >&2
    exit 64
    ;;
esac
`;
