# Offline jobs: every row answered exactly once and in order, although the client is killed at random instants and the
# server dies in between; bad rows apart; cancel, resume, CSV, and files that make no sense.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1
cp -r "$SOURCE/examples" .
RANDOM=${TANGRAM_SEED:-17}
export XDG_STATE_HOME="$WORK/state"

# start PORT ARGUMENTS...: runs a server; its port is then in HTTP.
start() {
  local port=$1
  shift
  : >server.err
  "$TANGRAM" serve examples/serving/plan.json --services examples/serving/services.yaml \
    --measurements examples/measurements.csv --http-port "$port" --grpc-port 0 --metrics-port 0 "$@" >server.out 2>server.err &
  SERVER=$!
  for _ in $(seq 200); do grep -q '"event":"ready"' server.err && break; sleep 0.05; done
  HTTP=$(sed -n 's/.*"event":"serving".*"http":"http:..127.0.0.1:\([0-9]*\)".*/\1/p' server.err)
  [[ -n $HTTP ]] || fail "the server did not start: $(cat server.err)"
}
trap 'kill -9 "$SERVER" 2>/dev/null; chmod -R u+w "$WORK"; rm -rf "$WORK"' EXIT
start 0
what_hangs() {
  ps -ef | grep "[t]angram batch"
  tail -n 3 killed.out server-job.out cancel.out slow.err 2>/dev/null
  tail -n 5 server.err
  curl --silent --max-time 5 "http://127.0.0.1:$(sed -n 's/.*"metrics":"http:..127.0.0.1:\([0-9]*\)\/.*/\1/p' server.err)/status"
}
give_up_after 300 what_hangs

# rows COUNT SEED: texts of random lengths; every hundredth row makes no sense.
rows() {
  python3 - "$1" "$2" <<'PYTHON'
import random, sys
random.seed(int(sys.argv[2]))
for i in range(1, int(sys.argv[1]) + 1):
    ids = [random.randint(1, 9999) for _ in range(random.randint(1, 60))]
    print('{"wrong": 1}' if i % 100 == 50 else 'not json' if i % 100 == 99 else f'{{"id": "r{i}", "input_ids": {ids}}}')
PYTHON
}
# Not a function: a kill must hit the program, not a shell around it.
submit=("$TANGRAM" batch submit --model rank-answers --http-port "$HTTP")
same() { cmp -s "$1" "$2" && cmp -s "$1.failed.jsonl" "$2.failed.jsonl" || fail "$1 and $2 differ: $3: $(cat killed.out 2>/dev/null; wc -l "$1" "$2")"; }

# ---- Without interruption ----
rows 1500 1 >rows.jsonl
expect 1 batch submit --model rank-answers --http-port "$HTTP" --input rows.jsonl --output whole.jsonl
has out "rank-answers-1: 1500 rows"; has err "whole.jsonl.failed.jsonl: 30 rows have no answer"
[[ $(wc -l <whole.jsonl) == 1470 ]] || fail "$(wc -l <whole.jsonl) answers"
has whole.jsonl.failed.jsonl '{"row":50,"line":50,"reason":"wrong: not an input of the model; its inputs are'
has whole.jsonl.failed.jsonl '{"row":99,"line":99,"reason":"not a JSON object"}'
python3 - <<'PYTHON' || fail "the answers are not those of the rows, in their order"
import json
rows = {n: line for n, line in enumerate(open("rows.jsonl"), 1)}
answers = [json.loads(line) for line in open("whole.jsonl")]
assert [a["row"] for a in answers] == [n for n in rows if n % 100 not in (50, 99)]
for a in answers:
    row = json.loads(rows[a["row"]])
    assert a["id"] == row["id"] and a["outputs"][1]["shape"] == [1, len(row["input_ids"]), 2]
PYTHON
expect 0 batch status rank-answers-1; has out "done"; has out "100 %"

# ---- Killed at random instants, dozens of times ----
kills=0
"${submit[@]}" --input rows.jsonl --output killed.jsonl >killed.out 2>&1 & CLIENT=$!
while :; do
  [[ $kills -ge 60 ]] && { wait "$CLIENT"; break; }
  sleep "0.$(printf %03d $((RANDOM % 150)))"
  kill -9 "$CLIENT" 2>/dev/null && kills=$((kills + 1))
  wait "$CLIENT" 2>/dev/null
  [[ $("$TANGRAM" batch status rank-answers-2 --output json 2>/dev/null) == *'"state": "done"'* ]] && break
  if "$TANGRAM" batch status rank-answers-2 >/dev/null 2>&1; then
    "$TANGRAM" batch resume rank-answers-2 >killed.out 2>&1 & CLIENT=$!
  else
    "${submit[@]}" --input rows.jsonl --output killed.jsonl >killed.out 2>&1 & CLIENT=$!
  fi
done
echo "killed $kills times"
[[ $kills -ge 12 ]] || fail "only $kills kills hit the job"
same killed.jsonl whole.jsonl "killed $kills times"

