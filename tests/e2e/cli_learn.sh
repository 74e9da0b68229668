# Measurements become a model, the model answers, and what is wrong with measurements is said.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1

# A network of 5 ms launch and 2 ms a sample, exact; batch 64 does not fit on 1g.
{
  echo "device,mig_profile,model,batch,latency_ms"
  for batch in 1 2 4 8 16 32; do
    for slices in 1:1g.10gb 2:2g.20gb 3:3g.40gb 7:7g.80gb; do
      awk -v b="$batch" -v s="${slices%%:*}" -v p="${slices##*:}" \
        'BEGIN { w = 2 * (b + 1) / s; printf "a100-80gb,%s,net,%d,%.4f\n", p, b, exp(log(5 ^ 6 + w ^ 6) / 6) }'
    done
  done
  echo "a100-80gb,1g.10gb,net,64,"
} > runs.csv

expect 0 learn runs.csv -o model.json --html report.html
has out "net"; has out "from its own errors"
has report.html "<svg"; has report.html "net on a100-80gb"
expect 0 learn runs.csv -o again.json
cmp -s model.json again.json || fail "the same measurements gave another model"

# 2 * (24 + 1) / 3 = 16.7 ms.
expect 0 predict model.json --slice 3g --batch 24 --output json
latency=$(sed -n 's/.*"latency_ms": \([0-9.]*\).*/\1/p' out)
awk -v l="$latency" 'BEGIN { exit !(l > 15.5 && l < 18) }' || fail "batch 24 on 3g: $latency ms"
expect 0 predict model.json --slice 7g.80gb --batch 1; has out "(measured)"
# 2 * (1000 + 1) / 1 = 2002 ms and a throughput of four digits: numbers as people write them.
grep -v ',64,$' runs.csv > roomy.csv
expect 0 learn roomy.csv -o roomy.json
expect 0 predict roomy.json --slice 1g --batch 1000
grep -qE '[0-9]e[+-]' out && fail "an exponent for a person: $(cat out)"
grep -qE '^latency     [0-9]{4} ms, between [0-9]{3,5} ms and' out || fail "predict: $(cat out)"
expect 1 predict model.json --slice 1g --batch 256; has out "does not fit into memory"
expect 2 predict model.json --slice 5g --batch 1
expect 2 predict model.json --slice 1g --batch 0
expect 2 predict model.json --slice 1g --batch 1 --model stranger; has err "net on a100-80gb"

# Wrong measurements.
(sed 1q runs.csv; echo "a100-80gb,1g.10gb,net,1,-3") > negative.csv
expect 2 learn negative.csv; has err "negative.csv:2"
(cat runs.csv; sed -n 2p runs.csv) > twice.csv
expect 2 learn twice.csv; has err "twice.csv:27"
(echo "device,mig_profile,model,batch,latency_ms,throughput_per_s"; echo "a100-80gb,1g.10gb,net,8,0.02,400") > units.csv
expect 2 learn units.csv; has err "units"
(sed 1q runs.csv; tail -1 runs.csv) > memory.csv
expect 2 learn memory.csv; has err "ran out of memory"
# Out of memory at batch 8 in line 14 although batch 32 fitted in line 22 on the same slice: learnt, but not silently.
(sed 's/^a100-80gb,1g.10gb,net,8,.*/a100-80gb,1g.10gb,net,8,/' runs.csv) > odd.csv
expect 0 learn odd.csv; has err "odd.csv:14: net ran out of memory on 1g.10gb with batch 8"; has err "but the run in line 22 did not"
sed 1q runs.csv > none.csv
expect 2 learn none.csv

# One run alone: a model, but a wide one that says so.
head -2 runs.csv > one.csv
expect 0 learn one.csv -o one.json; has out "assumed"
expect 0 predict one.json --slice 1g --batch 32 --output json
awk -F'[:,]' '/latency_low/ { low = $2 } /latency_high/ { exit !($2 > 2 * low) }' out || fail "one run, narrow interval"

