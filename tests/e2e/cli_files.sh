# Nothing half-written, and a reader who leaves is no crash.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1

"$TANGRAM" geometry a100-80gb > /dev/full 2> err; code=$?
[[ $code == 3 ]] || fail "a full disk behind standard output: exit $code"
has err "No space left on device"

expect 3 geometry a100-80gb --svg /dev/full; has err "/dev/full: cannot write"
[[ -c /dev/full ]] || fail "/dev/full was replaced"
expect 3 geometry a100-80gb --svg no/such/folder.svg; has err "no such file or directory"
expect 3 geometry a100-80gb --svg .; has err "is a directory"

# A file system of one page: the picture does not fit, and the old one stays.
mkdir small
if mount -t tmpfs -o size=4k,nr_inodes=8 none small 2>/dev/null; then
  echo old > small/picture.svg
  expect 3 geometry a100-80gb --svg small/picture.svg; has err "No space left on device"
  [[ $(cat small/picture.svg) == old ]] || fail "the old picture is gone"
  [[ $(ls -A small) == picture.svg ]] || fail "something was left behind: $(ls -A small)"
  mount -o remount,ro small
  expect 3 geometry a100-80gb --svg small/picture.svg; has err "Read-only file system"
  umount small
else
  echo "skipped: no permission to mount a small file system"
fi

# Root may write anywhere, so the folder without permission is tried as somebody else.
mkdir locked; echo old > locked/picture.svg; chmod 555 locked
if [[ $(id -u) == 0 ]] && command -v setpriv >/dev/null; then
  chmod 755 "$WORK"
  setpriv --reuid=65534 --regid=65534 --clear-groups "$TANGRAM" geometry a30 --svg locked/picture.svg 2> err; code=$?
else
  "$TANGRAM" geometry a30 --svg locked/picture.svg 2> err; code=$?
fi
[[ $code == 3 ]] || fail "a locked folder: exit $code: $(cat err)"
[[ $(ls -A locked) == picture.svg && $(cat locked/picture.svg) == old ]] || fail "the locked folder changed"

# Far more than a pipe holds, and a reader who takes one line.
"$TANGRAM" geometry a100-80gb --layouts valid --set me --limit 0 2> err | head -1 > out
codes=("${PIPESTATUS[@]}")
[[ ${codes[0]} == 0 ]] || fail "| head: exit ${codes[0]}"
empty err

# Import writes whole files.
printf 'wrong header\n1,2\n' > wrong.csv
echo old > to.csv
expect 2 import parvagpu wrong.csv -o to.csv
[[ $(cat to.csv) == old ]] || fail "a failed import touched its target"
expect 3 import parvagpu missing.csv -o to.csv
finish
