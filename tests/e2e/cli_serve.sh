# A server as clients meet it: exchanges with curl-like bytes, odd clients, overload, reload, drain, replay.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1
cp -r "$SOURCE/examples" .

expect 2 serve examples/serving/plan.json --services examples/serving/services.yaml; has err "--measurements"
for verb in status top reload; do
  expect 3 "$verb" --port 1; has err "cannot connect"; has err "tangram serve PLAN"; has err "--address and --port"
done
serve=(serve examples/serving/plan.json --services examples/serving/services.yaml --measurements examples/measurements.csv)
expect 2 "${serve[@]}" --engine remote; has err "--remote HOST:PORT"
expect 2 "${serve[@]}" --engine remote --remote localhost; has err "127.0.0.1:8000"
expect 2 "${serve[@]}" --remote 127.0.0.1:1; has err "--engine remote"

# start NAME ARGUMENTS...: runs a server with free ports, which are then in HTTP, GRPC and METRICS.
start() {
  local name=$1 latency=(--measurements examples/measurements.csv)
  shift
  [[ " $* " == *" --model "* ]] && latency=()
  : >"$name.err"
  "$TANGRAM" serve examples/serving/plan.json --services examples/serving/services.yaml "${latency[@]}" \
    --http-port 0 --grpc-port 0 --metrics-port 0 "$@" >"$name.out" 2>"$name.err" &
  SERVER=$!
  for _ in $(seq 200); do grep -q '"event":"ready"' "$name.err" && break; sleep 0.05; done
  HTTP=$(sed -n 's/.*"event":"serving".*"http":"http:..127.0.0.1:\([0-9]*\)".*/\1/p' "$name.err")
  GRPC=$(sed -n 's/.*"grpc":"127.0.0.1:\([0-9]*\)".*/\1/p' "$name.err")
  METRICS=$(sed -n 's/.*"metrics":"http:..127.0.0.1:\([0-9]*\)\/.*/\1/p' "$name.err")
  [[ -n $HTTP && -n $METRICS ]] || fail "the server did not start: $(cat "$name.err")"
}

# stop NAME: SIGTERM, and everything is answered.
stop() {
  local code=0
  kill -TERM "$SERVER"
  wait "$SERVER" || code=$?
  [[ $code == 0 ]] || fail "the server ended with $code: $(tail -c 300 "$1.err")"
}

# The plan of the examples is one from before services shared slices: it is served as it was.
grep -qE '"(load|rate_max_per_s|reserved)"' examples/serving/plan.json && fail "the plan to serve is from after sharing"
for threads in 1 2; do
  start "t$threads" --threads "$threads" --record "r$threads" --triton-metrics --log-requests
  python3 "$SOURCE/tests/e2e/serve_clients.py" "$HTTP" "$METRICS" || fail "clients with $threads threads"
  expect 0 status --port "$METRICS"; has out "rank-answers"; has out "rack1-0/4g.40gb@0"
  expect 0 status --port "$METRICS" --output json; has out '"draining": false'
  expect 0 top --port "$METRICS" --every 0.05 --times 2; has out "rank-answers"; has out "rack1-0: 4g.40gb@0"
  # A plan that says the same, and one with other buckets, while requests flow.
  sed -i 's/"size_max": 128, "batch_size": 8/"size_max": 256, "batch_size": 4/' examples/serving/plan.json
  python3 "$SOURCE/tests/e2e/serve_clients.py" "$HTTP" "$METRICS" load & LOAD=$!
  sleep 0.5
  expect 0 reload --port "$METRICS"; has out "read its files again"
  kill -HUP "$SERVER"
  wait "$LOAD" || fail "requests were dropped while the plan changed"
  for _ in $(seq 100); do grep -q plan_changed "t$threads.err" && break; sleep 0.05; done
  has "t$threads.err" '"event":"plan_changed"'
  has "t$threads.err" '"event":"request"'
  has "t$threads.err" '"slice":"rack1-0/'
  echo '{' > broken.json
  cp examples/serving/plan.json good.json; cp broken.json examples/serving/plan.json
  kill -HUP "$SERVER"
  for _ in $(seq 100); do grep -q reload_failed "t$threads.err" && break; sleep 0.05; done
  has "t$threads.err" '"event":"reload_failed"'
  expect 1 reload --port "$METRICS"; has out "continues with its old files"; has out "plan.json:"
  expect 1 reload --port "$METRICS" --output json; has out '"reload": "refused"'
  cp "$SOURCE/examples/serving/plan.json" examples/serving/plan.json
  stop "t$threads"
  expect 0 replay "r$threads"; has out "the same decisions"
  expect 0 replay "r$threads" --output json; has out '"complete": true'
done

# Standard error holds lines of JSON and nothing else, and every request that was refused has one with its reason.
python3 - t1.err <<'P' || fail "the log is not what it should be: $(head -n 3 t1.err)"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert lines[0]["event"] == "serving" and lines[0]["models"] == 2 and lines[0]["http"].startswith("http://127.0.0.1:"), lines[0]
refused = [l for l in lines if l.get("outcome") == "refused"]
assert {l["why"] for l in refused} >= {"invalid", "malformed", "unloaded"}, {l["why"] for l in refused}
assert all(l["reason"] and l["status"] >= 400 and l["event"] == "request" for l in refused), refused[0]
assert any(l.get("model") == "rank-answers" and "timeout" in l["reason"] for l in refused), "a wrong parameter"
P

