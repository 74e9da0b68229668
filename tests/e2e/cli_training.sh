# The results about training, on a made application and a few jobs: what is refused, and what is said of it.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1

mkdir -p data/pollux/workloads data/deepboot
python3 - <<'P'
import math, os
# Steps of 0.02 s and 1 ms a sample, and what workers and nodes cost beside it.
os.makedirs("data/pollux/traces/short")
with open("data/pollux/traces/short/placements.csv", "w") as file:
    print("placement,local_bsz,step_time,sync_time", file=file)
    for nodes in range(1, 5):
        for each in range(1, 5):
            for local in (16, 32, 64, 128):
                workers, compute = nodes * each, 0.02 + 0.001 * local
                sync = 0 if workers == 1 else 0.01 + 0.001 * workers if nodes == 1 else 0.05 + 0.002 * workers
                step = math.hypot(compute, sync)
                print(f"{str(each) * nodes},{local},{step},{step - compute}", file=file)
for batch in (64, 256, 1024):
    with open(f"data/pollux/traces/short/validation-{batch}.csv", "w") as file:
        print("progress,iteration,metric,grad_sqr,grad_var", file=file)
        for epoch in range(1, 6):
            print(f"{100 * epoch},{100 * epoch * 64 // batch},0,1,8", file=file)
P
POLLUX=data/pollux/workloads/w.csv
DEEPBOOT=data/deepboot/w.csv
# pollux ROW..., deepboot ROW...: the workload consists of these.
pollux() { printf 'name,time,application,num_replicas,batch_size\n' > $POLLUX; printf '%s\n' "$@" >> $POLLUX; }
deepboot() { printf 'name,time,application,num_replicas,batch_size,duration,num_task\n' > $DEEPBOOT; printf '%s\n' "$@" >> $DEEPBOOT; }

pollux a,0,short,1,64 b,30,short,4,256
expect 0 reproduce pollux --data data --output json
expect 0 reproduce pollux --data data --full --output json
python3 - <<'P' || fail "rows of the JSON are not told apart by their keys"
import json
keys = [(r["workload"], r["allocator"], r["interval_s"], r["interference"]) for r in json.load(open("out"))]
assert len(set(keys)) == len(keys) == 11, keys
P
deepboot a,0,short,1,64,-1,-1 r,5,infer-short-1,1,1,10,1
expect 0 reproduce deepboot --data data --quick --output json

# An option that would do nothing is refused, and the others do something.
for result in pollux slices; do
  expect 2 reproduce $result --data data --seeds 2; has err "--seeds has no effect on $result"
  expect 2 reproduce $result --data data --report page.html; has err "--report has no effect on $result"
done
expect 0 reproduce deepboot --data data --quick --seeds 3 --output json
[[ $(grep -c '"seed": 3' out) == 1 ]] || fail "--quick passes over --seeds"
# Who wins is told by the mean over the seeds, as the JSON has them.
rows=(); for i in {1..40}; do rows+=("j$i,$((i * 90)),short,1,64,-1,-1"); done
deepboot "${rows[@]}" r,5,infer-short-1,1,1,10,1
expect 0 reproduce deepboot --data data --output json; cp out deepboot.json
expect 0 reproduce deepboot --data data
has out "P99 JCT"; has out "the p99 under"
python3 - <<'P' || fail "who wins is not told by the means"
import collections, json, re
times, last = (collections.defaultdict(lambda: collections.defaultdict(list)) for _ in range(2))
for row in json.load(open("deepboot.json")):
    if row["options"] == "baseline": continue
    way = row["allocator"] + " " + row["options"]
    times[row["workload"]][way].append(row["jct_mean_s"])
    last[row["workload"]][way].append(row["jct_p99_s"])
dearer = [way for load in last.values() for way in ("tangram whole_gpu", "tangram packed")
          if way in load and sum(load[way]) / len(load[way]) > sum(load["deepboot ATSI_AFE"]) / len(load["deepboot ATSI_AFE"])]
assert sorted(re.findall(r"^  (.+) trades p99 for mean", open("out").read(), re.M)) == sorted(dearer), dearer
said = re.findall(r"^(\S+): the mean completion time is shortest under (.+?) \((\d+) s\)", open("out").read(), re.M)
assert {s[0] for s in said} >= {"5x", "10x", "periodic"}, said
for load, way, seconds in said:
    means = {name: sum(values) / len(values) for name, values in times[load].items()}
    assert abs(min(means.values()) - int(seconds)) < 0.51 and abs(means[way] - int(seconds)) < 0.51, (load, way, seconds, means)
P

