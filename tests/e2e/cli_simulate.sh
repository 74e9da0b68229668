# Scenarios as users run them: tables, values, files, and what is wrong with them.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1
SCENARIO=$SOURCE/examples/scenario.yaml

expect 0 policies; has out "tangram"; has out "clockwork"; empty err
expect 0 validate "$SCENARIO" "$SOURCE/examples/scenario-day.yaml"; has out "policy tangram"

# The answer does not change from run to run; how long it took stands on standard error.
expect 0 simulate "$SCENARIO" --duration 20; cp out first; has err "x real time"
expect 0 simulate "$SCENARIO" --duration 20; cmp -s out first || fail "the same seed gave another answer"
has out "classify-photos"; has out "up to 64"; has out "4g.40gb@0"
expect 0 simulate "$SCENARIO" --duration 20 --seed 2 --quiet; cmp -s out first && fail "another seed gave the same answer"
empty err

# Policies side by side, in the order they were named, on the same requests.
expect 0 simulate "$SCENARIO" --duration 20 --compare fifs,tangram --output json --html r.html --trace r.json --timeline r.csv --log r.log
python3 - <<'P' || fail "the JSON of simulate is not as described"
import json
answer = json.load(open("out"))
assert answer["seed"] == 1 and answer["configuration"]["duration_s"] == 20 and answer["scenario"] == "three-services"
assert [run["policy"] for run in answer["runs"]] == ["fifs", "tangram"]
first, second = answer["runs"]
assert first["requests"] == second["requests"] > 10000
for run in answer["runs"]:
    assert run["total"]["requests"] == run["requests"] == sum(s["requests"] for s in run["services"])
    for s in run["services"]:
        assert s["requests"] == s["served"] + s["late"] + s["failed"] + s["rejected"], s
        assert s["rejected"] == sum(s["rejected_by_reason"].values())
        assert s["requests"] == sum(b["requests"] for b in s["buckets"])
        assert 0 <= s["slo_attainment"] <= 1 and 0 <= s["padding_share"] <= 1
        assert s["latency"]["p50_ms"] <= s["latency"]["p90_ms"]
        assert s["queue_depth"]["mean"] <= s["queue_depth"]["max"] <= run["queue_depth"]["max"]
        for b in s["buckets"]:
            assert b["queue_depth"]["max"] <= s["queue_depth"]["max"], b
            assert b["padding_share"] is None or 0 <= b["padding_share"] < 1, b
            assert sum(n["batches"] for n in b["batch_sizes"]) <= sum(n["batches"] for n in s["batch_sizes"])
    assert all(0 <= s["useful_share"] <= s["busy_share"] <= 1.0001 for s in run["slices"])
    assert sum(s["batches"] for s in run["slices"]) == run["batches"]
    assert sum(s["served"] for s in run["slices"]) == run["total"]["served"]
    assert all(s["latency"]["p50_ms"] <= s["latency"]["p99_ms"] for s in run["slices"] if s["served"])
    assert all({"padding_share", "queue_depth", "in_time_share", "goodput_per_s"} <= set(s) for s in run["slices"])
trace = json.load(open("r.json"))
tracks = [e for e in trace["traceEvents"] if e["name"] == "thread_name"]
assert len(tracks) == 2 * len(first["slices"])
rows = [line for line in open("r.csv") if not line.startswith("#")]
assert rows[0].startswith("policy,at_s,service"), rows[0]
assert sum(int(row.split(",")[3]) for row in rows[1:] if row.startswith("fifs")) == first["requests"]
assert sum(" resolve r" in line for line in open("r.log")) == first["requests"] + second["requests"]
P
has r.html "<!doctype html>"; has r.html "Policies side by side"; has r.html 'duration_s&quot;: 20'
grep -qE 'https?:|src=' r.html && fail "the report needs the network"
expect 0 simulate "$SCENARIO" --duration 5 --output yaml; has out "policy: tangram"

# A scenario that ends by number has the same requests with and without a time line.
sed 's/^duration_s: 600/requests: 3000/' "$SCENARIO" > count.yaml
expect 0 simulate count.yaml --quiet; cp out first
expect 0 simulate count.yaml --quiet --timeline count.csv; cmp -s out first || fail "a time line changed the run"
[[ $(grep -v '^#' count.csv | tail -n +2 | awk -F, '{ sum += $4 } END { print sum }') == 3000 ]] || fail "the time line lost requests"

