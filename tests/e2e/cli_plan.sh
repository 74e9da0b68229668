#!/usr/bin/env bash
# `tangram plan`: from files to a plan that the other verbs take.
. "$(dirname "$0")/lib.sh" || exit 1
E=$SOURCE/examples
plan() { expect "$1" plan "$E/fleet.yaml" "$E/services.yaml" --measurements "$E/measurements.csv" "${@:2}"; }

plan 0 -o plan.json --svg plan.svg --html plan.html
has out "proved optimal"
has out "rank-answers"
has plan.svg "</svg>"
has plan.html "</html>"
cp out first
plan 0 -o again.json
cmp -s out first || fail "the same question has two answers"
cmp -s plan.json again.json || fail "the same question has two plans"
has err "otherwise than the fleet's layout"

# From the plan that runs, for the same services: nothing moves. --from is for the planner elastic.
plan 0 --from plan.json -o near.json
has err "0 destroyed, 0 created; 0 replicas loaded"
expect 0 diff plan.json near.json
plan 2 --from plan.json --check plan.json; has err "--from needs"

# The plan is one that the other verbs read, and it carries the services.
expect 0 validate plan.json --fleet "$E/fleet.yaml" --services "$E/services.yaml" --measurements "$E/measurements.csv"
has out "can serve 4 services"
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

# Certified again with other random numbers; without a slice the promise of tag-uploads breaks.
expect 0 plan --check plan.json "$E/fleet.yaml" "$E/services.yaml" --measurements "$E/measurements.csv" --seed 7
has out "every promise holds"
python3 - <<'P' || fail "the plan cannot be changed"
import json
plan = json.load(open("plan.json"))
for device in plan["devices"]:
    for slice in device["slices"]:
        if any(r["service"] == "tag-uploads" for r in slice.get("replicas", [])):
            slice["replicas"] = []
            json.dump(plan, open("short.json", "w"))
            raise SystemExit
raise SystemExit("no slice of tag-uploads")
P
expect 1 plan --check short.json "$E/fleet.yaml" "$E/services.yaml" --measurements "$E/measurements.csv"
has out "broken"
expect 3 plan --check missing.json "$E/fleet.yaml" "$E/services.yaml" --measurements "$E/measurements.csv"
plan 0 --seed 3 --output json
python3 - <<'P' || fail "a certificate lacks something"
import json
answer = json.load(open("out"))
assert "in which services may share slices" in answer["among"], answer["among"]
for service in answer["services"]:
    certified = service["certified"]
    assert certified["holds"] and certified["attainment_low"] * 100 >= service["slo_percentile"], certified
    assert certified["attainment_low"] <= certified["attainment"] <= certified["attainment_high"], certified
    assert certified["horizon_s"] > 0 and certified["cycles"] > 0 and certified["noise"] > 0, certified
    assert certified["too_close"] in (True, False) and certified["over"] in ("long run", "busiest hour"), certified
P

# For programs.
plan 0 --rule half --explain --output json
for key in status planner rule objective seed reason devices price bound gap proved headroom certifications services \
  explanation why_not_fewer slo_relief plan; do
  has out "\"$key\":"
done
# The price is that of an hour, though devices are what was counted.
python3 - <<'P' || fail "the price is not that of an hour"
import json
answer = json.load(open("out"))
hourly = {"a100-80gb": 1.80, "a30": 0.45}
assert abs(answer["price"] - sum(hourly[d["type"]] for d in answer["plan"]["devices"])) < 1e-9, answer["price"]
P
# ParvaGPU's way certifies nothing, and a check of capacity is not called certified.
plan 2 --planner parva
has err "give --rule half"
plan 0 --planner parva --rule half -o parva.json --quiet
expect 0 validate parva.json --services "$E/services.yaml" --measurements "$E/measurements.csv"
grep -q certified out && fail "a plan that nobody simulated is called certified"
has out "waiting was not simulated"
for planner in elastic parva homogeneous; do plan 0 --rule half --planner "$planner" --quiet; done
# Uncut, the four services take four boards that run them, and the fleet has fewer.
sed 's/model: deep-vision/model: deep-visio/' "$E/services.yaml" >unknown.yaml
cp "$E/trace.csv" .
expect 1 plan "$E/fleet.yaml" unknown.yaml --measurements "$E/measurements.csv"
has err "tag-uploads: no run times are known for deep-visio; they are known for deep-vision, mobile-vision"
plan 1 --rule half --planner whole_gpu
has err "the fleet has 4 devices that run the models, but no way to cut them serves all services; 4 (4 x a100-80gb) would be enough if no type had a limit"
plan 0 --objective headroom --rule half --explain
has out "times the rates"
has out "Why not more"
plan 0 --objective price --rule half --buckets fixed:64,512
has out "an hour"

plan 0 --planner paris --rule half --quiet
# How sure the run times are is known for a fitted model, and only for that.
plan 0 --rule half --explain
has out "which have no intervals"
expect 0 learn "$E/measurements.csv" -o model.json
expect 0 plan "$E/fleet.yaml" "$E/services.yaml" --model model.json --rule half --explain
has out "How certain the run times are"
has out "with 95 %"
expect 0 plan "$E/fleet.yaml" "$E/services.yaml" --model model.json --rule half --explain --output json
python3 - <<'P' || fail "the intervals of run times do not hold"
import json
rows = json.load(open("out"))["explanation"]["confidence"]
assert len(rows) == 4, rows
for r in rows:
    assert 0 < r["low_ms"] < r["mean_ms"] < r["high_ms"] and r["coverage"] == 0.95, r
