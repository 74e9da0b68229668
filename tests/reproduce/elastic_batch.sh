# ElasticBatch (TPDS 2024): half of the GPUs that the better of two uses of whole GPUs needs, and the highest rates on the
# same GPUs against an ideal first-in, first-out queue.
source "$SOURCE/tests/e2e/lib.sh"
needs_data migprofiler/profiles.csv

expect 0 reproduce elastic-batch --data "$DATA" --output json
python3 - <<'P' || fail "the figures of elastic batches do not hold"
import collections, json
settings = collections.defaultdict(dict)
for r in json.load(open("out")): settings[r["slo_ms"], r["rate_per_s"], r["lengths"]][r["variant"]] = r
log_normal = {s: of for s, of in settings.items() if s[2] in ("log_normal", "log-normal")}
assert len(log_normal) == 12, sorted({s[2] for s in settings})
for setting, of in settings.items():
    gpus = {name: r["gpus"] for name, r in of.items() if not name.startswith("rate_")}
    assert all(gpus["elastic"] <= count for count in gpus.values() if count), (setting, gpus)
    if setting in log_normal: assert gpus["elastic"] <= 0.5 * min(gpus["off_longest"], gpus["off_fixed"]), (setting, gpus)
    # At 100 ms the reference finds 4 to 5 GPUs for five models, and three of them are public.
    if setting in log_normal and setting[0] == 100: assert gpus["elastic"] <= 5, (setting, gpus)
    rate = {name: r["rate_highest_per_s"] for name, r in of.items() if name.startswith("rate_")}
    if not rate: continue
    # The published gain over an ideal scheduler is 1.4 to 6.5 %.
    assert rate["rate_elastic"] >= 1.065 * rate["rate_oracle_longest"], (setting, rate)
    assert rate["rate_elastic"] >= 1.065 * rate["rate_fifo_fixed"], (setting, rate)
    assert rate["rate_elastic"] >= 0.99 * rate["rate_fifo_chosen"], (setting, rate)
P
finish