# What is known without measuring.
printf 'model,parameters,flops_per_sample\nnet,25e6,4e9\n' > features.csv
expect 0 learn runs.csv --features features.csv
has err "features.csv: does not determine the work of net on a100-80gb: 0 other measured models"
# Three networks of 1, 2 and 4 ms and as many GFLOP are known, and of a fourth one run: its FLOPs change what is learnt.
{
  sed 1q runs.csv
  for work in 1 2 4; do
    for batch in 1 4 16 64; do
      for slices in 1:1g.10gb 3:3g.40gb 7:7g.80gb; do
        awk -v b="$batch" -v w="$work" -v s="${slices%%:*}" -v p="${slices##*:}" \
          'BEGIN { t = w * (b + 1) / s; printf "a100-80gb,%s,other%d,%d,%.4f\n", p, w, b, exp(log(5 ^ 6 + t ^ 6) / 6) }'
      done
    done
  done
} > others.csv
(sed 1q runs.csv; grep ',7g.80gb,net,1,' runs.csv) > first.csv
printf 'model,flops_per_sample\nother1,1e9\nother2,2e9\nother4,4e9\nnet,8e9\n' > flops.csv
expect 0 learn first.csv --known others.csv -o plain.json
expect 0 learn first.csv --known others.csv --features flops.csv -o informed.json; empty err
cmp -s plain.json informed.json && fail "features changed nothing"

# Five runs in milliseconds and one in seconds: the interval holds what it was wrong about, and somebody is told.
{
  sed 1q runs.csv
  for batch in 1 2 4 8 16; do grep ",2g.20gb,net,$batch," runs.csv; done
  echo "a100-80gb,7g.80gb,net,32,0.0107"
} > mixed.csv
expect 0 learn mixed.csv --output json; has err "are all latencies in milliseconds"
awk -F'[:,]' '/"coverage":/ { exit !($2 > 0.9) }' out || fail "an interval that does not hold its own errors: $(cat out)"
printf 'model,flops\nnet,4e9\n' > features.csv
expect 2 learn runs.csv --features features.csv; has err "features.csv:1"

expect 2 learn runs.csv -o both --html both; has err "-o and --html both name both"
expect 2 learn runs.csv -o runs.csv; has err "runs.csv is an input"
expect 3 learn runs.csv -o no/such/model.json; has err "no such file or directory"

# A model is a file like others: it is told from a plan by what stands in it, under any name.
cp model.json plan.json
expect 0 validate model.json plan.json --output json
[[ $(grep -c '"kind": "model"' out) == 2 ]] || fail "validate: $(cat out)"
sed 's/"models"/"modles"/' model.json > odd.json
expect 2 validate odd.json; has err "odd.json:1:1: cannot tell the kind of this file"
sed 's/"coverage"/"cuverage"/' model.json > odd.json
expect 2 validate odd.json; has err "did you mean coverage?"

# A model file of somebody else.
echo '{"version": 1, "models": []}' > empty.json
expect 2 predict empty.json --slice 1g; has err "empty.json"
echo 'no json' > broken.json
expect 2 predict broken.json --slice 1g

# A data set of the public form with two models of our own: every budget below its 90 configurations, four samplers.
mkdir -p data/parvagpu
{
  echo "model,mig_gpcs,batch_size,mps_procs,throughput_req_s,latency_s,feasible"
  for work in 1 3; do
    for slices in 1 2 3 4 7; do
      for batch in 1 2 4 8 16 32 64 128 256; do
        for processes in 1 2; do
          awk -v m="net$work" -v w="$work" -v s="$slices" -v b="$batch" -v p="$processes" 'BEGIN {
            t = exp(log(5 ^ 6 + (w * p * (b + 1) / s) ^ 6) / 6)
            printf "%s,%d,%d,%d,%.3f,%.3f,1\n", m, s, b, p, 1000 * b / t, t / 1000 }'
        done
      done
    done
  done
} > data/parvagpu/profiles.csv
expect 0 reproduce few-shot --data data --output json
for field in dataset model family budget sampler median_error p90_error coverage95 throughput_regret measurements device \
  family_left_out; do
  has out "\"$field\":"
done
[[ $(grep -c '"sampler": "active"' out) == 12 ]] || fail "two models, six budgets: $(grep -c '"sampler": "active"' out)"
cp out first
expect 0 reproduce few-shot --data data --output json
cmp -s out first || fail "the same data gave other figures"

# The figures are those that users get: 15 measurements by `measure`, the model by `learn`, intervals by `predict`.
expect 0 import parvagpu data/parvagpu/profiles.csv -o imported.csv
for net in net1 net3; do awk -F, -v net="$net" 'NR == 1 || $3 == net' imported.csv > "$net.csv"; done
expect 0 measure --model net1 --device a100-80gb --engine replay --measurements net1.csv --known net3.csv \
  --max-measurements 15 --target-error 0 -o fifteen.csv
