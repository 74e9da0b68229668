# Elastic training: the bits of one trainer, whoever comes, leaves or is killed; and what is refused.
. "$(dirname "$0")/lib.sh" || exit 1

expect 3 train run no-such-script.py; has err "expected a Python script"
expect 2 train rehearse "$SOURCE/examples/training/digits.py" --workers 1,9; has err "from 1 to 8"
expect 3 train run "$SOURCE/examples/training/digits.py" --python /bin/false; has err "PyTorch"
if ! /usr/bin/python3 -c "import torch" 2>/dev/null; then
  expect 3 train run "$SOURCE/examples/training/digits.py"; has err "install python3-torch"
  echo "skipped: the rest needs python3-torch"
  finish
  exit
fi

# equal ARGUMENTS...: the script ends with the bits of one trainer, and no step is lost. All kills and stops happened.
equal() {
  local kills stops
  kills=$(grep -oP -- "--kill \K\d+" <<<"$*") || kills=0
  stops=$(grep -oP -- "--stop \K\d+" <<<"$*") || stops=0
  expect 0 train rehearse --output json "$@"
  python3 - out "$kills" "$stops" <<'P' || fail "tangram train rehearse $*: $(head -c 900 out)"
import json, sys
said = json.load(open(sys.argv[1]))
assert said["equal"] is True and said["steps_lost"] == 0, said
assert said["digest"] == said["reference_digest"] and len(said["digest"]) == 8, said
assert (said["kills"], said["stops"]) == (int(sys.argv[2]), int(sys.argv[3])), said
assert said["changes"] == 4 and said["states_different"] == 0 < said["states_compared"], said
assert said["leave_ms"]["p50"] > 0 and said["join_ms"]["p99"] > 0, said
P
}
changes=(--workers 1,3,2,4,1 --every 8)
training=$SOURCE/tests/e2e/training
equal "$SOURCE/examples/training/digits.py" "${changes[@]}" -- --epochs 2 --samples 12800
equal "$training/recipes.py" "${changes[@]}" --kill 2 -- --optimizer adam --schedule onecycle --clip 1 --helpers 1 --epochs 4
equal "$training/recipes.py" "${changes[@]}" --kill 1 --stop 1 -- --optimizer sgd --schedule multistep --while-loop --epochs 5
equal "$training/three_lines.py" "${changes[@]}" --kill 1 -- three.pt
/usr/bin/python3 - <<'P' || fail "what three_lines.py saved after its loop: $(ls)"
import torch
saved = torch.load("three.pt")  # 200 steps: the rate was halved four times. BatchNorm counts them, too.
assert saved["steps"] == 200 and saved["lr"] == 1e-3 / 16 and saved["model"]["1.num_batches_tracked"] == 200, saved
P

PYTHONPATH=$SOURCE/src/serve/python /usr/bin/python3 "$training/packed_state.py" >packed 2>&1 || fail "packed_state.py: $(tail -3 packed)"

# Rank 0 writes, once an epoch, whoever that is.
expect 0 train run "$training/recipes.py" --workers 2 -- --save saved; has out "epoch 1 loss"
[[ -f saved.0 && -f saved.1 ]] || fail "no checkpoints: $(ls)"
[[ $(grep -c "epoch 0" out) == 1 ]] || fail "more than one rank 0: $(cat out)"

# A job that is killed whole continues from its checkpoint, and ends with the bits of one that was not.
recipe=("$training/recipes.py" --workers 2 -- --optimizer adamw --schedule warmup --epochs 6)
expect 0 train run "${recipe[@]}"; whole=$(grep -o "digest .*" out)
"$TANGRAM" train run "$training/recipes.py" --workers 2 --checkpoint job.state --checkpoint-every-s 0.01 -- \
  --optimizer adamw --schedule warmup --epochs 6 >killed 2>&1 </dev/null &
job=$!
for ((i = 0; i < 600; ++i)); do grep -q "epoch 1" killed && break; sleep 0.1; done
kill -KILL $job; wait $job 2>/dev/null
[[ -f job.state ]] || fail "no checkpoint: $(head -c 300 killed)"
expect 0 train run "$training/recipes.py" --workers 2 --checkpoint job.state -- \
  --optimizer adamw --schedule warmup --epochs 6
[[ -n $whole && $(grep -o "digest .*" out) == "$whole" ]] || fail "not $whole: $(tail -1 out)"
grep -q "epoch 0 loss" out && fail "it began from the start"
expect 2 train run "$training/recipes.py" --logical-workers 4 --checkpoint job.state -- --optimizer adamw --schedule warmup
has err "is of 8 logical workers; this job has 4"
expect 2 train run "$training/recipes.py" --checkpoint job.state -- --optimizer adamw
has err "schedulers of learning rates; the script has made 0"

# The others wait at a barrier for what rank 0 makes before the loop.
expect 0 train run "$training/barrier.py" --workers 3; has out "trained"

# What cannot be made elastic is refused with its line; nothing has run by then.
expect 2 train rehearse "$training/refused.py"
has err "refused.py:3: cannot be made elastic: sharded parameters"
has err "refused.py:7: cannot be made elastic: torch.distributed.all_reduce by hand"
has err "refused.py:8: cannot be made elastic: torch.distributed.new_group by hand"
expect 2 train rehearse "$training/accumulates.py"; has err "accumulates.py:10"
# wrong NAME TEXT: wrong.py NAME is refused at the line that ends with "# Name.", with TEXT.
wrong() {
  expect 2 train run "$training/wrong.py" -- "$1"
  has err "wrong.py:$(grep -n "# ${1^}\.$" "$training/wrong.py" | cut -d: -f1): "; has err "$2"
}
sed "s/^    job.step.*/&; scheduler.step()/" "$training/three_lines.py" >three_wrong.py
expect 2 train run three_wrong.py; has err "three_wrong.py:22: a scheduler that is stepped in a loop over batches()"
wrong leaves "left in the middle of a step"
wrong early "a scheduler that is stepped before the optimizer"
wrong another "an optimizer of another model"
wrong outside "parameters outside of the model"
printf 'import torch\nprint("ran")\nraise ValueError("a bug of the script")\n' >bug.py
expect 3 train run bug.py; has err "a bug of the script"
printf 'x = (\n' >syntax.py
expect 2 train run syntax.py; has err "syntax.py:1"

finish