# What a run records is decided the same again, also where the run is made twice for a time line.
expect 0 simulate count.yaml --quiet --record r.recording --log r.log
expect 0 replay r.recording; has out "the same decisions"
cp r.recording first
expect 0 simulate count.yaml --quiet --record r.recording --timeline count.csv; cmp -s r.recording first || fail "a time line changed the recording"
expect 3 simulate count.yaml --quiet --record /dev/full

expect 0 capacity "$SCENARIO" --policies tangram,fifs --tolerance 0.2 --percentile 90 --output json
python3 - <<'P' || fail "the JSON of capacity is not as described"
import json
answer = json.load(open("out"))
assert [r["policy"] for r in answer["results"]] == ["tangram", "fifs"]
for r in answer["results"]:
    assert 0 < r["rate_scale"] < r["infeasible_rate_scale"] <= 1.2001 * r["rate_scale"]
    assert r["binding_service"] in [s["name"] for s in r["services"]]
    assert all(s["slo_attainment"] >= 0.9 for s in r["services"])
P

# What is wrong is said with its place.
sed 's/^seed: 1/sed: 1/' "$SCENARIO" > wrong.yaml
expect 2 simulate wrong.yaml; empty out; has err "wrong.yaml:6:1: key is unknown: \"sed\", did you mean seed?"
expect 3 simulate missing.yaml; has err "missing.yaml: cannot read"
expect 2 simulate "$SCENARIO" --policy elza; has err "did you mean elsa?"
expect 2 simulate "$SCENARIO" --compare elsa,fiffs; has err "did you mean fifs?"
expect 2 capacity "$SCENARIO" --policies nobody; has err "unknown policy"
# Files that cannot be written are noticed before the run, and none is written twice: this run would take minutes.
begin=$SECONDS
expect 3 simulate "$SCENARIO" --duration 1000000 --html no/such/folder.html; has err "no such file or directory"
expect 2 simulate "$SCENARIO" --duration 1000000 --html r.html --log ./r.html; has err "--html and --log both name ./r.html"
cp "$SCENARIO" mine.yaml
expect 2 simulate mine.yaml --duration 1000000 --timeline mine.yaml
(( SECONDS - begin < 5 )) || fail "the outputs were tried after the run"
cmp -s "$SCENARIO" mine.yaml || fail "the scenario was overwritten"
[[ -z $(find . -name '.r.html*' -o -name '.mine*') ]] || fail "something was left behind"
expect 0 simulate "$SCENARIO" --duration 1 --html /dev/null --log /dev/null --quiet

# Twice the same policy compares nothing, and a promise to all requests cannot be proved.
expect 2 simulate "$SCENARIO" --compare elsa,elsa; has err "the policy elsa is given twice"
expect 2 capacity "$SCENARIO" --policies elsa,fifs,elsa; has err "the policy elsa is given twice"
expect 2 capacity "$SCENARIO" --percentile 100; has err "below 100"
expect 2 capacity "$SCENARIO" --percentile 0; has err "below 100"

# Rates are over the time of the arrivals, however long the rest takes; capacity needs something to count and to scale.
cat > steady.yaml <<'Y'
duration_s: 10
services: [{name: a, model: net, slo: {latency_ms: 50}, traffic: {constant: {rate_per_s: 10}}}]
plan: {devices: [{type: a30, layout: 1g.6gb@0, replicas: [{service: a, buckets: [{batch_size: 1}]}]}]}
latency: {models: [{model: net, launch_ms: 10, sample_ms: 0.1, p99_factor: 1}]}
scheduler: {policy: fifs, admission: false}
Y
expect 0 simulate steady.yaml --rate-scale 20 --output json
python3 - <<'P' || fail "the rate is not that of the arrivals"
import json
run = json.load(open("out"))["runs"][0]
assert run["counted_s"] == 10 and run["total"]["arrived_per_s"] == 200 and run["end_s"] > 19, run
P
(cat steady.yaml; echo "warmup_requests: 100000") > warm.yaml
expect 2 capacity warm.yaml; empty out
has err "warm.yaml: none of the 100 requests of the run is counted, because warmup_requests is 100000"
sed 's/constant: {rate_per_s: 10}/closed_loop: {clients: 3}/' steady.yaml > loop.yaml
expect 2 capacity loop.yaml; empty out; has err "no rate to scale"