# Short jobs, so that kills also hit the beginning and the writing of the output.
rows 60 2 >short.jsonl
"${submit[@]}" --input short.jsonl --output short.out >/dev/null 2>&1
for round in $(seq 24); do
  rm -f k.out k.out.failed.jsonl
  "${submit[@]}" --input short.jsonl --output k.out --store "store$round" >killed.out 2>&1 & CLIENT=$!
  sleep "0.$(printf %03d $((RANDOM % 120)))"
  kill -9 "$CLIENT" 2>/dev/null; wait "$CLIENT" 2>/dev/null
  if "$TANGRAM" batch status rank-answers-1 --store "store$round" >/dev/null 2>&1; then
    "$TANGRAM" batch resume rank-answers-1 --store "store$round" >killed.out 2>&1
  else
    "${submit[@]}" --input short.jsonl --output k.out --store "store$round" >killed.out 2>&1
  fi
  same k.out short.out "round $round"
  # What a kill left of a job that was being made is gone with the next, and nobody else may read the rows.
  "$TANGRAM" batch status --store "store$round" >/dev/null
  [[ -z $(find "store$round" -name '.making-*' -o -type f -perm /077) ]] || fail "round $round left $(ls -lA "store$round")"
done

# ---- The server stalls, and nobody online measures its run times again ----
"${submit[@]}" --input rows.jsonl --output stalled.jsonl --store store-stalled >stalled.out 2>&1 & CLIENT=$!
for _ in 1 2 3; do sleep 0.2; kill -STOP "$SERVER"; sleep 1; kill -CONT "$SERVER"; done
wait "$CLIENT"
same stalled.jsonl whole.jsonl "the server stalled"

# ---- The server dies and comes back ----
"${submit[@]}" --input rows.jsonl --output server.jsonl --store store-server >server-job.out 2>&1 & CLIENT=$!
sleep 0.6
{ kill -9 "$SERVER"; wait "$SERVER"; } 2>/dev/null
sleep 0.5
start "$HTTP"
wait "$CLIENT"
same server.jsonl whole.jsonl "the server died"
{ kill -9 "$SERVER"; wait "$SERVER"; } 2>/dev/null
expect 3 batch submit --model rank-answers --http-port "$HTTP" --input short.jsonl --output gone.jsonl --store store-gone --wait 1s
has err "cannot connect"; has err "tangram batch resume rank-answers-1"
[[ ! -e gone.jsonl ]] || fail "an output of a job that is not done"
start "$HTTP"
expect 1 batch resume rank-answers-1 --store store-gone; same gone.jsonl short.out "resumed when the server was back"

# ---- Cancelled from another process, and taken up again ----
"${submit[@]}" --input rows.jsonl --output cancelled.jsonl --store store-cancel >cancel.out 2>&1 & CLIENT=$!
for _ in $(seq 100); do [[ $("$TANGRAM" batch status --store store-cancel) == *running* ]] && break; sleep 0.02; done
expect 3 batch resume rank-answers-1 --store store-cancel; has err "another process runs this job"
expect 0 batch cancel rank-answers-1 --store store-cancel
code=0; wait "$CLIENT" || code=$?
[[ $code == 1 ]] || fail "a cancelled job ended with $code"
has cancel.out "cancelled"
[[ ! -e cancelled.jsonl ]] || fail "an output of a cancelled job"
expect 1 batch cancel rank-answers-1 --store store-cancel; has err "the job is already cancelled"
expect 1 batch resume rank-answers-1 --store store-cancel; same cancelled.jsonl whole.jsonl "cancelled and resumed"

# ---- By itself, with a deadline ----
expect 0 batch submit --model rank-answers --http-port "$HTTP" --input short.jsonl --output apart.jsonl --deadline 2h --detach --store store-apart
for _ in $(seq 200); do [[ $("$TANGRAM" batch status --store store-apart) == *done* ]] && break; sleep 0.05; done
expect 0 batch status rank-answers-1 --store store-apart; has out "kept"
# A damaged job hides itself alone.
echo "no database, but long enough to be one" >store-apart/broken.sqlite
expect 0 batch status --store store-apart; has out "rank-answers-1"; has out "unreadable"; has out "broken: "
expect 0 batch status --store store-apart --output json; has out '"unreadable"'
rm store-apart/broken.sqlite
same apart.jsonl short.out "detached"

# ---- CSV gives the same answers ----
python3 - <<'PYTHON'
import json
with open("short.csv", "w") as out:
    out.write("id,input_ids\n")
    for line in open("short.jsonl"):
        if not line.startswith('{"id"'): continue
        row = json.loads(line)
        out.write(f'{row["id"]},{" ".join(map(str, row["input_ids"]))}\n')
