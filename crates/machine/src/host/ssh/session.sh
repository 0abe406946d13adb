# Services on another machine: the shell that prony talks to, and the keeper that ends everything when
# the connection or that shell ends. Plain POSIX sh. The variables `base` and `token` and the functions
# of systems.sh are defined before.
#
#   ssh -- session: reads requests, starts services; tells the keeper (fd 4) which processes are theirs
#            |- ticker: a line to the keeper every 5 s, as long as the session runs
#            |- services
#          keep: waits for the session's end or silence, then kills the services, removes the folder

# Lines of the ticker without a sign of life from prony after which the keeper ends everything.
silent_max=6
# Size in bytes from which a log is cut while its service runs.
log_max=67108864

locale=${LC_ALL-}
LC_ALL=C; export LC_ALL
PATH=${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH
umask 022
folder=$base/prony-$token
# A shell without job control makes services ignore these signals.
fresh='env --default-signal=INT,QUIT'
$fresh true 2>/dev/null || fresh=
eval "on_cores=\$${system}_on_cores"
known= undone= services= ticker=

# Called at each request: tells the keeper that prony lives.
sign() { echo beat >&4; }

# Sets `members` to the live processes that descend from known ones or are in their sessions or
# process groups, and `known` to PID=START for these. `known` never contains a reused process ID.
family() {
  "${system}_table"
  set=' '
  members=
  for entry in $table; do
    id=${entry%%:*}
    case " $known " in *" $id=${entry#*:*:*:*:*:} "*) set="$set$id " ;; esac
  done
  if [ "$set" = ' ' ]; then known=; return; fi
  more=yes
  while [ -n "$more" ]; do
    more=
    for entry in $table; do
      id=${entry%%:*}; rest=${entry#*:}
      case $set in *" $id "*) continue ;; esac
      parent=${rest%%:*}; rest=${rest#*:}
      group=${rest%%:*}; rest=${rest#*:}
      session=${rest%%:*}
      case $set in *" $parent "* | *" $group "* | *" $session "*) set="$set$id "; more=yes ;; esac
    done
  done
  known=
  for entry in $table; do
    id=${entry%%:*}; rest=${entry#*:*:*:*:}
    case $set in
      *" $id "*)
        known="$known $id=${rest#*:}"
        case $rest in Z*) ;; *) members="$members $id" ;; esac
        ;;
    esac
  done
}

# Makes `family` work on the processes of one service, and then tells the keeper if there are others.
family_of() {
  eval "known=\${known_$1-}"
  before=$known
  family
  eval "known_$1=\$known"
  [ "$before" = "$known" ] || echo "known $1$known" >&4
}

# Starts the function `service_$1` as a service.
launch() {
  services="$services $1"
  (
    exec </dev/null >>"$folder/$1.log" 2>&1 4>&-
    trap - PIPE HUP INT TERM
    unset LC_ALL
    [ -z "$locale" ] || { LC_ALL=$locale; export LC_ALL; }
    "service_$1"
    exit 126
  ) &
  eval "main_$1=$!"
  "${system}_table"
  own=
  for entry in $table; do
    case $entry in "$!:"*) own="$!=${entry#*:*:*:*:*:}" ;; esac
  done
  eval "known_$1=\$own"
  echo "known $1 $own" >&4
  echo "$!" >"$folder/$1.pid"
  at main; echo "$!"
}

# Prints whether the main process of a service has ended, with its status, and its live processes.
check() {
  family_of "$1"
  eval "main=\${main_$1-} ended=\${ended_$1-}"
  if [ -z "$ended" ]; then
    case "$members " in
      *" $main "*) ;;
      *) wait "$main"; ended=$?; eval "ended_$1=\$ended" ;;
    esac
  fi
  at ended; echo "$ended"
  at members; echo $members
}

# Sends the stop signal to the main process or, once it has ended, to all others.
stop() {
  family_of "$1"
  eval "main=\${main_$1-}"
  case "$members " in
    *" $main "*) kill -s "$2" "$main" ;;
    *) [ -z "$members" ] || kill -s "$2" $members ;;
  esac
}

# Ends all processes of a service.
end() {
  family_of "$1"
  [ -z "$members" ] || kill -s KILL $members
}

# Tells the keeper what to do at the end, and does it when the service is forgotten.
undo() {
  eval "undo_$1=\"\${undo_$1-}\$2; \""
  echo "undo $2" >&4
}

