# GPUs of the stand-in driver cut for real: apply, diff --live, rollback, and workers on the slices that were made.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1
cp -r "$SOURCE/examples" .
export TANGRAM_STATE=$WORK/state FAKE_NVML_STATE=$WORK/gpus TANGRAM_NVML=$FAKE_NVML/libnvidia-ml.so.1
unset LD_LIBRARY_PATH
PLAN=examples/serving/plan.json # 4g@0 + 2g@4 + 1g@6 of an A100; at first there are 1g@0 + 1g@1 + 3g@4.
FIRST="1g.10gb@0 + 1g.10gb@1 + 3g.40gb@4"
PLANNED="4g.40gb@0 + 2g.20gb@4 + 1g.10gb@6"

# is LAYOUT: GPU 0 is cut so.
is() {
  local layout
  layout=$("$TANGRAM" doctor --output json | python3 -c 'import json,sys; print(json.load(sys.stdin)["gpus"][0]["layout"])')
  [[ $layout == "$1" ]] || fail "line ${BASH_LINENO[0]}: GPU 0 is $layout, expected $1"
}
anew() { rm -rf gpus state; }

# Looking changes nothing.
is "$FIRST"
cp gpus before
expect 0 apply $PLAN --dry-run; has out "destroy"; has out "4g.40gb@0"; has out "nothing was changed"; has out "rack1-0 is GPU 0"
expect 1 diff --live $PLAN; has out "created"; has out "destroyed"
expect 0 apply $PLAN --dry-run --output json
python3 - <<'P' || fail "the JSON of a dry run"
import json
answer = json.load(open("out"))
assert answer["status"] == "planned" and answer["dry_run"] is True
assert [(s["action"], s["slice"]) for s in answer["steps"]] == [
    ("destroy", "1g.10gb@0"), ("destroy", "1g.10gb@1"), ("destroy", "3g.40gb@4"),
    ("create", "4g.40gb@0"), ("create", "2g.20gb@4"), ("create", "1g.10gb@6")], answer["steps"]
assert answer["gpus"][0]["uuid"].endswith("a0"), answer["gpus"]
P
cmp gpus before || fail "a dry run changed the GPUs"
[[ ! -e state ]] || fail "a dry run left something behind"
expect 3 rollback; has err "has no checkpoint"

# There, again, and back.
expect 0 apply $PLAN; has out "6/6"; has out "6 steps done"; has out "MIG-"; is "$PLANNED"
cp gpus after
expect 0 apply $PLAN; has out "nothing to do"; cmp gpus after || fail "the second apply changed the GPUs"
expect 0 diff --live $PLAN; has out "3 kept"
expect 0 apply $PLAN --output json; has out '"nothing to do"'; has out '"mig_uuid": "MIG-'
expect 0 rollback --dry-run; has out "3g.40gb@4"; is "$PLANNED"
expect 0 rollback; has out "all cuts are as they were before"; is "$FIRST"
expect 0 rollback; has out "nothing to do"

# Slices that both have are not touched: their MIG devices keep their UUIDs.
sed 's/4g.40gb@0 + 2g.20gb@4 + 1g.10gb@6/1g.10gb@0 + 3g.40gb@4/' $PLAN | python3 -c '
import json, sys
plan = json.load(sys.stdin)
device = plan["devices"][0]
for slice, (profile, start) in zip(device["slices"], [("1g.10gb", 0), ("3g.40gb", 4)]): slice.update(profile=profile, start=start)
del device["slices"][2]
json.dump(plan, open("less.json", "w"))'
anew; is "$FIRST"
expect 0 apply less.json; has out "1 step done"; is "1g.10gb@0 + 3g.40gb@4"
has gpus MIG-00000001-0000-5000-8000-0000000000a0; has gpus MIG-00000007-0000-5000-8000-0000000000a0

# A refusal at every write: it stops, says what was done and what the way back is, and the way back works. The change
# takes three destroys and three creates of two writes each.
for write in 1 2 3 4 5 6 7 8 9 10 11 12; do
  anew; is "$FIRST"
  FAKE_NVML_FAIL=$write:23 expect 3 apply $PLAN
  has err "Insufficient Resources"; has err "stopped after $(((write - 1) / 2)) of 6 steps"; has err "tangram rollback"
  expect 0 rollback; is "$FIRST"
