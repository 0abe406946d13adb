# Everything that prony runs on another machine and that depends on its operating system. The name of
# each function begins with what `uname -s` prints. Output is parsed on prony's machine.

# --- Linux ---

Linux_machine() {
  at stat; cat /proc/stat
  at meminfo; cat /proc/meminfo
  at loadavg; cat /proc/loadavg
  at file-nr; cat /proc/sys/fs/file-nr
  at dev; cat /proc/net/dev
  at snmp; cat /proc/net/snmp
  at snmp6; cat /proc/net/snmp6
  at netstat; cat /proc/net/netstat
  at sockstat; cat /proc/net/sockstat
  at processes; cat /proc/[0-9]*/stat
  followed
}
Linux_group() {
  for root in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd /sys/fs/cgroup/cpuacct /sys/fs/cgroup/pids; do
    if [ -f "$root/$2/cgroup.procs" ]; then
      at "group:$1"
      cat "$root/$2/cgroup.procs" "$root/$2"/*/cgroup.procs "$root/$2"/*/*/cgroup.procs "$root/$2"/*/*/*/cgroup.procs
      at "cpu:$1"
      cat "$root/$2/cpu.stat"
      return
    fi
  done
}
Linux_listeners() {
  at tcp; cat /proc/net/tcp /proc/net/tcp6
  at files; ls -l /proc/[0-9]*/fd
}
Linux_processes() {
  status= run= files=0
  for pid; do
    status="$status /proc/$pid/task/*/status"
    run="$run /proc/$pid/task/*/schedstat"
    files=$((files + $(Linux_count "/proc/$pid/fd")))
  done
  at status; cat $status
  at run; cat $run
  at open; echo $files
}
Linux_count() {
  set -- "$1"/*
  if [ -L "$1" ]; then echo $#; else echo 0; fi
}
Linux_memory() {
  Linux_processes "$@"
  memory=
  for pid; do memory="$memory /proc/$pid/smaps_rollup"; done
  at memory; cat $memory
}
# Sets `table` to PID:PARENT:GROUP:SESSION:STATE:START for every process.
Linux_table() {
  table=
  for stat in /proc/[0-9]*/stat; do
    line=
    { IFS= read -r line < "$stat"; } 2>/dev/null
    id=${line%% *}
    # The name of the program, in parentheses, may contain anything.
    set -- ${line##*) }
    [ $# -lt 20 ] || table="$table $id:$2:$3:$4:$1:${20}"
  done
}
Linux_ports() {
  at tcp; cat /proc/net/tcp /proc/net/tcp6
  at udp; cat /proc/net/udp /proc/net/udp6
  at unix; cat /proc/net/unix
}
Linux_addresses() {
  at fib; cat /proc/net/fib_trie
  at inet6; cat /proc/net/if_inet6
}
Linux_facts() {
  at uname; uname -r; uname -m
  at distribution; cat /etc/os-release
  at cpuinfo; cat /proc/cpuinfo
  at meminfo; cat /proc/meminfo
  at governor; cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
  at limits; ulimit -Sn; ulimit -Hn
  at sysctl
  for name; do
    # These files can't be read byte by byte, as `read` does.
    line=$(cat "/proc/sys/$(echo "$name" | tr . /)") && echo "$name: $line"
  done
  at mitigations
  for file in /sys/devices/system/cpu/vulnerabilities/*; do
    IFS= read -r line < "$file" && echo "${file##*/}: $line"
  done
}
Linux_sha256() { sha256sum "$1"; }
# The command that binds a program to cores, which follow.
Linux_on_cores='taskset -c'
Linux_cores() {
  at cores; grep Cpus_allowed_list /proc/self/status
}

# --- FreeBSD ---
#
# Experimental: written for FreeBSD by its manual pages, but never run there.

# The parser of `processes` expects these columns.
FreeBSD_machine() {
  at sysctl; sysctl kern.cp_time kern.clockrate vm.loadavg hw.ncpu hw.pagesize hw.physmem vm.stats.vm.v_free_count vm.stats.vm.v_inactive_count vm.stats.sys.v_swtch kern.openfiles
  at interfaces; netstat -ibn
  at tcp; netstat -s -p tcp
  at processes; ps -S -axww -o pid= -o ppid= -o sid= -o state= -o nlwp= -o rss= -o usertime= -o systime= -o nvcsw= -o nivcsw= -o lstart= -o comm= -c
  followed
}
FreeBSD_group() { true; }
FreeBSD_listeners() {
  at sockets; sockstat -4 -6 -l -P tcp
}
FreeBSD_processes() {
  at open; procstat -f "$@"
}
FreeBSD_memory() { FreeBSD_processes "$@"; }
FreeBSD_table() {
  table=$(ps -axww -o pid= -o ppid= -o pgid= -o sid= -o state= -o lstart= |
    while read -r id parent group session state day month date time year; do
      echo "$id:$parent:$group:$session:$state:$month-$date-$time-$year"
    done)
}
FreeBSD_ports() {
  at sockets; sockstat -46 -l -P tcp,udp; sockstat -u -l
}
FreeBSD_addresses() {
  at inet; ifconfig -a
}
FreeBSD_facts() {
  at uname; uname -r; uname -m
  at distribution; freebsd-version -u
  at facts; sysctl hw.model hw.ncpu hw.physmem kern.vm_guest
  at limits; ulimit -Sn; ulimit -Hn
  at sysctl
  for name; do sysctl "$name"; done
}
FreeBSD_sha256() { sha256 -q "$1"; }
FreeBSD_on_cores='cpuset -l'
# Prints the root folder and the addresses of a jail.
FreeBSD_jail() {
  at jail; jls -j "$1" -n path ip4.addr ip6.addr
}
# Creates a jail in a folder. Its processes use the machine's addresses.
FreeBSD_make_jail() {
  at complaint
  jail -c name="$1" path="$2" host.hostname="$1" ip4=inherit ip6=inherit persist 2>&1
}
FreeBSD_remove_jail() { jail -r "$1"; }
FreeBSD_cores() {
  at cores; cpuset -g -p $$
}
