# A gateway that follows its traffic: it gets more devices as the rate rises and gives them back, nothing is lost meanwhile,
# people can steer it, and a recording with its moves replays to the same decisions.
. "$(dirname "$0")/lib.sh"

# An hour of the day is a minute here. A quarter of an hour at 30 requests/s, one at 150, then 30 again.
printf '30\n150\n30\n30\n30\n30\n' >rates.txt
services() {
  printf 'services:\n  - {name: rank, model: net, slo: {latency_ms: 2000, percentile: 95}, traffic: {rate_curve: {file: rates.txt, step_s: %s}}}\n' "$1"
}
services 900 >day.yaml
# 25 ms a batch of one on the smallest slice: 40 requests/s.
{
  echo device,mig_profile,model,batch,size,processes,latency_ms,latency_spread_ms,memory_mib,throughput_per_s
  echo a100-80gb,1g.10gb,net,1,1,1,25,,900,40
} >m.csv
printf 'devices:\n  - {type: a100-80gb, name: rack, count: 2}\n' >fleet.yaml
SERVED=0
# follow_server OPTIONS...: starts one; its ports are then in $HTTP and $ADMIN.
follow_server() {
  SERVED=$((SERVED + 1))
  "$TANGRAM" serve --follow fleet.yaml --services day.yaml --measurements m.csv --rule half --speed 60 --begin 0 \
    --cuts emulated --http-port 0 --metrics-port 0 --no-grpc "$@" >/dev/null 2>log.$SERVED &
  PID=$!
  for ((i = 0; i < 300; ++i)); do
    grep -q '"event":"ready"' log.$SERVED && break
    sleep 0.1
  done
  HTTP=$(sed -n 's/.*"http":"http:[/][/]127.0.0.1:\([0-9]*\)".*/\1/p' log.$SERVED)
  ADMIN=$(sed -n 's/.*"metrics":"http:[/][/]127.0.0.1:\([0-9]*\)[/].*/\1/p' log.$SERVED)
  [[ -n $HTTP && -n $ADMIN ]] || { fail "the server did not start: $(cat log.$SERVED)"; finish; }
}
# wait_for EXPRESSION: until the status of following, as f, makes the Python expression true.
wait_for() {
  for ((i = 0; i < 600; ++i)); do
    "$TANGRAM" follow --port "$ADMIN" --output json >status.json 2>/dev/null &&
      python3 -c "import json; f = json.load(open('status.json')); raise SystemExit(not ($1))" && return
    sleep 0.1
  done
  fail "waited for: $1; $(cat status.json) $(tail -n 3 log.$SERVED)"
}

# Wrong usage.
expect 2 serve --services day.yaml --measurements m.csv; has err "--follow FLEET"
expect 2 serve plan.json --follow fleet.yaml --services day.yaml --measurements m.csv; has err "leave out PLAN"
expect 2 serve plan.json --services day.yaml --measurements m.csv --follow-mode ask; has err "need --follow"
expect 2 follow dance; has err "approve"

# The way up and down.
follow_server --record live.rec
wait_for 'f["plan_devices"] == 1 and f["state"] == "watching" and f["mode"] == "act"'
"$TANGRAM" load --services day.yaml --speed 60 --http-port "$HTTP" --seconds 60 --output json >load.json 2>load.err &
LOAD=$!
wait_for 'f["moves"] >= 1'
wait_for 'f["moves"] >= 2 and f["plan_devices"] == 1 and not f["moving"]'
# A plan that stays: paused, nothing moves on its own.
expect 0 follow pause --port "$ADMIN"; has out "paused"
expect 0 follow resume --port "$ADMIN"
expect 3 follow resume --port "$ADMIN"; has err "neither paused nor held"
expect 0 follow now --port "$ADMIN"
expect 3 follow approve --port "$ADMIN"; has err "no plan to approve"
wait "$LOAD"
python3 - <<'P' || fail "load: $(head -c 600 load.json) $(cat load.err)"
import json
total = json.load(open("load.json"))["total"]
assert total["failed"] + total["unanswered"] == 0 and total["in_time"] > 1000, total
P
wait_for 'not f["moving"] and f["state"] != "moving"'
expect 0 follow undo --port "$ADMIN"
wait_for 'f["state"] == "held" and f["moves_undone"] == 1 and "asked for" in f["last_reason"]'
expect 0 status --port "$ADMIN" --output json; has out '"device_hours"'
python3 - "$ADMIN" <<'P' || fail "metrics"
import sys, urllib.request
text = urllib.request.urlopen("http://127.0.0.1:%s/metrics" % sys.argv[1]).read().decode()
assert "tangram_follow_moves_undone_total 1" in text and 'tangram_follow_state{state="held"} 1' in text, text[-900:]
P
kill -TERM "$PID"; wait "$PID" || fail "the server ended with $?"
expect 0 replay live.rec; has out "the same decisions"

# Ask first: the plan waits for approval.
follow_server --follow-mode ask
expect 0 follow now --port "$ADMIN"
wait_for 'f["state"] == "proposed" and f["moves"] == 0 and f["proposal"]["devices"] == 1'
expect 0 follow approve --port "$ADMIN"
wait_for 'f["moves"] == 1 and f["proposal"] is None'
kill -TERM "$PID"; wait "$PID"

# Only advise.
follow_server --follow-mode advise
expect 0 follow now --port "$ADMIN"
wait_for '"would move" in f["last_reason"] and f["moves"] == 0'
kill -TERM "$PID"; wait "$PID"

finish