done
FAKE_NVML_FAIL=9:23 expect 3 apply $PLAN --output json
python3 - <<'P' || fail "the JSON of a failure"
import json
answer = json.load(open("out"))
assert answer["status"] == "failed" and "no room" in answer["error"], answer
assert [s["status"] for s in answer["steps"]] == ["done"] * 4 + ["failed", "not reached"], answer["steps"]
assert len(answer["rollback"]) == 4, answer["rollback"]
P
# Gone on with instead, and the checkpoint is still the one from before the first attempt.
expect 0 apply $PLAN; has err "did not finish; its checkpoint is kept"; is "$PLANNED"
expect 0 rollback; is "$FIRST"

# A change that did not happen is not gone back from. After the plan, less.json stops at its first step: the way back is
# that of the plan. The second write of a step leaves the cuts alone and makes a MIG device anew, which is said.
anew; is "$FIRST"
expect 0 apply $PLAN; is "$PLANNED"
for write in 1 2; do
  FAKE_NVML_FAIL=$write:23 expect 3 apply less.json; is "$PLANNED"
  has err "tangram rollback would undo the change before, of $PLAN at "
  if [[ $write == 1 ]]; then has err "nothing was changed"; else has err "no cut was changed"; has err "was destroyed and created again: its MIG device is now MIG-"; fi
done
FAKE_NVML_FAIL=2:23 expect 3 apply less.json --output json
python3 - <<'P' || fail "the JSON of a stop at the first step"
import json
answer = json.load(open("out"))
assert answer["changed"] is False and len(answer["made_anew"]) == 1 and len(answer["rollback"]) == 6, answer
P
expect 0 rollback; is "$FIRST"
expect 0 rollback; has out "nothing to do"

# by_hand PLAN: as nvidia-smi would, without our knowing.
by_hand() { TANGRAM_STATE=$WORK/elsewhere expect 0 apply "$1"; }
# What is undone is not undone again, whatever others did since; unless it is named.
by_hand less.json
expect 3 rollback; has err "was rolled back, and these GPUs have been cut since"; is "1g.10gb@0 + 3g.40gb@4"
expect 0 rollback --checkpoint state/checkpoint.json; is "$FIRST"
expect 0 rollback; is "1g.10gb@0 + 3g.40gb@4"

# An apply stopped half way and others put everything back: nothing to do, and from then on that change is over. The way
# back leads to what was before the next one.
anew; is "$FIRST"
FAKE_NVML_FAIL=9:23 expect 3 apply $PLAN; cp state/checkpoint.json half.json
# Damaged, the way back is not replaced without a word.
head -c 100 half.json >state/checkpoint.json
expect 2 apply $PLAN; has err "not valid JSON"; has err "way back from an unfinished change"
cmp -s state/checkpoint.json <(head -c 100 half.json) || fail "the damaged checkpoint was touched"
cp half.json state/checkpoint.json
TANGRAM_STATE=$WORK/elsewhere expect 0 rollback --checkpoint half.json; is "$FIRST"
expect 0 rollback; has out "nothing to do"
by_hand less.json
expect 0 apply $PLAN; is "$PLANNED"
grep -q "did not finish" err && fail "a change that was over is taken up again: $(cat err)"
expect 0 rollback; is "1g.10gb@0 + 3g.40gb@4"

# The same where nobody called rollback in between.
anew; is "$FIRST"
FAKE_NVML_FAIL=1:23 expect 3 apply $PLAN
by_hand less.json
expect 0 apply $PLAN; is "$PLANNED"
expect 0 rollback; is "1g.10gb@0 + 3g.40gb@4"

# A way back that stopped half way is gone on with, and the next apply keeps where it leads; one that stopped before its
# first step has changed nothing, and the next apply begins anew.
anew; is "$FIRST"
expect 0 apply $PLAN
FAKE_NVML_FAIL=9:23 expect 3 rollback; has err "run tangram rollback to continue from here"
expect 0 apply less.json; has err "did not finish; its checkpoint is kept"
expect 0 rollback; is "$FIRST"
expect 0 apply $PLAN
FAKE_NVML_FAIL=1:23 expect 3 rollback; is "$PLANNED"
expect 0 apply less.json; empty err
expect 0 rollback; is "$PLANNED"

