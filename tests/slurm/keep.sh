# `tangram slurm` with a real Slurm of three nodes: up, kept alive, a node lost, training preempted, down.
for program in slurmctld slurmd munged sbatch; do
  command -v $program >/dev/null || { echo "skipped: $program is not installed (packaging/install-packages slurm)"; exit 77; }
done
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1
CLUSTER="$SOURCE/tests/slurm/cluster.sh"
PORT=$((25100 + RANDOM % 90 * 10))
mkdir cluster alive
OURS=()
# The processes of ours, and Slurm's; a step of Slurm's outlives its slurmd.
tidy() {
  local pid
  for pid in "${OURS[@]}"; do kill "$pid" 2>/dev/null; done
  "$TANGRAM" slurm down >/dev/null 2>&1
  bash "$CLUSTER" stop "$WORK/cluster" >/dev/null 2>&1
  for pid in $(grep -slz "SLURM_CONF=$WORK/" /proc/[0-9]*/environ | sed 's#/proc/\([0-9]*\)/.*#\1#'); do
    [[ $pid == $$ || $pid == "$BASHPID" ]] || kill -9 "$pid" 2>/dev/null
  done
  chmod -R u+w "$WORK"
  rm -rf "$WORK"
}
started=$(SLURMD_TIMEOUT=300 bash "$CLUSTER" start "$WORK/cluster" 3 "$PORT") || { echo "no Slurm: $started"; cat "$WORK"/cluster/log/start.log; bash "$CLUSTER" stop "$WORK/cluster"; exit 1; }
trap tidy EXIT
eval "$started"

plan() {  # plan LAYOUT...: a plan of boards, every slice with a replica.
  python3 - "$@" <<'P'
import json, sys
replica = {"service": "rank", "buckets": [{"size_max": 1, "batch_size": 1}]}
boards = [{"name": f"rack-{i}", "type": "a100-80gb", "layout": layout,
           "slices": [{"profile": p, "start": int(s), "replicas": [replica]} for p, s in (c.strip().split("@") for c in layout.split("+"))]}
          for i, layout in enumerate(sys.argv[1:])]
print(json.dumps({"version": 1, "devices": boards}))
P
}
# A task that lives until SIGTERM and is seen while it lives.
cat >task.sh <<'T'
trap 'exit 0' TERM
while :; do touch "$1/$TANGRAM_NODE_NAME"; sleep 0.3; done
T
TASK=(bash "$WORK/task.sh" "$WORK/alive")
running() { squeue --noheader --array --name=tangram-chat --states=R --format="%N" | sort | tr '\n' ' '; }
# until SECONDS WHAT COMMAND...: the command succeeds in time; prints how long it took.
until_ok() {
  local limit=$1 what=$2 begin
  shift 2
  begin=$(date +%s%N)
  while ! "$@"; do
    if (($(date +%s%N) - begin > limit * 1000000000)); then
      fail "$what: not within $limit s"
      squeue --array --format="%i %T %r %N %k"
      cat keep.log 2>/dev/null
      exit 1
    fi
    sleep 0.2
  done
  echo "$what: $((($(date +%s%N) - begin) / 1000000)) ms"
}
run_count() { [[ $(running | wc -w) == "$1" ]]; }

# A node has two slices 3g.40gb, so three of them need two nodes.
plan "3g.40gb@0 + 3g.40gb@4" "3g.40gb@0 + 1g.10gb@4 + 1g.10gb@5" >plan.json
expect 2 slurm up plan.json --name chat; has err "expected --join"
expect 2 slurm up plan.json --name 'a b' --join g:1; has err "--name"
expect 2 slurm keep --name chat; has err "expected a plan"
expect 1 slurm status plan.json --name chat; has out "1g.10gb: 0 of 2 run"
MYSECRET=hidden expect 0 slurm up plan.json --name chat --partition infer --time 30 --logs . -- "${TASK[@]}"
has out "submitted 2 x 1g.10gb as job"
until_ok 15 "5 tasks run after up" run_count 5
expect 2 slurm up plan.json --name chat --partition infer -- "${TASK[@]}"; has err "are in the queue already"
expect 0 slurm status plan.json --name chat --output json
python3 - <<'P' || fail "status: $(cat out)"
import json
status = json.load(open("out"))
kinds = {k["kind"]: k for k in status["kinds"]}
assert kinds["1g.10gb"] == {"kind": "1g.10gb", "running": 2, "pending": 0, "ending": 0, "wanted": 2}, kinds
assert all(t["state"] == "running" and t["node"] and 0 < t["time_left_s"] <= 1800 for t in status["tasks"]), status
P
alive() { (($(ls alive | wc -l) >= 5)); }
until_ok 10 "5 tasks work" alive
# Nothing of the caller's environment but the path went along.
first=$(squeue --noheader --name=tangram-chat --states=R --format=%A | head -1)
pid=$(grep -slz "^SLURM_JOB_ID=$first\$" /proc/[0-9]*/environ | sed 's#/proc/\([0-9]*\)/.*#\1#' | head -1)
[[ -n $pid ]] || fail "no process of job $first"
tr '\0' '\n' <"/proc/$pid/environ" | grep -q MYSECRET && fail "the environment of the caller is in the task"

