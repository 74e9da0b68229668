#!/usr/bin/env bash
# `tangram plan`: from files to a plan that the other verbs take.
. "$(dirname "$0")/lib.sh"
E=$SOURCE/examples
plan() { expect "$1" plan "$E/fleet.yaml" "$E/services.yaml" --measurements "$E/measurements.csv" "${@:2}"; }

plan 0 -o plan.json --svg plan.svg --html plan.html
has out "proved best"
has out "rank-answers"
has plan.svg "</svg>"
has plan.html "</html>"
cp out first
plan 0 -o again.json
cmp -s out first || fail "the same question has two answers"
cmp -s plan.json again.json || fail "the same question has two plans"

# The plan is one that the other verbs read, and it carries the services.
expect 0 validate plan.json --fleet "$E/fleet.yaml" --services "$E/services.yaml" --measurements "$E/measurements.csv"
has out "carries 4 services"
expect 0 diff "$E/plan.json" plan.json
expect 0 export mig-parted plan.json
printf '%s\n' 'name: planned' 'duration_s: 60' "services: services.yaml" 'plan: plan.json' \
  'latency: {measurements: measurements.csv}' >scenario.yaml
cp "$E/services.yaml" "$E/measurements.csv" "$E/trace.csv" .
expect 0 simulate scenario.yaml
# A plan that lacks a replica is refused.
sed 's/"service": "transcribe"/"service": "classify-photos"/' plan.json >mutated.json
expect 2 validate mutated.json --services "$E/services.yaml" --measurements "$E/measurements.csv"
has err "transcribe: no replica serves it"

# For programs.
plan 0 --rule half --explain --output json
for key in status planner rule objective seed reason devices price bound gap proved headroom certifications services \
  explanation why_not_fewer slo_relief plan; do
  has out "\"$key\":"
done
for planner in elastic parva homogeneous; do plan 0 --rule half --planner "$planner" --quiet; done
# Uncut, the four services take four boards that run them, and the fleet has fewer.
plan 1 --rule half --planner whole_gpu
has err "the fleet has 4 devices, and no cut of them carries all services; 4 would, were there no limit"
plan 0 --objective headroom --rule half
has out "times the rates"
plan 0 --objective price --rule half --buckets fixed:64,512
has out "an hour"

# No plan: the reason, exit code 1, and no file.
sed 's/latency_ms: 120/latency_ms: 1/' "$E/services.yaml" >fast.yaml
cp "$E/trace.csv" .
expect 1 plan "$E/fleet.yaml" fast.yaml --measurements "$E/measurements.csv" -o none.json
has err "no plan: rank-answers: the Slo is 1 ms"
[[ ! -e none.json ]] || fail "a file was written for no plan"
expect 1 plan "$E/fleet.yaml" fast.yaml --measurements "$E/measurements.csv" --output json
has out '"status": "infeasible"'

# Wrong questions.
expect 2 plan "$E/fleet.yaml" "$E/services.yaml"
has err "expected --measurements or --model"
plan 2 --buckets fixed:64,32
has err "--buckets: expected"
plan 2 --planner elastc
has err "did you mean elastic?"
plan 2 -o same --svg same
finish