P

# All of them are measured. Guessed for an H100 that is 1.7 times as fast, the table says so without --explain.
expect 0 plan "$E/fleet.yaml" "$E/services.yaml" --model model.json --rule half
! grep -q "never measured" out || fail "a measured slice is called a guess"
expect 0 learn "$E/measurements.csv" --assume h100-80gb=a100-80gb*1.7 -o guess.json
has err "h100-80gb: guessed: 1.7 times as fast as a100-80gb (as stated; up to 1.6 times off)"
printf 'devices:\n  - type: h100-80gb\n    count: 4\n' > h100.yaml
expect 0 plan h100.yaml "$E/services.yaml" --model guess.json --rule half
has out "never measured on"; has out "of h100-80gb (by a100-80gb)"
has out "times that 90 % of such runs should keep"
expect 0 plan h100.yaml "$E/services.yaml" --model guess.json --rule half --output json
cp out careful.json
expect 0 plan h100.yaml "$E/services.yaml" --model guess.json --rule half --confidence 0.5 --output json
python3 - <<'P' || fail "the careful plan is not more careful"
import json
careful, mean = (json.load(open(f))["services"] for f in ("careful.json", "out"))
assert all(s["guessed_slices"] for s in careful + mean)
assert [s["run_p99_ms"] for s in careful] != [s["run_p99_ms"] for s in mean]
P
expect 2 plan "$E/fleet.yaml" "$E/services.yaml" --measurements "$E/measurements.csv" --confidence 0.9
has err "--confidence needs --model"
expect 2 learn "$E/measurements.csv" --assume h100-80gb=b200*2; has err "--assume"

# A job beside a service: sized by its rows and its deadline, checked, and simulated.
job() { expect "$1" plan "$E/fleet.yaml" "$2" --measurements "$E/measurements.csv" "${@:3}"; }
job 0 "$E/services-job.yaml" -o job.json --explain
has out "job 8.0 h"
expect 0 validate job.json --services "$E/services-job.yaml" --measurements "$E/measurements.csv"
expect 0 validate "$E/services-job.yaml"
has out "1 job, 40000000 rows"
sed 's/rows: 40000000/rows: 90000000000/' "$E/services-job.yaml" >much.yaml
job 1 much.yaml --rule half
expect 2 validate job.json --services much.yaml --measurements "$E/measurements.csv"
has err "embed-archive: its slices can run only"
printf '%s\n' 'name: job' 'duration_s: 20' "services: jobs.yaml" 'plan: job.json' \
  'latency: {measurements: measurements.csv}' >job-scenario.yaml
cp "$E/services-job.yaml" jobs.yaml
expect 0 simulate job-scenario.yaml
has out "embed-archive"

# Memory that is kept free: 85 % leave 1.5 GiB of the smallest slices, and the plan from above uses more.
plan 0 --rule half --memory-headroom 0.85 -o roomy.json
expect 0 validate roomy.json --services "$E/services.yaml" --measurements "$E/measurements.csv" --rule half --memory-headroom 0.85
expect 2 validate plan.json --services "$E/services.yaml" --measurements "$E/measurements.csv" --memory-headroom 0.85
has err "with 85 % kept free"
plan 2 --memory-headroom 1.5
has err "expected a number from 0 to 0.9, found 1.5"
plan 2 --rule half -o -
has err "for standard output, give /dev/stdout"
[[ ! -e ./- ]] || fail "a file called - was written"
# 60/s on average, 6 times as many in bursts of 8 s as in the calm of 72 s: 60 * 6 * 80 / (6 * 8 + 72) = 240/s.
"$TANGRAM" diff "$E/plan.json" plan.json --steps --services "$E/services.yaml" --measurements "$E/measurements.csv" >out 2>err
has out "tag-uploads arrives in bursts of 240/s, but the steps allow for 203.8/s"

# No plan: the reason, exit code 1, and no file.
sed 's/latency_ms: 120/latency_ms: 1/' "$E/services.yaml" >fast.yaml
cp "$E/trace.csv" .
expect 1 plan "$E/fleet.yaml" fast.yaml --measurements "$E/measurements.csv" -o none.json
has err "no plan: rank-answers: the Slo is 1 ms"
[[ ! -e none.json ]] || fail "a file was written for no plan"
expect 1 plan "$E/fleet.yaml" fast.yaml --measurements "$E/measurements.csv" --output json
has out '"status": "infeasible"'

# A fleet that is too small: what was found instead is named.
printf '%s\n' 'devices:' '  - {type: a100-80gb, name: h, count: 1}' >small.yaml
sed 's/rate_per_s: 300/rate_per_s: 3000/; s/rate_per_s: 90,/rate_per_s: 900,/' "$E/services.yaml" >busy.yaml
expect 1 plan small.yaml busy.yaml --measurements "$E/measurements.csv" --rule half --output json
has err "a plan was found on 2 devices (2 x a100-80gb); rank-answers takes most of them"
has err "times the rates"
python3 -c 'import json; r = json.load(open("out"))["remedy"]; assert r["devices"] == 2 and 0.3 < r["rate_factor"] < 1' ||
  fail "the remedy is not in the JSON"

# Wrong questions.
expect 2 plan "$E/fleet.yaml" "$E/services.yaml"
has err "expected --measurements FILE or --model FILE"
plan 2 --buckets fixed:64,32
has err "--buckets: expected"
plan 2 --planner elastc
has err "did you mean elastic?"
plan 2 -o same --svg same
finish
