# Training on the slices of a server that follows its traffic: what the plan in force can spare is lent, a move to another
# plan takes everything back and lends anew by the tables of that plan, and the recording of it all replays.
. "$(dirname "$0")/lib.sh" || exit 1
services() {
  printf 'services:\n  - {name: rank, model: net, slo: {latency_ms: 500, percentile: 95}, traffic: {rate_per_s: %s}}\n' "$1" >services.yaml
}
services 60
{
  echo device,mig_profile,model,batch,size,processes,latency_ms,latency_spread_ms,memory_mib,throughput_per_s
  echo a100-80gb,1g.10gb,net,1,1,1,25,,900,40
} >m.csv
printf 'devices:\n  - {type: a100-80gb, name: rack, count: 2}\n' >fleet.yaml
printf '#!/bin/sh\ntrap "exit 0" TERM\nwhile :; do sleep 0.1; done\n' >any.sh
chmod +x any.sh
printf 'name: any\ncommand: ./any.sh\n' >any.yaml
"$TANGRAM" serve --follow fleet.yaml --services services.yaml --measurements m.csv --rule half --cuts emulated --load-s 0.5 \
  --http-port 0 --metrics-port 0 --no-grpc --training kept --training-nice 0 --record live.rec >/dev/null 2>log &
PID=$!
for ((i = 0; i < 300; ++i)); do
  grep -qs '"event":"ready"' log && break
  sleep 0.1
done
ADMIN=$(sed -n 's/.*"metrics":"http:[/][/]127.0.0.1:\([0-9]*\)[/].*/\1/p' log)
[[ -n $ADMIN ]] || { fail "the server did not start: $(cat log)"; finish; exit 1; }
# wait_for VERB EXPRESSION: until its answer, as j, makes the Python expression true.
wait_for() {
  for ((i = 0; i < 600; ++i)); do
    # shellcheck disable=SC2086
    "$TANGRAM" $1 --port "$ADMIN" --output json >answer.json 2>/dev/null &&
      python3 -c "import json; j = json.load(open('answer.json')); raise SystemExit(not ($2))" && return
    sleep 0.1
  done
  fail "waited for: $1: $2; $(cat answer.json) $(tail -n 5 log)"
}
expect 0 train submit any.yaml --port "$ADMIN"
wait_for "train show any" 'j["state"] == "running" and j["generation"] >= 1'
# Three times the rate: more slices. The job has none while the plan moves, and one of the new plan afterwards.
services 180
expect 0 reload --port "$ADMIN"
wait_for "follow status" 'j["moves"] >= 1 and not j["moving"]'
wait_for "train show any" 'j["state"] == "running" and j["generation"] >= 2'
[[ $(grep -c '"event":"lending_tables"' log) -ge 2 ]] || fail "no tables for the second plan: $(tail -n 5 log)"
expect 0 train cancel any --port "$ADMIN"
kill -TERM $PID; wait $PID || fail "the server ended with $?"
expect 0 replay live.rec; has out "the same decisions"
grep -q '"lend\|lend ' live.rec || fail "the recording has no lend: $(head -c 300 live.rec)"
finish
