# A gateway that is killed in the midst of moves goes on with a legal plan, and leaves nothing behind: the short form of
# bench/macro/restarts, with emulated cuts and with the stand-in driver.
. "$(dirname "$0")/lib.sh" || exit 1

export TANGRAM_NVML=$FAKE_NVML/libnvidia-ml.so.1
"$SOURCE/bench/macro/restarts" --bin "$(dirname "$TANGRAM")" --kills 3 --within 50 || fail "emulated cuts"
"$SOURCE/bench/macro/restarts" --bin "$(dirname "$TANGRAM")" --kills 3 --within 50 --cuts nvml --seed 2 || fail "cuts of the stand-in driver"

finish
