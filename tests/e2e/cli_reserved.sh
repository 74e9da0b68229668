#!/usr/bin/env bash
# Slices that others use: `reserved` in a fleet, through plan, validate, diff and the exports.
. "$(dirname "$0")/lib.sh" || exit 1
cp -r "$SOURCE/examples" .
cat >fleet.yaml <<'Y'
devices:
  - {type: a100-80gb, name: shared, count: 2, profiles: base, reserved: 3g.40gb@4}
Y
measured=(--measurements examples/measurements.csv)
expect 0 plan fleet.yaml examples/services.yaml "${measured[@]}" -o plan.json
has out reserved
python3 - <<'P' || fail "the plan uses what others use: $(head -c 300 plan.json)"
import json
devices = json.load(open("plan.json"))["devices"]
assert devices
for device in devices:
    kept = [s for s in device["slices"] if s.get("reserved")]
    assert [(s["profile"], s["start"], s["replicas"]) for s in kept] == [("3g.40gb", 4, [])], device
P
expect 0 validate plan.json --services examples/services.yaml "${measured[@]}"

# The fleet that it was made for knows better than the plan.
sed 's/"reserved": true/"reserved": false/' plan.json >unmarked.json
expect 1 plan --check unmarked.json fleet.yaml examples/services.yaml "${measured[@]}"
has out "others use 3g.40gb@4 of it, but the plan says empty"

# A plan that gives the devices up leaves what others use.
expect 0 plan examples/fleet.yaml examples/services.yaml "${measured[@]}" -o other.json
expect 0 diff plan.json other.json --steps --output json
python3 - <<'P' || fail "steps touch what others use: $(head -c 300 out)"
import json
for step in json.load(open("out"))["steps"]:
    assert not (step["device"].startswith("shared-") and "3g.40gb@4" in json.dumps(step)), step
P
expect 0 export mig-parted plan.json
has out "3g.40gb: 1"
expect 0 export slurm plan.json
if grep -E "Gres=|TRES=" out | grep -q 3g.40gb; then fail "Slurm is offered what others use"; fi
has err "AutoDetect finds the slices that others use"
finish
