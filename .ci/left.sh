# What a check leaves behind. .ci/steps.sh sources this file and sets HEARSAY_RUN.
#
# PostgreSQL starts in a session of its own, so neither the process group nor the session
# shows what a run started. Every child inherits HEARSAY_RUN, and /proc shows it, except for
# redis-server, which writes its title over its environment. A redis-server of the run works
# in TMPDIR. Without /proc nothing is found.

# left prints the ids of the processes of the run: those with the mark, and each redis-server
# that works in TMPDIR.
left() (
  export -n HEARSAY_RUN # the programs below are not left
  {
    grep -lzxF "HEARSAY_RUN=$HEARSAY_RUN" /proc/[0-9]*/environ
    find /proc/[0-9]*/cwd -maxdepth 0 \( -lname "$TMPDIR" -o -lname "$TMPDIR[/ ]*" \) -exec sh -c 'grep -l "^redis-server$" "${1%cwd}comm"' - {} \;
  } 2>/dev/null | cut -d/ -f3 | sort -un
)

# none_left SECONDS: waits up to SECONDS until no process is left. It fails if one is.
none_left() {
  local round
  for ((round = 0; round <= $1 * 5; round++)); do
    [ -n "$(left)" ] || return 0
    sleep 0.2
  done
  return 1
}

# end_left SECONDS: gives what is left so many seconds to end by itself, then stops and names
# it. It fails if it stopped something. Nobody may read what it prints any more: that stops
# nothing.
end_left() {
  local pid named=()
  trap '' PIPE
  none_left "$1" && return 0
  for pid in $(left); do
    named+=("process $pid: $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")")
    kill -TERM "$pid" 2>/dev/null || true
  done
  none_left 5 || { kill -KILL $(left) 2>/dev/null || true; none_left 5 || true; }
  printf 'LEFT BEHIND: %s\n' "${named[@]}" >&2 || true
  return 1
}

# watch: once the shell that calls it is gone, ends what is left and removes TMPDIR. The
# watcher has a session of its own, so that it outlives its process group.
watch() {
  [ -d /proc/self ] || return 0
  env -u HEARSAY_RUN setsid bash -c '
    HEARSAY_RUN=$2
    . "$3" # now: the checkout may be gone at the end
    # A zombie counts as gone: a caller may read the output to its end before it waits.
    while state=$(sed "s/.*) //" "/proc/$1/stat" 2>/dev/null) && [ "${state%% *}" != Z ]; do sleep 0.5; done
    end_left 0
    rm -rf "$TMPDIR"
  ' watch "$$" "$HEARSAY_RUN" "$(realpath "${BASH_SOURCE[0]}")" >/dev/null &
}
