# Plans exported for other tools, and moved from one to the next.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1
PLAN="$SOURCE/examples/plan.json"
EVENING="$SOURCE/examples/plan-evening.json"
SERVICES="$SOURCE/examples/services.yaml"
json() { python3 -c 'import json,sys; json.load(open("out"))' || fail "no JSON: $*"; }

expect 0 export; has out mig-parted
for format in mig-parted kubernetes kubernetes-dra slurm triton; do
  image=; [[ $format == kubernetes* ]] && image="--image registry.example/triton:1"
  expect 0 export $format "$PLAN" --services "$SERVICES" $image; [[ -s out ]] || fail "$format: nothing"
  expect 0 export $format "$PLAN" --services "$SERVICES" $image --output json; json "$format"
done
expect 2 export mig-checkpoint "$PLAN"; has err "missing for rack1-0, rack1-1"
expect 2 export mig-checkpoint "$PLAN" --uuid rack9-0=GPU-a; has err "the plan has no device rack9-0"
UUID=GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3
expect 2 export mig-checkpoint "$PLAN" --uuid rack1-0=${UUID}f --uuid rack1-1=GPU-1 -o points; has err "GPU-1 is not the UUID of a GPU"
expect 0 export mig-checkpoint "$PLAN" --uuid rack1-0=${UUID}f --uuid rack1-1=${UUID}e -o points; [[ -s points/rack1.json ]] || fail "no checkpoint"
expect 2 export mig-partd "$PLAN"; has err "did you mean mig-parted?"
expect 2 export kubernetes "$PLAN"; has err "expected --image"
expect 2 export slurm "$PLAN" --gateway; has err "--gateway is for the format kubernetes"
expect 0 export kubernetes "$PLAN" --gateway --image registry.example/tangram:1; has out "kind: CustomResourceDefinition"; has err "tangram-files"
expect 2 export slurm; has err "expected a PLAN"
expect 0 export triton "$PLAN" -o models; [[ -s models/rack1-0/4g.40gb-0/rank-answers/config.pbtxt ]] || fail "no model"
echo old > file
expect 3 export triton "$PLAN" -o file; [[ $(cat file) == old ]] || fail "a file was replaced by a folder"
expect 3 export mig-parted "$PLAN" -o no/such/folder.yaml

expect 0 diff "$PLAN" "$PLAN"; has out "0 changed, 0 destroyed, 0 created"
expect 0 diff "$PLAN" "$EVENING"; has out "1 destroyed, 2 created"; has out before
expect 1 diff "$PLAN" "$EVENING" --steps; has out "all orders were tried"
expect 0 diff "$PLAN" "$EVENING" --steps --spare a100-80gb; has out "No service falls below"
expect 1 diff "$PLAN" "$EVENING" --steps --rollback 3 --output json; json; has out '"rollback"'
expect 2 diff "$PLAN" "$EVENING" --rollback 1000; has err "expected at most"
expect 2 diff "$PLAN" "$EVENING" --steps --services "$SERVICES"; has err "capacities in requests a second need"
expect 2 diff "$PLAN" "$EVENING" --spare cpu; has err "--spare: expected"
# Both actions timed once: one slice is taken away in 2 s, two are made in 7 s.
printf 'slices,action,runs,mean_ms,p50_ms,p99_ms,max_ms\n3g,destroy,1,2000,2000,2000,2000\n2g+2g,create,1,7000,7000,7000,7000\n' > recuts.csv
expect 1 diff "$PLAN" "$EVENING" --steps --recut-times recuts.csv --load-s 0 --drain-s 0 --output json; has out '"takes_s": 9.0'
expect 0 diff "$PLAN" "$EVENING" -o target.json
expect 0 diff target.json "$EVENING"; has out "0 changed, 0 destroyed, 0 created"
finish
