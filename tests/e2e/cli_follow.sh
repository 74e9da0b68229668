# A gateway that follows its traffic: it gets more devices as the rate rises and gives them back, nothing is lost meanwhile,
# people can steer it, and a recording with its moves replays to the same decisions.
. "$(dirname "$0")/lib.sh" || exit 1

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
# begin_server OPTIONS...: starts one; its number is in $SERVED and its process in $PID.
begin_server() {
  SERVED=$((SERVED + 1))
  "$TANGRAM" serve --follow fleet.yaml --services day.yaml --measurements m.csv --rule half --speed 60 --begin 0 \
    --http-port 0 --metrics-port 0 --no-grpc "$@" >/dev/null 2>log.$SERVED &
  PID=$!
}
# wait_ready: until the last one is; its ports are then in $HTTP and $ADMIN.
wait_ready() {
  for ((i = 0; i < 300; ++i)); do
    grep -qs '"event":"ready"' log.$SERVED && break
    sleep 0.1
  done
  HTTP=$(sed -n 's/.*"http":"http:[/][/]127.0.0.1:\([0-9]*\)".*/\1/p' log.$SERVED)
  ADMIN=$(sed -n 's/.*"metrics":"http:[/][/]127.0.0.1:\([0-9]*\)[/].*/\1/p' log.$SERVED)
  [[ -n $HTTP && -n $ADMIN ]] || { fail "the server did not start: $(cat log.$SERVED)"; finish; }
}
# follow_server OPTIONS...: both, on an emulated fleet.
follow_server() {
  begin_server --cuts emulated "$@"
  wait_ready
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
expect 2 serve plan.json --services day.yaml --measurements m.csv --follow-mode ask; has err "--follow"
for option in "--cuts emulated" "--load-s 3" "--guard 60" "--lost-after 5" "--interval 60" "--state kept" "--freeze 01:00-02:00" \
  "--recut-times m.csv" "--objective price" "--speed 60" "--begin 5"; do
  # shellcheck disable=SC2086
  expect 2 serve plan.json --services day.yaml --measurements m.csv $option; has err "--follow"
done
expect 2 serve --follow fleet.yaml --services day.yaml --measurements m.csv --begin -5; has err "--begin"
expect 2 follow dance; has err "approve"

# The way up and down.
follow_server --record live.rec
wait_for 'f["plan_devices"] == 1 and f["state"] == "watching" and f["mode"] == "act"'
"$TANGRAM" load --services day.yaml --speed 60 --http-port "$HTTP" --seconds 45 --output json >load.json 2>load.err &
LOAD=$!
wait_for 'f["moves"] >= 1'
wait_for 'f["moves"] >= 2 and f["plan_devices"] == 1 and not f["moving"]'
# A plan that stays: paused, nothing moves on its own.
expect 0 follow pause --port "$ADMIN"; has out "paused"
expect 0 follow resume --port "$ADMIN"
expect 1 follow resume --port "$ADMIN"; has err "neither paused nor held"
expect 0 follow now --port "$ADMIN"
expect 1 follow approve --port "$ADMIN"; has err "no plan to approve"
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
wait_for 'f["proposal"] is None and f["last_reason"] == "asked for" and not f["moving"]'
kill -TERM "$PID"; wait "$PID"

# Only advise.
follow_server --follow-mode advise
expect 0 follow now --port "$ADMIN"
wait_for '"would move" in f["last_reason"] and f["moves"] == 0'
kill -TERM "$PID"; wait "$PID"

# Killed in the midst of its work: the next one goes on with plan and counters, and only one at a time uses the folder.
follow_server --state kept
expect 0 follow lose rack-0 --port "$ADMIN"
wait_for 'f["moves"] == 1 and not f["moving"]'
expect 0 follow pause --port "$ADMIN"
expect 3 serve --follow fleet.yaml --services day.yaml --measurements m.csv --state kept --http-port 0; has err "--standby"
FIRST=$PID
begin_server --cuts emulated --state kept --standby
sleep 1
if grep -q '"event":"ready"' log.$SERVED; then fail "the standby did not wait"; fi
kill -KILL "$FIRST"; wait "$FIRST" 2>/dev/null
wait_ready
wait_for 'f["moves"] == 1 and f["state"] == "paused" and f["device_hours"] > 0'
kill -TERM "$PID"; wait "$PID"
# Another service: the plan that was kept does not fit.
sed 's/name: rank/name: other/' day.yaml >other.yaml
cp day.yaml kept.yaml; cp other.yaml day.yaml
follow_server --state kept
has log.$SERVED "state_not_used"; has log.$SERVED "the services are others"
kill -TERM "$PID"; wait "$PID"
cp kept.yaml day.yaml

# A lost device is planned around, and used again when it is back. The recording replays with the loss.
follow_server --record loss.rec
expect 2 follow lose --port "$ADMIN"; has err "needs the name"
expect 0 follow lose rack-0 --port "$ADMIN"
wait_for 'f["lost"] == ["rack-0"] and f["moves"] == 1 and not f["moving"] and "lost rack-0" in f["last_reason"]'
expect 0 status --port "$ADMIN" --output json
python3 - <<'P' || fail "where it is served: $(head -c 600 out)"
import json
status = json.load(open("out"))
assert {s["slice"].split("/")[0] for s in status["slices"]} == {"rack-1"}, status["slices"]
assert all(s["ready"] for s in status["services"])
P
answers --services day.yaml --speed 60 --http-port "$HTTP" --seconds 2
# Without any device nothing can be served, and probes hear of it; with one back, it is served again.
ready() { curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$HTTP/v2/health/ready"; }
wait_ready_is() {
  for ((i = 0; i < 300; ++i)); do [[ $(ready) == "$1" ]] && return; sleep 0.1; done
  fail "ready is $(ready), expected $1: $(tail -n 3 log.$SERVED)"
}
expect 0 follow lose rack-1 --port "$ADMIN"
wait_ready_is 400
expect 0 follow restore rack-1 --port "$ADMIN"
wait_ready_is 200
expect 0 follow restore rack-0 --port "$ADMIN"
wait_for 'f["lost"] == []'
has log.$SERVED '"event":"devices_back"'
# A loss while it is paused is repaired as soon as it may be.
wait_for 'not f["moving"] and f["state"] != "moving"'
expect 0 follow pause --port "$ADMIN"
expect 0 follow lose rack-1 --port "$ADMIN"
wait_for 'f["lost"] == ["rack-1"] and f["state"] == "paused"'
expect 0 follow resume --port "$ADMIN"
wait_for 'not f["moving"] and "lost rack-1" in f["last_reason"]'
wait_ready_is 200
kill -TERM "$PID"; wait "$PID"
expect 0 replay loss.rec; has out "the same decisions"

# GPUs of the stand-in driver, cut for real: for the first plan, and again when the plan changes.
export TANGRAM_STATE=$WORK/gpu-state FAKE_NVML_STATE=$WORK/gpus TANGRAM_NVML=$FAKE_NVML/libnvidia-ml.so.1
layout() { "$TANGRAM" doctor --output json | python3 -c 'import json,sys; print(json.load(sys.stdin)["gpus"][0]["layout"])'; }
layout >before.txt
# One GPU: seven small slices are enough for 30 requests/s, and only the whole GPU for 300.
printf 'devices:\n  - {type: a100-80gb, name: rack, count: 1}\n' >fleet.yaml
printf '30\n300\n300\n300\n' >rates.txt
echo a100-80gb,7g.80gb,net,1,1,1,2,,900,500 >>m.csv
begin_server --cuts nvml --state gpu-kept
wait_ready
layout >first.txt
cmp -s before.txt first.txt && fail "the first plan was not cut: $(cat first.txt)"
"$TANGRAM" load --services day.yaml --speed 60 --http-port "$HTTP" --seconds 25 --output json >load.json 2>load.err &
LOAD=$!
for ((i = 0; i < 300; ++i)); do
  layout >second.txt
  [[ $(<second.txt) == 7g.80gb@0 ]] && break
  sleep 0.1
done
wait_for 'f["moves"] >= 1 and not f["moving"]'
cmp -s first.txt second.txt && fail "the second plan was not cut: $(cat second.txt) $(grep cut log.$SERVED)"
has log.$SERVED '"event":"device_cut"'
wait "$LOAD"
python3 - <<'P' || fail "load on real cuts: $(head -c 600 load.json) $(cat load.err)"
import json
total = json.load(open("load.json"))["total"]
assert total["failed"] + total["unanswered"] == 0 and total["in_time"] > 300, total
P
kill -TERM "$PID"; wait "$PID"
[[ -e $TANGRAM_STATE/checkpoint.json ]] || fail "no checkpoint was left: $(ls "$TANGRAM_STATE")"

finish
