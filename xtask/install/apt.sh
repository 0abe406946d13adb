#!/bin/sh
# Installs Debian or Ubuntu packages without letting them start their daemons.
#
#     sh xtask/install/apt.sh PACKAGE...        (as root)
#
# Debian's maintainer scripts run /usr/sbin/policy-rc.d before they start a daemon. During the
# installation, this script places one that forbids it (status 101). An existing one is never changed:
# if it forbids starts too, the installation continues; otherwise it is refused.
set -eu

policy=${POLICY_RC_D:-/usr/sbin/policy-rc.d}
mark='# placed by cargo xtask test while it installs packages'
ours=no

restore() {
    if [ "$ours" = yes ]; then
        rm -f "$policy"
        ours=no
    fi
}
# A shell runs a trap only after the command in its foreground has ended: apt-get, which gets the
# same Ctrl-C, is never cut off from the policy that holds its daemons back.
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# What a killed run of this script left behind is ours to sweep, unless that run is still alive.
if [ -e "$policy" ] && owner=$(sed -n "s/^$mark, process //p" "$policy") && [ -n "$owner" ]; then
    if kill -0 "$owner" 2>/dev/null; then
        echo "process $owner is installing packages in the same way right now; try again later" >&2
        exit 1
    fi
    rm -f "$policy"
fi

if [ -e "$policy" ] || [ -L "$policy" ]; then
    status=0
    "$policy" nginx start >/dev/null 2>&1 || status=$?
    if [ "$status" -ne 101 ]; then
        echo "$policy exists and would let packages start their daemons (status $status, not 101);" >&2
        echo "it is left alone: install by hand, or move it aside: $*" >&2
        exit 1
    fi
else
    # noclobber: a file that another process created since the test above is kept.
    (set -C && printf '#!/bin/sh\n%s, process %s\nexit 101\n' "$mark" "$$" >"$policy")
    ours=yes
    chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -q || {
    echo "apt-get update failed; trying once more in 5 seconds" >&2
    sleep "${RETRY_PAUSE_S:-5}"
    apt-get update -q
}
apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=120 "$@" </dev/null

# With systemd a package also enables its daemon for the next boot. Only what was just installed is
# disabled; a server that somebody here uses was not missing.
if [ -d /run/systemd/system ]; then
    for package in "$@"; do
        if systemctl is-enabled --quiet "$package.service" 2>/dev/null; then
            systemctl disable --quiet "$package.service"
        fi
    done
fi