# Each slice in a process of its own: the same exchanges, and a worker that is killed is replaced.
start workers --workers --threads 2 --record rw --triton-metrics --log-requests
python3 "$SOURCE/tests/e2e/serve_clients.py" "$HTTP" "$METRICS" || fail "clients with workers"
pids() { "$TANGRAM" status --port "$METRICS" --output json | sed -n 's/.*"process": \([1-9][0-9]*\).*/\1/p'; }
first=$(pids | head -1)
kill -9 "$first" || fail "no worker to kill"
for _ in $(seq 100); do [[ $(pids | wc -l) == 3 ]] && ! pids | grep -q "^$first$" && break; sleep 0.05; done
[[ $(pids | wc -l) == 3 ]] || fail "the worker was not replaced: $(tail -n 3 workers.err)"
has workers.err '"event":"worker_lost"'
python3 "$SOURCE/tests/e2e/serve_clients.py" "$HTTP" "$METRICS" || fail "clients after a worker was killed"
left=$(pids)
stop workers
for pid in $left; do kill -0 "$pid" 2>/dev/null && fail "worker $pid outlived the server"; done
expect 0 replay rw; has out "the same decisions"

# What was recorded is in the file a second later, whatever becomes of the server; and a file that cannot be written is
# said once, and in the exit code.
start killed --record rk
answers --services examples/serving/services.yaml --http-port "$HTTP" --protocol http --seconds 1
for _ in $(seq 100); do grep -q '^< resolve' rk && break; sleep 0.05; done
kill -9 "$SERVER"; wait "$SERVER" 2>/dev/null
expect 0 replay rk --output json; has out '"complete": false'
start full --record /dev/full
answers --services examples/serving/services.yaml --http-port "$HTTP" --protocol http --seconds 1
code=0; kill -TERM "$SERVER"; wait "$SERVER" || code=$?
[[ $code == 3 ]] || fail "a recording that cannot be written: exit $code"
[[ $(grep -c '"event":"recording_failed"' full.err) == 1 ]] || fail "recording_failed: $(cat full.err)"
has full.err "cannot write /dev/full"

# A service that changes what clients and workers know of it needs a new start; nothing of such a reload counts.
start changed
expect 0 status --port "$METRICS" --output json; has out '"process": null'
cp examples/serving/services.yaml same.yaml
sed -i '0,/datatype: INT64/s//datatype: INT32/' examples/serving/services.yaml
cmp -s same.yaml examples/serving/services.yaml && fail "the example has no INT64 any more"
expect 1 reload --port "$METRICS"; has out "has other tensors, which requires a restart"
cp same.yaml examples/serving/services.yaml
expect 0 reload --port "$METRICS"; has out "read its files again"
# A pipe in the place of the plan is refused; whoever read it would wait for ever.
mv examples/serving/plan.json regular.json; mkfifo examples/serving/plan.json
expect 1 reload --port "$METRICS"; has out "plan.json: is a pipe"
rm examples/serving/plan.json; mv regular.json examples/serving/plan.json
# Answered, but in no time that this promise allows: 1, where a server that does not answer gives 3.
expect 1 load --model rank-answers --rate 50 --size 32 --slo-ms 0.001 --seconds 0.5 --http-port "$HTTP"
# What the model takes is asked for by the protocol that is used: nobody listens at that HTTP port.
if [[ -n $GRPC ]]; then
  answers --model rank-answers --rate 50 --size 32 --slo-ms 1000 --seconds 1 --protocol grpc --grpc-port "$GRPC" \
    --http-port 1
  expect 3 load --model none --protocol grpc --grpc-port "$GRPC" --http-port 1; has err "the server does not have this model"
fi
# A trace without a request is nothing to keep a promise by.
echo at_s,size > examples/serving/silent.csv
sed '0,/traffic: .*/s//traffic: {trace: {file: silent.csv}}/' examples/serving/services.yaml > examples/serving/silent.yaml
answers --services examples/serving/silent.yaml --http-port "$HTTP" --seconds 1
has err "classify-photos: its trace has no requests; no requests are sent to it"
expect 2 load --services examples/serving/silent.yaml --only classify-photos --http-port "$HTTP" --clients 2
has err "no request is due"
stop changed

# A recording in which one decision is another.
sed '0,/^< resolve \([0-9]*\) 0/s//< resolve \1 1/' r1 > bent
expect 1 replay bent; has out "the decision differs"
expect 2 replay examples/serving/plan.json; has err "not a recording"

# Batches that take half as long again as the model says: the log says so, and the model is fitted anew.
expect 0 learn examples/measurements.csv -o model.json
start drift --model model.json --time-scale 1.5 --refit refitted.json
answers --services examples/serving/services.yaml --http-port "$HTTP" --protocol http --seconds 4
stop drift
has drift.err '"event":"model_drift"'
expect 0 predict refitted.json --device a100-80gb --model mobile-vision --slice 4g.40gb --batch 4

# A port that is taken.
start taken
expect 3 serve examples/serving/plan.json --services examples/serving/services.yaml --measurements examples/measurements.csv \
  --http-port "$HTTP"; has err "cannot listen"
stop taken
finish