# Killed after the checkpoint and before the first cut: rollback has nothing to do, says so, and the change before it can
# still be undone.
anew; is "$FIRST"
expect 0 apply $PLAN; cp gpus planned; cp state/checkpoint.json before.json
expect 0 apply less.json; cp planned gpus
python3 - <<'P'
import json
open_one = json.load(open("state/checkpoint.json"))
open_one["Tangram"].update(finished=False, previous=json.load(open("before.json")))
json.dump(open_one, open("state/checkpoint.json", "w"))
P
expect 0 rollback; has out "nothing to do"; has err "run the command again to undo the change before it"; is "$PLANNED"
expect 0 rollback; is "$FIRST"

# No rights: nothing is changed, and it says what is missing.
anew; is "$FIRST"
FAKE_NVML_WRITES=4 expect 3 apply $PLAN; has err "it needs root"; has err "nothing was changed"; is "$FIRST"

# A process on a slice that must go: refused, waited for, asked to end. One on a slice that stays is nobody's business.
anew; is "$FIRST"
sleep 100 & SLEEPER=$!
echo "process 0 1 $SLEEPER" >>gpus
expect 0 apply less.json; has out "1 step done"
cp gpus before
expect 1 apply $PLAN; has err "process $SLEEPER (sleep) uses 3g.40gb@4 of rack1-0 (GPU 0)"; has err "nothing was changed"
cmp gpus before || fail "a refusal changed the GPUs"
expect 1 apply $PLAN --wait 0.3; has err "after 0.3 s"
kill -0 $SLEEPER || fail "the process was ended without being asked for"
(sleep 0.5; kill $SLEEPER) &
expect 0 apply $PLAN --wait 20; is "$PLANNED"
anew; is "$FIRST"
sleep 100 & SLEEPER=$!
echo "process 0 1 $SLEEPER" >>gpus
expect 0 apply $PLAN --force; has err "process $SLEEPER (sleep) uses 3g.40gb@4 of rack1-0 (GPU 0): sent SIGTERM"; is "$PLANNED"

# Ctrl-C between two steps, and a kill at any instant.
for signal in INT KILL; do
  anew; is "$FIRST"
  FAKE_NVML_DELAY_MS=100 "$TANGRAM" apply $PLAN >out 2>err & APPLY=$!
  for _ in $(seq 100); do grep -q "^2/6" out && break; sleep 0.02; done
  # Only one at a time may cut.
  expect_other=0; "$TANGRAM" apply $PLAN >/dev/null 2>other || expect_other=$?
  [[ $expect_other == 3 ]] || fail "a second apply ended with $expect_other"
  has other "another tangram apply or rollback is running"
  kill -$signal $APPLY; code=0; wait $APPLY || code=$?
  if [[ $signal == INT ]]; then
    [[ $code == 130 ]] || fail "apply ended with $code after Ctrl-C"
    has err "interrupted after"; has err "tangram rollback would"
  fi
  expect 0 rollback; is "$FIRST"
done

# MIG mode: switched on where it goes at once, and off again by the way back; a reset that is due is named.
cat >h100.json <<'J'
{"version": 1, "devices": [{"name": "h", "type": "h100-80gb", "layout": "7g.80gb@0",
  "slices": [{"profile": "7g.80gb", "start": 0, "replicas": []}]}]}
J
anew; is "$FIRST"
expect 3 apply h100.json; has err "nvidia-smi --gpu-reset -i 1"
echo "gpu h100-80gb GPU-h 0 0 0 0 0" >gpus
FAKE_NVML_SHY=1 expect 0 apply h100.json; has out "enable MIG mode"; is "7g.80gb@0"
expect 0 rollback; has out "disable MIG mode"; has gpus "GPU-h 0 0"
echo "gpu h100-80gb GPU-h 0 0 1 0 0" >gpus; rm -rf state
expect 3 apply h100.json; has err "the GPU must be reset first"

# A slice of the plan that others made in two parts is not right: it is shared out anew, and the way back does it again.
cat >gpus <<'G'
gpu h100-80gb GPU-h 1 1 0 0 0
slice 0 1 0 0
part 0 1 0 2 0 MIG-one
part 0 1 1 3 4 MIG-two
G
rm -rf state
expect 1 diff --live h100.json; has out "1 kept"; has err "h/7g.80gb@0 is not one part"
expect 0 apply h100.json; has out "share out anew 7g.80gb@0"
expect 0 diff --live h100.json; empty err
expect 0 rollback; expect 1 diff --live h100.json; has err "is not one part"