# What each part is worth: rows of their own, beside the usual ones, which stay the same.
expect 0 reproduce deepboot --data data --full --seeds 1 --output json; cp out full.json
python3 - <<'P' || fail "the ablation is not complete"
import json
usual = [row for row in json.load(open("deepboot.json")) if row["seed"] == 1]
rows = json.load(open("full.json"))
plain = [row for row in rows if not row["ablation"]]
assert all(row in plain for row in usual), [row for row in usual if row not in plain]
parts = {"tangram whole_gpu_" + part for part in ("no_work_left", "no_shared_steps", "timer", "no_first_ready",
                                                  "least_loss", "clock_rounds")}
parts |= {"deepboot ATSI_AFE_demand", "deepboot whole_gpu"}
for load in ("w", "5x", "10x", "periodic"):
    said = [row["allocator"] + " " + row["options"] for row in rows if row["ablation"] and row["workload"] == load]
    assert len(said) == len(parts) and set(said) == parts, (load, said)
P
expect 0 reproduce deepboot --data data --full --seeds 1
has out "What each part is worth"; has out "tangram whole_gpu_no_work_left"

# More GPUs than there are, and what ends too late.
pollux a,0,short,1,64 '' b,0,short,65,4096
expect 2 reproduce pollux --data data; has err "w.csv:4: the job b asks for 65 GPUs, but the cluster has 64"; empty out
pollux a,900000000,short,1,64
expect 2 reproduce pollux --data data; has err "w.csv:2: a cannot end"
deepboot a,0,short,65,64,-1,-1 r,5,infer-short-1,1,1,10,1
expect 2 reproduce deepboot --data data; has err "w.csv:2: the job a asks for 65 GPUs"
deepboot a,0,short,1,64,-1,-1 r,5,infer-short-1,1,1,100000000,1
expect 2 reproduce deepboot --data data; has err "w.csv:3: r cannot end"
# An application that nobody has traced.
pollux a,0,short,1,64 b,0,gpt9,1,64
expect 2 reproduce pollux --data data; has err "w.csv:3: the application gpt9 has no traces"
# A column that is missing is named, and so is the file of an application that was not validated.
printf 'name,time,num_replicas,batch_size\na,0,1,64\n' > $POLLUX
expect 2 reproduce pollux --data data; has err "w.csv:1"; has err "application"
pollux a,0,short,1,64
mkdir data/pollux/traces/half; cp data/pollux/traces/short/placements.csv data/pollux/traces/half
expect 2 reproduce pollux --data data; has err "data/pollux/traces/half: needs timed steps and validations"
rm -r data/pollux/traces/half
# Figures are published for the 160 jobs of a workload, not for any file of its name.
cp $POLLUX data/pollux/workloads/workload-1.csv
expect 0 reproduce pollux --data data; has out "workload-1"
grep -q "2089" out && fail "another workload is compared with a published figure"
rm data/pollux/workloads/workload-1.csv
# An empty file stops none of the others.
: > data/pollux/workloads/empty.csv
expect 0 reproduce pollux --data data --quick; has out "tiresias"; has err "empty.csv: is empty"
rm data/pollux/workloads/empty.csv

# Nothing to compare, or nothing to be compared with.
deepboot r,5,infer-short-1,1,1,10,1
expect 2 reproduce deepboot --data data; has err "w.csv: has no training job, only requests"; empty out
deepboot a,0,short,1,64,-1,-1
expect 2 reproduce deepboot --data data --quick; has err "w.csv: has no inference request"; empty out
mkdir -p data/parvagpu data/miso
printf 'model,mig_gpcs,batch_size,mps_procs,throughput_req_s,latency_s,feasible\nnet,7,1,1,100,0.01,1\n' > data/parvagpu/profiles.csv
printf 'mig_profile,model,batch_size,iter_s_mean,iter_s_p5,iter_s_p95\n4g.20gb,m,8,0.2,0.2,0.2\n' > data/miso/train_iteration_time.csv
printf '7g.40gb,m,8,0.1,0.1,0.1\n' >> data/miso/train_iteration_time.csv
for text in '' 'scenario,model,slo_latency_ms,request_rate_per_s\n'; do
  printf "$text" > data/parvagpu/scenarios.csv
  expect 2 reproduce slices --data data; has err "scenarios.csv: "; empty out
done
printf 'scenario,model,slo_latency_ms,request_rate_per_s\nA,net,100,10\n' > data/parvagpu/scenarios.csv
expect 0 reproduce slices --data data --quick --output json; has out '"gpus": 1,'
printf 'scenario,model,slo_latency_ms,request_rate_per_s\nA,net,1,10\n' > data/parvagpu/scenarios.csv
expect 1 reproduce slices --data data; has err "A: no plan"; empty out
printf 'A,net,30,10\n' >> data/parvagpu/scenarios.csv
expect 2 reproduce slices --data data; has err "scenarios.csv:3:3: A already has the model net"
sed -i '3d' data/parvagpu/scenarios.csv
sed -i '/7g/d' data/miso/train_iteration_time.csv
expect 2 reproduce slices --data data; has err "train_iteration_time.csv: no model was timed on a whole GPU"; empty out
finish
