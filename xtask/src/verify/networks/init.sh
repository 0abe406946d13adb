#!/bin/sh
# First process of the virtual machine: runs the plan, and prints its results between markers.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mkdir -p /run/netns /var/lib/nginx
export HOME=/tmp PATH=/usr/bin:/usr/sbin:/bin:/sbin
for module in /lib/modules/*.ko; do
    insmod "$module"
done
ip link set lo up
echo "== kernel $(cat /proc/sys/kernel/osrelease)"
prony compare /plan.toml --out /tmp/out
echo "== status $?"
for file in /tmp/out/environment.json /tmp/out/trials/*/trial.json /tmp/out/trials/*/record.json; do
    echo "== file ${file#/tmp/out/}"
    cat "$file"
    echo
    echo "== end of file"
done
poweroff -f
