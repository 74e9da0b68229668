# A server under a service manager: a stand-in reads what it is told through NOTIFY_SOCKET.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1
give_up_after 120 tail -n 20 messages log

cat > manager.py <<'P'
# manager.py SOCKET FILE: appends every datagram, on a line of its own.
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
open("listening", "w").close()
with open(sys.argv[2], "a") as out:
    while True:
        out.write(s.recv(4096).decode().replace("\n", "|") + "\n")
        out.flush()
P
: > messages
python3 manager.py "$WORK/notify" messages &
manager=$!
while [[ ! -e listening ]]; do sleep 0.05; done
# told TEXT NUMBER: waits until so many messages begin with the text.
told() { until (($(grep -c "^$1" messages) >= $2)); do sleep 0.05; kill -0 "$server" 2>/dev/null || { fail "the server is gone: $(tail -n 3 log)"; finish; }; done; }

cp -r "$SOURCE/examples" .
"$TANGRAM" plan examples/fleet.yaml examples/services.yaml --measurements examples/measurements.csv -o plan.json --quiet >/dev/null || fail "no plan"
NOTIFY_SOCKET="$WORK/notify" WATCHDOG_USEC=1000000 "$TANGRAM" serve plan.json --services examples/services.yaml \
  --measurements examples/measurements.csv --http-port 0 --grpc-port 0 --metrics-port 0 2>log &
server=$!
told READY=1 1
# While it serves, it says so twice in each second that the manager gave it.
told WATCHDOG=1 3
kill -HUP "$server"
told RELOADING=1 1
told READY=1 2
# Stopped by a debugger or stuck, it says nothing: that is what the manager watches for.
kill -STOP "$server"
sleep 0.2
before=$(grep -c WATCHDOG=1 messages)
sleep 1.5
[[ $(grep -c WATCHDOG=1 messages) == "$before" ]] || fail "a stopped server says that it is alive"
kill -CONT "$server"
told WATCHDOG=1 $((before + 1))
kill -TERM "$server"
told_end() { until grep -q '^STOPPING=1' messages; do sleep 0.05; done; }
told_end
wait "$server" || fail "exit code $?"
[[ $(grep -m 1 -n '^READY=1' messages) == *"|MAINPID=$server|STATUS=serving" ]] || fail "READY says: $(grep -m 1 '^READY=1' messages)"
kill "$manager"
finish