# A slice that others use is never created, changed or destroyed: the plan is refused where the GPU does not have it.
python3 - <<'P'
import json
slices = [{"profile": "2g.20gb", "start": 0, "replicas": []},
          {"profile": "3g.40gb", "start": 4, "replicas": [], "reserved": True}]
device = {"name": "rack1-0", "type": "a100-80gb", "layout": "2g.20gb@0 + 3g.40gb@4", "slices": slices}
json.dump({"version": 1, "devices": [device]}, open("theirs.json", "w"))
P
anew; is "$FIRST"
expect 0 apply theirs.json; is "2g.20gb@0 + 3g.40gb@4"
has gpus MIG-00000001-0000-5000-8000-0000000000a0 # The one that was there.
expect 0 rollback; is "$FIRST"; has gpus MIG-00000001-0000-5000-8000-0000000000a0
expect 0 apply $PLAN; is "$PLANNED"; cp gpus before
for dry in "" --dry-run; do
  expect 3 apply theirs.json $dry; has err "others use 3g.40gb@4 (reserved), but the GPU is cut $PLANNED"
  has err "in the fleet and plan anew"
done
cmp gpus before || fail "a plan that was refused changed the GPUs"

# Which GPU a device is.
anew; is "$FIRST"
expect 2 apply $PLAN --gpu rack1-0; has err "NAME=UUID"
expect 2 apply $PLAN --gpu rack1-0=1; has err "the plan needs a100-80gb, but this GPU is h100-80gb"
expect 2 apply $PLAN --gpu rack9=0; has err "no GPU of that name"
expect 2 apply $PLAN --device rack1-1; has err "did you mean rack1-0?"
expect 0 apply $PLAN --dry-run --gpu rack1-0=GPU-00000000-0000-0000-0000-0000000000a0
sed 's/h100-80gb/a30/; s/7g.80gb/4g.24gb/g' h100.json >a30.json
expect 3 apply a30.json; has err "needs 1 GPU of type a30, but this machine has none"
expect 2 apply missing-argument.json --bogus
expect 2 diff --live $PLAN $PLAN; has err "two plans were given"
expect 2 diff $PLAN; has err "expected two plans"

# The host needs nothing, and no driver. Without a driver GPUs cannot be cut.
cat >cpu.json <<'J'
{"version": 1, "devices": [{"name": "host-0", "type": "cpu", "cores": 2, "memory_gib": 4, "quota": false, "layout": "empty", "slices": []}]}
J
TANGRAM_NVML=/nowhere.so expect 0 apply cpu.json; has out "nothing to prepare"; has out "tangram serve"
TANGRAM_NVML=/nowhere.so expect 3 apply $PLAN; has err "no NVIDIA driver is installed"
FAKE_NVML_INIT=9 expect 3 apply $PLAN; has err "Driver Not Loaded"
TANGRAM_STATE=/proc/nowhere expect 3 apply $PLAN; has err "cannot write"

# Workers: each runs on the MIG device of its slice, whatever the gateway's own environment says.
serve=(serve $PLAN --services examples/serving/services.yaml --measurements examples/measurements.csv --workers
  --http-port 0 --grpc-port 0 --metrics-port 0)
anew; expect 0 apply $PLAN --output json; cp out applied.json
CUDA_VISIBLE_DEVICES=7 "$TANGRAM" "${serve[@]}" >serve.out 2>serve.err & SERVER=$!
for _ in $(seq 200); do grep -q '"event":"ready"' serve.err && break; sleep 0.05; done
for child in $(pgrep -P $SERVER); do tr '\0' '\n' <"/proc/$child/environ" | grep '^CUDA_VISIBLE_DEVICES='; done | sort >pins
kill -TERM $SERVER; wait $SERVER || fail "the server ended with $?: $(tail -c 300 serve.err)"
python3 -c '
import json
for slice in json.load(open("applied.json"))["slices"]: print("CUDA_VISIBLE_DEVICES=" + slice["mig_uuid"])' | sort >wanted
cmp pins wanted || fail "workers run on $(cat pins), expected $(cat wanted)"
[[ $(wc -l <pins) == 3 ]] || fail "not three workers: $(cat pins)"

# Doctor tells where slices are reached, and who uses them.
sleep 100 & SLEEPER=$!
echo "process 0 1 $SLEEPER" >>gpus
expect 0 doctor; has out "MIG-"; has out "used by"
expect 0 doctor --output json; has out "$SLEEPER"; has out '"mig_owners"'
kill $SLEEPER
finish
