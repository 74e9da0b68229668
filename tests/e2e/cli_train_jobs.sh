# Training jobs on the slices that a server lends: they grow onto idle slices, give them back to traffic, grow again, survive
# a server that is killed, and end with the bits of one trainer. A recording with lends and recalls replays.
. "$(dirname "$0")/lib.sh" || exit 1

# Three slices, of which a tenth of the planned rate needs one.
printf 'services:\n  - {name: rank, model: net, slo: {latency_ms: 500, percentile: 95}, traffic: {rate_per_s: 90}}\n' >services.yaml
{
  echo device,mig_profile,model,batch,size,processes,latency_ms,latency_spread_ms,memory_mib,throughput_per_s
  echo a100-80gb,1g.10gb,net,1,1,1,25,,900,40
} >m.csv
python3 - <<'P'
import json
replica = {"service": "rank", "processes": 1, "buckets": [{"size_max": 1, "batch_size": 1}]}
slices = [{"profile": "1g.10gb", "start": start, "replicas": [replica]} for start in range(3)]
json.dump({"version": 1, "devices": [{"name": "rack", "type": "a100-80gb",
           "layout": " + ".join("1g.10gb@%d" % s for s in range(3)), "slices": slices}]}, open("plan.json", "w"))
P
job() { # job NAME MAX COMMAND...
  printf 'name: %s\ncommand: %s\nslices: {min: 1, max: %s}\ncheckpoint_every_s: 1000\nrecall_max_ms: 20000\n' "$1" "${*:3}" "$2" >"$1.yaml"
}
SERVED=0
begin_server() {
  SERVED=$((SERVED + 1))
  "$TANGRAM" serve plan.json --services services.yaml --measurements m.csv --http-port 0 --metrics-port 0 --no-grpc "$@" \
    >/dev/null 2>log.$SERVED &
  PID=$!
  for ((i = 0; i < 300; ++i)); do
    grep -qs '"event":"ready"' log.$SERVED && break
    sleep 0.1
  done
  HTTP=$(sed -n 's/.*"http":"http:[/][/]127.0.0.1:\([0-9]*\)".*/\1/p' log.$SERVED)
  ADMIN=$(sed -n 's/.*"metrics":"http:[/][/]127.0.0.1:\([0-9]*\)[/].*/\1/p' log.$SERVED)
  [[ -n $HTTP && -n $ADMIN ]] || { fail "the server did not start: $(cat log.$SERVED)"; finish; exit 1; }
}
# wait_for JOB EXPRESSION: until the job, as j, makes the Python expression true.
wait_for() {
  for ((i = 0; i < 900; ++i)); do
    "$TANGRAM" train show "$1" --port "$ADMIN" --output json >job.json 2>/dev/null &&
      python3 -c "import json; j = json.load(open('job.json')); raise SystemExit(not ($2))" && return
    sleep 0.1
  done
  fail "waited for: $2; $(cat job.json) $(tail -n 5 log.$SERVED)"
}

# Wrong files and wrong usage, before any server is asked.
printf 'name: a\ncommand: python3 none.py\nslcies: {max: 2}\n' >wrong.yaml
expect 2 train submit wrong.yaml; has err "wrong.yaml:3"
job lost 1 "python3 none.py"
expect 3 train submit lost.yaml; has err "none.py, which is not there"
expect 2 train list digits; has err "list takes no name"
expect 2 train cancel; has err "needs the name of a job"
expect 2 train run; has err "needs a SCRIPT"

begin_server
expect 1 train list --port "$ADMIN"; has err "--training DIR"
kill $PID; wait $PID

# A command of any kind: it is started on one slice, ends by SIGTERM when it is cancelled, and its output is kept.
printf '#!/bin/sh\ntrap "echo saved; exit 0" TERM\necho began $TANGRAM_CHECKPOINT oom $(cat /proc/self/oom_score_adj)\nwhile :; do sleep 0.1; done\n' >any.sh
chmod +x any.sh
job any 3 "./any.sh"
begin_server --training kept --training-nice 0 --record live.rec
expect 0 train list --port "$ADMIN"; has out "no training jobs"
expect 0 train submit any.yaml --port "$ADMIN" --output json; has out '"queued"'
expect 1 train submit any.yaml --port "$ADMIN"; has err "already"
# Who reaches the port but cannot read the key runs nothing.
[[ $(stat -c %a kept/submit.key) == 600 ]] || fail "the key can be read: $(ls -l kept/submit.key)"
code=$(curl -s -o answer -w '%{http_code}' --data-binary @any.yaml "http://127.0.0.1:$ADMIN/training")
[[ $code == 403 ]] || fail "a job without the key: $code, $(cat answer)"
expect 1 train show none --port "$ADMIN"; has err "no training job 'none'"
wait_for any 'j["state"] == "running" and len(j["slices"]) == 1'
expect 3 serve plan.json --services services.yaml --measurements m.csv --http-port 0 --metrics-port 0 --no-grpc --training kept
has err "another server uses"
# Traffic as it was planned takes every slice back: the command is ended.
"$TANGRAM" load --services services.yaml --http-port "$HTTP" --seconds 10 --output json >load.json 2>load.err &
LOAD=$!
wait_for any 'j["state"] == "parked"'
wait $LOAD
python3 -c 'import json; t = json.load(open("load.json"))["total"]; raise SystemExit(t["failed"] + t["unanswered"] > 0)' ||
  fail "load: $(cat load.json load.err)"