# Where nothing was counted, nothing was in time.
cp -r "$SOURCE/examples" warm
sed -i 's/^duration_s: 600/requests: 50\nwarmup_requests: 60/' warm/scenario.yaml
expect 0 simulate warm/scenario.yaml --quiet; grep -q '100 %' out && fail "no request, and all in time: $(cat out)"
expect 0 simulate warm/scenario.yaml --output json --html warm.html
python3 - <<'P' || fail "shares of nothing"
import json
run = json.load(open("out"))["runs"][0]
assert run["slo_kept"] is None and run["total"]["slo_attainment"] is None and run["total"]["requests"] == 0
assert all(s["slo_attainment"] is None and s["slo_kept"] is None for s in run["services"])
assert run["total"]["latency"]["p99_ms"] is None and run["total"]["latency"]["mean_ms"] is None
P
grep -q '>100 %' warm.html && fail "the report says 100 % of nothing"

# What a plan cannot serve is said before the run, with the reason.
cat > odd.yaml <<'Y'
services:
  - {name: a, model: net, slo: {latency_ms: 50}, traffic: {rate_per_s: 10}, input_size: 9}
  - {name: b, model: net, slo: {latency_ms: 1}, traffic: {rate_per_s: 10}}
plan: {devices: [{type: a30, layout: 4g.24gb@0, replicas: [
  {service: a, buckets: [{size_max: 8, batch_size: 1}]}, {service: b, buckets: [{batch_size: 1}]}]}]}
latency: {models: [{model: net, launch_ms: 10, sample_ms: 0.1}]}
duration_s: 1
Y
expect 0 simulate odd.yaml --quiet
has err "warning: service a: no request can be served: the smallest input is 9 and the largest bucket takes 8"
has err "warning: service b: no request can be in time: the promise is 1.00 ms"
expect 0 validate odd.yaml --output json; has out "no request can be in time"
sed 's/, {service: b, buckets: \[{batch_size: 1}\]}//' odd.yaml > none.yaml
expect 2 validate none.yaml; has err "none.yaml:4:7: the service b has no replica in the plan"
expect 2 simulate none.yaml; empty out

# After a change of plan, utilisation is that of both plans together, and new slices have names.
expect 0 simulate "$SOURCE/tests/scenarios/plan_change_loses_nothing.yaml" --output json
python3 - <<'P' || fail "utilisation after a change of plan"
import json
run = json.load(open("out"))["runs"][0]
assert 0 < run["total"]["useful_share"] <= run["total"]["busy_share"] <= 1, run["total"]
later = [s for s in run["slices"] if s["later_plan"]]
assert later and all("@" in s["slice"] and s["compute_slices"] > 0 and s["device"] for s in later), later
P

# Run times of a fitted model.
expect 0 learn "$SOURCE/examples/measurements.csv" -o model.json --quiet
cat > fitted.yaml <<'Y'
services:
  - {name: a, model: text-encoder, slo: {latency_ms: 500}, traffic: {rate_per_s: 20}, input_size: 64}
plan: {devices: [{type: a100-80gb, layout: 3g.40gb@0, replicas: [{service: a, buckets: [{size_max: 64, batch_size: 4}]}]}]}
latency: {model: model.json}
duration_s: 5
Y
expect 0 validate fitted.yaml
expect 0 simulate fitted.yaml --output json; has out '"model": "model.json"'; has out '"slo_kept": true'
echo '{"version": 1}' > model.json
expect 2 simulate fitted.yaml; has err "model.json:1:1: "

