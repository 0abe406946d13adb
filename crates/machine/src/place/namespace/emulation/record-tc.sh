#!/bin/sh
# Records the messages that tc(8) sends to add `netem` to an interface, for the tests of netem.rs.
# The kernel needs no sch_netem: tc sends the message before it knows that. Needs root and strace.
#
#   sh record-tc.sh > tc-messages.txt
record() {
    echo "tc qdisc add dev lo root handle 1: netem limit 50000${*:+ }$*"
    # shellcheck disable=SC2086
    unshare -n strace -e trace=sendmsg -e write=3 \
        tc qdisc add dev lo root handle 1: netem limit 50000 "$@" 2>&1 |
        awk '/^ \| / { line = substr($0, 11, 49); gsub(/ /, "", line); printf "%s", line }
             END { print "" }'
}
echo "// Recorded by record-tc.sh with $(tc -V)"
record
record delay 10ms
record delay 10ms 2ms rate 1000gbit
record delay 10ms 2ms distribution normal rate 1000gbit
record loss gemodel 0.2% 20%
record delay 50us reorder 1% gap 1
record delay 10ms duplicate 0.1%
record delay 10ms 2ms reorder 2% gap 1 duplicate 3% loss gemodel 1% 50% rate 1000gbit