expect 0 learn fifteen.csv --known net3.csv -o fifteen.json
python3 - "$TANGRAM" <<'P' || fail "the figures of reproduce few-shot are not those of measure, learn and predict"
import csv, json, statistics, subprocess, sys
shape = ("mig_profile", "batch", "processes")
measured = {tuple(row[key] for key in shape) for row in csv.DictReader(open("fifteen.csv"))}
errors, covered = [], 0
for row in csv.DictReader(open("net1.csv")):
    slice, batch, processes = run = tuple(row[key] for key in shape)
    if run in measured: continue
    told = json.loads(subprocess.run([sys.argv[1], "predict", "fifteen.json", "--slice", slice, "--batch", batch,
                                      "--processes", processes, "--output", "json"], capture_output=True).stdout)
    latency = float(row["latency_ms"])
    errors.append(abs(told["latency_ms"] / latency - 1))
    covered += told["latency_low_ms"] <= latency <= told["latency_high_ms"]
said = next(r for r in json.load(open("first"))
            if (r["model"], r["budget"], r["sampler"]) == ("net1", 15, "active"))
got = {"held_out": len(errors), "coverage95": covered / len(errors), "median_error": statistics.median(errors)}
assert len(measured) == 15 and said["measurements"] == 15, (measured, said)
assert all(abs(said[key] - got[key]) < 1e-6 for key in got), (said, got)
P

# A third model that nowhere fits is left out by name; alone it is nothing to learn from.
cp data/parvagpu/profiles.csv whole.csv
echo "blind,1,8,1,,,0" >> data/parvagpu/profiles.csv
expect 0 reproduce few-shot --data data --seeds 1 --output json
has err "profiles.csv: blind on a100-80gb is left out: all 1 runs ran out of memory"
(sed 1q whole.csv; echo "blind,1,8,1,,,0") > data/parvagpu/profiles.csv
expect 2 reproduce few-shot --data data; has err "no run fitted into memory"

# A data set that holds only its header, or only training, is left to the other; both so is an error.
head -60 whole.csv > data/parvagpu/profiles.csv
mkdir data/migprofiler
MIG_HEADER="gpu,mig_profile,model,total_params,task,sweep,batch_size,seq_length,latency_ms,latency_std_ms,throughput_samples_s,fb_used_mib_mean"
echo "$MIG_HEADER" > data/migprofiler/profiles.csv
expect 0 reproduce few-shot --data data --seeds 1 --output json
has err "migprofiler/profiles.csv: no rows to import"; has err "only the other data set is used"
echo "a100-80gb,1g.10gb,net,1,train,batch,1,1,10,1,100,10" >> data/migprofiler/profiles.csv
expect 0 reproduce few-shot --data data --seeds 1 --output json; has err "only the other data set is used"
sed -i 1q data/parvagpu/profiles.csv
expect 2 reproduce few-shot --data data; has err "parvagpu/profiles.csv: no rows to import"

# Half of the rows in seconds: the lines are named. A slice beyond the measured ones is said to be.
{
  echo "device,mig_profile,model,batch,size,processes,latency_ms"
  for batch in 1 2 4 8 16; do
    for processes in 1 2 3 4; do echo "a100-80gb,1g.10gb,net,$batch,1,$processes,$((5 * batch * processes))"; done
  done
} > same.csv
expect 0 learn same.csv -o same.json
! grep -q "milliseconds" err || fail "sound rows were doubted: $(cat err)"
expect 0 predict same.json --slice 1g --batch 3 --output json; has out '"beyond_measured": false'
expect 0 predict same.json --slice 7g --batch 3 --output json; has out '"beyond_measured": true'
expect 0 predict same.json --slice 7g --batch 3; has out "outside the measured range (1g.10gb)"
awk -F, -v OFS=, 'NR > 11 { $7 /= 1000 } 1' same.csv > units.csv
expect 0 learn units.csv
has err "units.csv:"; has err "times what the difference in work explains; are both in milliseconds?"
has err "units.csv: 5 more runs like these, in lines"

head -15 same.csv > few.csv
expect 0 learn few.csv --kind boosted; has err "fewer than 20 runs fitted into memory, so the model uses the formula without trees"
awk -F, -v OFS=, 'NR == 1 { print $0, "memory_mib"; next } { print $0, NR == 3 ? 90000 : 900 }' same.csv > full.csv
expect 0 learn full.csv; has err "full.csv:3: net took 90000 MiB on 1g.10gb"
expect 2 measure --model net --device a100-80gb --engine emulated --emulate same.csv --memory-limit 100 -o none.csv
has err "same.csv: no row has memory_mib, so --memory-limit would have no effect"
expect 2 reproduce few-shot --quick; has err "--quick has no effect on few-shot"

expect 3 reproduce few-shot --data no/such/folder; has err "profiles.csv"
"$TANGRAM" schema model | cmp -s - "$SOURCE/docs/schema/model.schema.json" || fail "docs/schema/model.schema.json is old"
finish