# Plans that follow the traffic: two hours of the example, against one plan for the peak and an oracle.
REPLAN=$SOURCE/examples/scenario-replan.yaml
expect 0 validate "$REPLAN" "$SOURCE/examples/fleet-replan.yaml"
expect 2 simulate "$REPLAN"; has err "has no plan"
expect 2 simulate "$SCENARIO" --replan; has err "needs a fleet"
expect 0 simulate "$REPLAN" --replan --rule half --duration 7200 --output json --html replan.html
python3 - <<'P' || fail "the JSON of simulate --replan is not as described"
import json
answer = json.load(open("out"))
runs = {run["name"]: run for run in answer["runs"]}
assert list(runs) == ["replan", "static", "oracle"]
assert len({run["requests"] for run in runs.values()}) == 1
for run in runs.values():
    assert run["lost"] == 0, run["name"]
    assert run["requests"] == sum(s["arrived"] for s in run["services"])
    for s in run["services"]:
        assert s["arrived"] == s["served"] + s["late"] + s["refused"], s
    assert run["gpu_hours"] <= runs["static"]["devices_max"] * 2 + 0.5, run["name"]
    use = [u["at_s"] for u in run["fleet_use"]]
    assert use == sorted(use) and use[0] == 0
assert runs["static"]["plans"] == 1 and runs["static"]["recuts"] == 0
assert runs["replan"]["plans"] > 1 and runs["oracle"]["plans"] > 1
assert runs["static"]["gpu_hours"] == 2 * runs["static"]["devices_max"]
P
cp out first; expect 0 simulate "$REPLAN" --replan --rule half --duration 7200 --output json
cmp -s out first || fail "the same seed planned another day"
# The same two hours in two minutes, at the same rates: a 60th of the requests.
expect 0 simulate "$REPLAN" --replan --rule half --duration 7200 --speed 60 --output json
python3 - <<'P' || fail "--speed does not divide the day"
import json
slow, fast = (json.load(open(f))["runs"][1] for f in ("first", "out"))
assert abs(60 * fast["gpu_hours"] / slow["gpu_hours"] - 1) < 0.3, (fast, slow)
P
expect 2 simulate "$REPLAN" --speed 60; has err "--replan"
has replan.html "GPUs in use"; grep -qE 'https?:|src=' replan.html && fail "the report needs the network"

# What is published is what the program says.
# Training on what is lent: jobs end, owners add up to the fleet, and the report shows them.
sed 's/count: 60, gap_mean_s: 1200/count: 8, gap_mean_s: 200/' "$SOURCE/examples/scenario-training.yaml" > training.yaml
expect 0 simulate training.yaml --duration 3600 --output json --html shared.html
python3 - <<'P' || fail "the JSON of a shared cluster is not as described"
import json
run = json.load(open("out"))["runs"][0]
training = run["training"]
assert run["slo_kept"] and training["jobs_ended"] == training["jobs"] == len(training["jcts_s"]), training["jobs_ended"]
assert training["leases"] > 0 and training["lease_mean_s"] > 0
for step in training["gpu_ownership"]:
    owners = [step[k] for k in ("training", "running", "protected", "asleep", "free")]
    assert min(owners) > -1e-9 and abs(sum(owners) - training["gpus"]) < 1e-6, step
P
has shared.html "Who has the GPUs"
grep -qF '>free<' shared.html && fail "the GPUs of training are called free"
expect 0 simulate training.yaml --duration 600; has out "reclaims per job"
# Jobs that did not end are named, and no time is told where none did.
sed 's/  lend: slices/  lend: slices\n  overtime_s: 0/' training.yaml > short.yaml
expect 0 simulate short.yaml --duration 60; has out "did not end"; has out "of the 0 that ended  "
expect 0 simulate short.yaml --duration 60 --output json; has out '"jct_mean_s": null'
"$TANGRAM" schema scenario | cmp -s - "$SOURCE/docs/schema/scenario.schema.json" || fail "docs/schema/scenario.schema.json is old"
"$TANGRAM" reference scenario | cmp -s - "$SOURCE/docs/reference/scenario.md" || fail "docs/reference/scenario.md is old"

# The demonstration writes its report beside, and over nothing but its own.
expect 0 demo --hours 0.2; has out "tangram-demo.html"; has out "A day, simulated"; has out "at the peak"
has tangram-demo.html 'content="tangram '
echo mine > tangram-demo.html
expect 0 demo --hours 0.2; has out "tangram-demo-2.html"
[[ $(cat tangram-demo.html) == mine ]] || fail "the demo wrote over a file of somebody else"
expect 0 demo --hours 0.2 --html there.html; has out "there.html"; has there.html "<!doctype html>"
finish
