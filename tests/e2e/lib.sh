# What the scripts beside this one share. They are given $TANGRAM, $SOURCE and $FAKE_NVML.
set -u
# Before anything is written: without them a script would go on and fail in odd ways.
: "${TANGRAM:?}" "${SOURCE:?}"
unset TANGRAM_OUTPUT TANGRAM_QUIET NO_COLOR
WORK=$(mktemp -d)
trap 'chmod -R u+w "$WORK"; rm -rf "$WORK"' EXIT
cd "$WORK" || exit 1
FAILURES=0

fail() {
  echo "FAILED: $*" >&2
  FAILURES=$((FAILURES + 1))
}

# expect CODE ARGUMENTS...: runs tangram; what it printed is then in out and err.
expect() {
  local wanted=$1 code=0
  shift
  "$TANGRAM" "$@" >out 2>err </dev/null || code=$?
  [[ $code == "$wanted" ]] || fail "tangram $*: exit $code, expected $wanted: $(head -c 300 err)"
}

# answers ARGUMENTS...: runs tangram load; every request is answered or refused, and some are answered. Whether in time
# depends on what else the machine does, so a broken promise is no failure here.
answers() {
  local code=0
  "$TANGRAM" load "$@" --output json >out 2>err </dev/null || code=$?
  [[ $code == 0 || $code == 1 ]] || fail "tangram load $*: exit $code: $(head -c 300 err)"
  python3 - out <<'P' || fail "tangram load $*: $(head -c 600 out)"
import json, sys
total = json.load(open(sys.argv[1]))["total"]
sys.exit(total["failed"] + total["unanswered"] > 0 or total["in_time"] + total["late"] == 0)
P
}

# has FILE TEXT: the file contains the text.
has() { grep -qF -- "$2" "$1" || fail "$1 lacks \"$2\": $(head -c 300 "$1")"; }
empty() { [[ ! -s $1 ]] || fail "$1 is not empty: $(head -c 300 "$1")"; }

finish() { [[ $FAILURES == 0 ]] && echo "all as expected" || exit 1; }

# give_up_after SECONDS COMMAND...: if the script still runs then, says so, runs the command to show what it waits for, and
# ends it. Without this a test that hangs is killed by ctest and tells nothing.
give_up_after() {
  local seconds=$1 script=$$
  shift
  (
    # Ends with the script: nobody waits for a sleep that is left behind.
    for ((i = 0; i < seconds; ++i)); do sleep 1; kill -0 "$script" 2>/dev/null || exit; done
    echo "FAILED: still running after $seconds s" >&2
    "$@" >&2
    kill -TERM "$script"
  ) &
}

# needs_data FILE...: where the public data lies, in $DATA; without one of the files (named from there) the test is skipped.
needs_data() {
  DATA=${TANGRAM_DATA:-$SOURCE/../shared/data}
  local file
  for file in "$@"; do
    [[ -e $DATA/$file ]] || { echo "skipped: $DATA/$file is not there"; exit 77; }
  done
}