PYTHON
expect 0 batch submit --model rank-answers --http-port "$HTTP" --input short.csv --output csv.out; empty err
diff <(sed 's/^{"row":[0-9]*,//' csv.out) <(sed 's/^{"row":[0-9]*,//' short.out) >/dev/null || fail "CSV has other answers"

# ---- What makes no sense ----
expect 2 batch submit --model rank-answers; has err "--input FILE"
mkfifo pipe.jsonl
expect 2 batch submit --model rank-answers --http-port "$HTTP" --input pipe.jsonl --output pipe.out
has err "is not a regular file; its rows are read more than once"
printf 'input_ids\n1 2\n"[3]\0 4"\n' > zero.csv
expect 1 batch submit --model rank-answers --http-port "$HTTP" --input zero.csv --output zero.out
has zero.out.failed.jsonl '{"row":2,"line":3,"reason":"contains a zero byte"}'
expect 2 batch submit --model rank-answers --input rows.txt --output x; has err "--format"
ln -s /dev/full full
for device in /dev/full full; do
  expect 2 batch submit --model rank-answers --input short.jsonl --output "$device"; has err "not a regular file"
done
[[ -c /dev/full ]] || fail "/dev/full is gone"
expect 3 batch submit --model rank-answers --input missing.jsonl --output x; has err "missing.jsonl"
printf 'id,words\n1,2\n' >bad.csv
expect 2 batch submit --model rank-answers --http-port "$HTTP" --input bad.csv --output x; has err "bad.csv: line 1: column words"
has err "submit the job again"; grep -q "goes on" err && fail "a bad file is said to be resumable: $(cat err)"
printf '17 4 9\n' >bare.csv
expect 2 batch submit --model rank-answers --http-port "$HTTP" --input bare.csv --output x; has err "bare.csv: line 1: column 17 4 9"
: >empty.csv
expect 2 batch submit --model rank-answers --http-port "$HTTP" --input empty.csv --output x; has err "must name its columns"
echo '{"id": "seven", "wrong": 1}' >named.jsonl
expect 1 batch submit --model rank-answers --http-port "$HTTP" --input named.jsonl --output named.out
has named.out.failed.jsonl '{"row":1,"line":1,"id":"seven","reason":'
printf 'id,input_ids\n1,2\n"3,4\n' >open.csv
expect 2 batch submit --model rank-answers --http-port "$HTTP" --input open.csv --output x; has err "open.csv: line 3"
expect 3 batch submit --model nobody --http-port "$HTTP" --input short.jsonl --output x; has err "nobody"
expect 2 batch submit --model rank-answers --input short.jsonl --output x --deadline soon; has err "2h"
expect 3 batch resume nobody-7; has err "no such job"
expect 2 batch resume; has err "expected the name of the job"
cp short.jsonl moving.jsonl
expect 3 batch submit --model rank-answers --http-port 1 --input moving.jsonl --output moved --wait 0.1s --store store-moved
echo '{}' >>moving.jsonl
expect 2 batch resume rank-answers-1 --http-port "$HTTP" --store store-moved; has err "the file has changed since the job began"

# ---- Nothing moves, and it says why ----
# A promise of 12 ms, which no run of a row leaves a third of, and a server that is away.
{ kill -9 "$SERVER"; wait "$SERVER"; } 2>/dev/null
"${submit[@]}" --input short.jsonl --output slow.out --store store-slow >slow.out.text 2>slow.err & CLIENT=$!
for _ in $(seq 200); do grep -q "no row makes progress: .*cannot connect" slow.err && break; sleep 0.05; done
has slow.err "rank-answers-1: no row makes progress: 127.0.0.1:$HTTP: cannot connect"
expect 0 batch status --store store-slow; has out "rank-answers-1: 127.0.0.1:$HTTP: cannot connect"
cp examples/serving/services.yaml services.whole
sed -i '/^  - name: rank-answers/,/^  - name/s/latency_ms: [0-9.]*/latency_ms: 12/' examples/serving/services.yaml
start "$HTTP"
for _ in $(seq 300); do "$TANGRAM" batch status --store store-slow | grep -q "it will never start" && break; sleep 0.05; done
expect 0 batch status rank-answers-1 --store store-slow; has out "running"; has out "it will never start"
expect 0 batch status rank-answers-1 --store store-slow --output json; has out '"message": "a run takes'
kill -INT "$CLIENT"; code=0; wait "$CLIENT" || code=$?
[[ $code == 130 ]] || fail "an interrupted job ended with $code"
cp services.whole examples/serving/services.yaml

# ---- A recording with rows in it replays to the same decisions ----
{ kill -9 "$SERVER"; wait "$SERVER"; } 2>/dev/null
start "$HTTP" --record recording
expect 0 batch submit --model rank-answers --http-port "$HTTP" --input examples/serving/rows.jsonl --output example.jsonl --deadline 1h
kill -TERM "$SERVER"; wait "$SERVER" || fail "the server ended with $?"
expect 0 replay recording; has out "the same decisions"
finish