python3 "$SOURCE/tests/slurm/fake_gateway.py" alive >gateway.port & OURS+=($!)
until_ok 5 "the stand-in for a gateway" test -s gateway.port
keep() {
  "$TANGRAM" slurm keep plan.json --name chat --partition infer --time 30 --logs . --call-every-s 0.5 \
    --gateway "127.0.0.1:$(cat gateway.port)" -- "${TASK[@]}" >>keep.log 2>&1 & KEEPER=$!
  OURS+=("$KEEPER")
}
keep
until_ok 5 "the keeper looks" grep -q "5 running" keep.log
grep -q submitted keep.log && fail "the keeper submitted what was there: $(cat keep.log)"

# A node dies with all that runs on it, and Slurm does not notice for five minutes. The others have room.
sleep 1.5
victim=$(squeue --noheader --array --name=tangram-chat --states=R --format="%N" | sort | uniq -c | sort -rn | awk 'NR==1{print $2}')
jobs=$(squeue --noheader --array --nodelist="$victim" --name=tangram-chat --states=R --format="%A")
# First who could tell the controller: slurmd, and the slurmstepd of each task, which is the parent of its processes.
tasks=()
for job in $jobs; do
  for p in $(grep -slz "^SLURM_JOB_ID=$job\$" /proc/[0-9]*/environ | sed 's#/proc/\([0-9]*\)/.*#\1#'); do tasks+=("$p"); done
done
parents=$(for p in "${tasks[@]}"; do awk '/^PPid:/{print $2}' "/proc/$p/status"; done | sort -u)
for p in "$(cat "cluster/run/slurmd.$victim.pid")" $parents; do
  grep -qa slurm "/proc/$p/comm" && kill -9 "$p" 2>/dev/null
done
for p in "${tasks[@]}"; do kill -9 "$p" 2>/dev/null; done
elsewhere() { [[ $(running | tr ' ' '\n' | grep -v "^$victim\$" | grep -c .) == 5 ]]; }
until_ok 20 "all run elsewhere after the loss of $victim" elsewhere
grep -q "not on $victim: the gateway lost" keep.log || fail "no exclusion of $victim: $(cat keep.log)"
grep -q "cancelled .*the gateway lost" keep.log || until_ok 5 "the lost tasks are cancelled" grep -q "cancelled .*the gateway lost" keep.log

# Training has what is free; a larger plan takes it back.
cat >train.sh <<T
#!/bin/bash
trap 'date +%s%N >"$WORK/left-\$SLURM_ARRAY_TASK_ID"; exit 0' TERM
while :; do sleep 0.1; done
T
sbatch --parsable --partition=train --gres=gpu:3g.40gb:1 --array=0-1 --output=/dev/null train.sh >/dev/null
trains() { (($(squeue --noheader --array --partition=train --states=R | wc -l) >= 1)); }
until_ok 10 "training takes the last slice" trains
sleep 1
begin=$(date +%s%N)
plan "3g.40gb@0 + 3g.40gb@4" "3g.40gb@0 + 3g.40gb@4" >new.json
mv new.json plan.json
four_large() { [[ $(squeue --noheader --array --name=tangram-chat --states=R --format="%k" | grep -c 3g.40gb) == 4 ]]; }
until_ok 20 "the new plan's tasks run" four_large
until_ok 5 "a trainer left" bash -c 'compgen -G "left-*" >/dev/null'
echo "training left after $((($(cat left-* | head -1) - begin) / 1000000)) ms"
only_four() { run_count 4; }
until_ok 15 "what the new plan does not need has gone" only_four

# A keeper that ends leaves the tasks, and the next one finds them.
kill "$KEEPER"; wait "$KEEPER"; run_count 4 || fail "the tasks went with the keeper"
before=$(grep -c submitted keep.log)
keep
sleep 2
[[ $(grep -c submitted keep.log) == "$before" ]] || fail "the second keeper submitted again: $(cat keep.log)"
kill "$KEEPER"; wait "$KEEPER"
expect 0 slurm down --name chat; has out "cancelled 4 tasks"
gone() { [[ -z $(squeue --noheader --name=tangram-chat --states=R,PD) ]]; }
until_ok 10 "nothing is left after down" gone
expect 0 slurm down --name chat; has out "no task"
finish
