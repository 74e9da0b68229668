# What the scripts beside this one share. They are given $TANGRAM, $SOURCE and $FAKE_NVML.
set -u
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

# has FILE TEXT: the file contains the text.
has() { grep -qF -- "$2" "$1" || fail "$1 lacks \"$2\": $(head -c 300 "$1")"; }
empty() { [[ ! -s $1 ]] || fail "$1 is not empty: $(head -c 300 "$1")"; }

finish() { [[ $FAILURES == 0 ]] && echo "all as expected" || exit 1; }