wait_for any 'j["state"] == "running" and j["generation"] >= 2'
expect 0 train logs any --port "$ADMIN"; has out "saved"; has out "kept/jobs/any/state oom 1000"
expect 0 train cancel any --port "$ADMIN"; has out "cancelled"
expect 1 train cancel any --port "$ADMIN"; has err "already"
curl -s "http://127.0.0.1:$ADMIN/metrics" >metrics
has metrics 'tangram_training_jobs{state="cancelled"} 1'; grep -q '^tangram_training_recalls_total [1-9]' metrics || fail "no recall"

if ! /usr/bin/python3 -c "import torch" 2>/dev/null; then
  kill $PID; wait $PID
  expect 0 replay live.rec; has out "the same decisions"
  echo "skipped: the rest needs python3-torch"
  finish
  exit
fi

# An elastic job grows onto the idle slices, gives them back to traffic without losing a step, and grows again.
script=$SOURCE/examples/training/digits.py
# A second trainer must pay, or the slice is not lent: on a machine that is busy with other tests, two trainers compute no faster
# than one. So each micro-batch of this job rests for 4 ms.
sed 's/^import argparse/import argparse, time/; s/^            optimizer.zero_grad()/            time.sleep(0.004)\n&/' "$script" >slow.py
grep -q 'time.sleep' slow.py || fail "the script has another form"
job digits 2 "python3 $PWD/slow.py --epochs 60 --samples 12800"
expect 0 train submit digits.yaml --port "$ADMIN"
wait_for digits 'j["trainers"] == 2 and j["step"] > 0'
"$TANGRAM" load --services services.yaml --http-port "$HTTP" --seconds 10 --output json >load.json 2>load.err &
LOAD=$!
wait_for digits 'len(j["slices"]) < 2'
wait $LOAD
wait_for digits 'j["trainers"] == 2 and j["generation"] >= 3'
expect 0 train show digits --port "$ADMIN"; has out "digits is running"
python3 -c 'import json; j = json.load(open("job.json")); raise SystemExit(j["steps_lost"] != 0)' || fail "lost: $(cat job.json)"

# A trainer that is killed is replaced, and no step is lost with it; also when the process that forks them is killed first.
# Both have made steps by then: while one has only just come, the other alone has the state.
generation=none
for ((i = 0; i < 60; ++i)); do
  wait_for digits 'j["trainers"] == 2'
  before=$generation
  generation=$(python3 -c 'import json; print(json.load(open("job.json"))["generation"])')
  [[ $generation == "$before" ]] && break
  sleep 1
done
zygote=$(pgrep -P $PID | head -1)
trainer=$(pgrep -P "$zygote" | tail -1)
kill -KILL "$zygote" "$trainer" || fail "no trainer found"
wait_for digits "j['trainers'] == 2 and j['generation'] >= $generation + 2 and j['steps_lost'] == 0"

# The server is killed. Its trainers save the state and are gone; the next server goes on from there. (The interval of
# checkpoints is far longer than the test, so every step that is kept was saved by them.)
kill -KILL $PID; wait $PID 2>/dev/null
for ((i = 0; i < 100; ++i)); do flock -n kept/jobs/digits/trainers.lock true && break; sleep 0.1; done
flock -n kept/jobs/digits/trainers.lock true || fail "a trainer was left behind"
[[ -s kept/jobs/digits/state ]] || fail "no state: $(ls kept/jobs/digits)"
step=$(python3 -c 'import json; print(json.load(open("job.json"))["step"])')
begin_server --training kept --training-nice 0 --record second.rec
wait_for digits "j['trainers'] >= 1 and j['step'] >= $step and j['steps_lost'] <= 1"
expect 0 train cancel digits --port "$ADMIN"

# A job of which the server is stopped on the way ends with the bits of one trainer, and no step is lost.
job small 2 "python3 $script --epochs 4"
expect 0 train submit small.yaml --port "$ADMIN"
wait_for small 'j["step"] > 2'
kill $PID; wait $PID
expect 0 replay second.rec; has out "the same decisions"
begin_server --training kept --training-nice 0
wait_for small 'j["state"] == "done"'
expect 0 train run "$script" --workers 1 --output json -- --epochs 4
python3 - <<'P' || fail "not the bits of one trainer: $(cat out job.json)"
import json
job, alone = json.load(open("job.json")), open("out").read()
alone = json.loads(alone[alone.index("{"):])  # The script prints, too.
raise SystemExit(not (job["parameters_crc"] == alone["digest"] and job["step"] == alone["steps"] == 400 and job["steps_lost"] == 0))
P
expect 0 train list --port "$ADMIN"; has out "done"
kill $PID; wait $PID
finish
