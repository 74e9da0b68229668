#!/usr/bin/env bash
# `tangram reproduce elastic-batch` on a folder made here: one text model on slices of one, three and seven.
. "$(dirname "$0")/lib.sh" || exit 1
mkdir -p data/migprofiler
# A run takes 4 ms, or what its tokens take on the slice where that is more: 20,000 tokens a second on each compute slice.
awk 'BEGIN {
  print "gpu,mig_profile,model,total_params,task,sweep,batch_size,seq_length,latency_ms,latency_std_ms,throughput_samples_s,gract_mean,fb_used_mib_mean"
  split("1g.5gb 3g.20gb 7g.40gb", profiles, " ")
  for (p = 1; p <= 3; ++p) for (b = 1; b <= 64; b *= 2) for (s = 32; s <= 512; s *= 4) {
    ms = b * s / 20 / (profiles[p] + 0)
    if (ms < 4) ms = 4
    printf "A100-40GB,%s,small-text,1000000,infer,bsz,%d,%d,%.3f,0.01,%.2f,0.5,%d\n", profiles[p], b, s, ms, 1000 * b / ms, 600 + b
  }
}' >data/migprofiler/profiles.csv

expect 0 reproduce elastic-batch --data data --quick --output json
has err "only the log-normal lengths are used"
python3 - <<'P' || fail "the figures do not hold"
import json
rows = json.load(open("out"))
keys = {"slo_ms", "rate_per_s", "lengths", "variant", "gpus", "slo_attainment", "utilisation_busy", "utilisation_useful"}
assert all(keys <= set(r) for r in rows), rows[0]
settings = {(r["slo_ms"], r["rate_per_s"], r["lengths"]) for r in rows}
names = {"off_longest", "off_fixed", "off_fixed_sharing", "off_chosen", "off_shared", "mig_longest", "elastic", "elastic_shared"}
rates = {"rate_elastic", "rate_oracle_longest", "rate_fifo_fixed", "rate_fifo_chosen", "rate_bound"}
for s in settings:
    of = {r["variant"]: r for r in rows if (r["slo_ms"], r["rate_per_s"], r["lengths"]) == s}
    assert set(of) - {"rate_one_fewer"} == names | rates, sorted(of)  # Only where the plan is above its bound.
    assert all(of["elastic_shared"]["gpus"] <= r["gpus"] for r in of.values() if r["gpus"]), of
    assert all(of["elastic"]["gpus"] <= r["gpus"] for r in of.values() if r["gpus"] and r["variant"] != "elastic_shared"), of
    assert of["elastic"]["slo_attainment"] >= 0.985, of["elastic"]
    # Whoever may do all that the others may is not slower by more than the step of the search.
    assert of["rate_elastic"]["rate_highest_per_s"] >= 0.98 * of["rate_oracle_longest"]["rate_highest_per_s"], of
    assert of["rate_elastic"]["rate_highest_per_s"] >= 0.98 * of["rate_fifo_fixed"]["rate_highest_per_s"], of
    assert all(of[name]["gpus"] == of["elastic"]["gpus"] for name in rates), of
    assert 0 <= of["elastic"]["utilisation_useful"] <= of["elastic"]["utilisation_busy"] <= 1.001, of["elastic"]
P
expect 3 reproduce elastic-batch --data nowhere
has err "--data names the folder"
finish