# Makes a process and what descends from it a part of a service whose first process has ended.
adopt() {
  service=$1; shift
  "${system}_table"
  for id; do
    for entry in $table; do
      case $entry in
        "$id:"*) eval "known_$service=\"\${known_$service-} $id=\${entry#*:*:*:*:*:}\"" ;;
      esac
    done
  done
  eval "echo \"known $service \$known_$service\"" >&4
}

# Removes what an ended service has left.
forget() {
  eval "eval \"\${undo_$1-}\""
  rm -rf "$folder/$1" "$folder/$1."*
  eval "known_$1="
  echo "known $1" >&4
}

# Appends the next $2 bytes of the input to a file. `tee` keeps reading when the disk is full, so that
# the rest is not taken for requests.
put() {
  left=$2
  while [ "$left" -gt 0 ]; do
    # One read takes no more than what is left.
    got=$(dd bs="$left" count=1 2>/dev/null | tee -a "$1" 2>/dev/null | wc -c)
    [ "$got" -gt 0 ] || exit 0
    left=$((left - got))
  done
  at size; wc -c <"$1"
}

# Sets `size` to the size of a file in bytes, without reading it.
size_of() {
  set -- $(ls -ln "$1")
  size=${5:-0}
}

# Prints a log; of a long one, the first and the last $2 bytes.
log() {
  cut=0
  while read -r more; do cut=$((cut + more)); done <"$1.cut"
  size_of "$1"
  at size; echo $((size + cut))
  if [ -f "$1.head" ]; then
    at head; cat "$1.head"
    at tail; cat "$1.tail" "$1" | tail -c "$2"
  elif [ "$size" -le $((2 * $2)) ]; then
    at head; cat "$1"
  else
    at head; dd if="$1" bs="$2" count=1
    at tail; tail -c "$2" "$1"
  fi
}

# Cuts logs that use too much of the disk. Services append to their logs, so they are not affected.
trim() {
  for log in "$folder"/*.log; do
    size_of "$log"
    [ "$size" -gt "$log_max" ] || continue
    [ -f "$log.head" ] || dd if="$log" of="$log.head" bs=524288 count=1
    tail -c 524288 "$log" >"$log.tail"
    echo "$size" >>"$log.cut" && true >"$log"
  done
}

ticker() {
  while sleep 5 && kill -0 "$1"; do
    echo tick
    trim
  done
}

session() {
  # A caught signal, unlike an ignored one, has its default effect in services.
  trap : PIPE HUP INT TERM
  self=$(exec sh -c 'echo "$PPID"')
  ticker "$self" </dev/null >&4 2>/dev/null 4>&- &
  ticker=$!
  echo "ticker $ticker" >&4
  at system; echo "$system"
  at folder; echo "$folder"
  at peer; echo "${SSH_CONNECTION-}"
  at boot; cat /proc/sys/kernel/random/boot_id 2>/dev/null
  at end
  requests
  # If the keeper was killed, this shell does its work.
  echo end >&4 || { all_known; sweep; }
}

# Kills the processes in `known`, undoes what was done, and removes the folder.
sweep() {
  tries=0
  while family; [ -n "$members" ] && [ "$tries" -lt 10 ]; do
    kill -s KILL $members
    tries=$((tries + 1))
    [ "$tries" -lt 2 ] || sleep 1
  done
  eval "$undone"
  cd / && rm -rf "$folder"
  for entry in $table; do
    case $entry in
      "$ticker:"* | *:"$ticker":*:*:*:*) kill "${entry%%:*}" ;;
    esac
  done
}

# The lines that the session writes:  tick | beat | known SERVICE PID=START... | undo COMMAND | end
keep() {
  trap '' HUP INT TERM
  silent=0
  while read -r word rest; do
    case $word in
      tick) silent=$((silent + 1)); [ "$silent" -lt "$silent_max" ] || break ;;
      beat) silent=0 ;;
      known)
        service=${rest%% *}
        case " $services " in *" $service "*) ;; *) services="$services $service" ;; esac
        eval "known_$service=\${rest#\"\$service\"}"
        ;;
      undo) undone="$undone$rest
" ;;
      ticker) ticker=$rest ;;
      end) break ;;
    esac
  done
  all_known
  sweep
}

all_known() {
  known=
  for service in $services; do eval "known=\"\$known \${known_$service-}\""; done
}

main() {
  if ! complaint=$(mkdir -p "$base" 2>&1 && mkdir "$folder" 2>&1); then
    at refused; echo "$complaint"
    at end
    exit 0
  fi
  exec 5>&1
  { session 4>&1 1>&5 5>&-; } | keep >/dev/null 2>&1 5>&-
  exit 0
}
