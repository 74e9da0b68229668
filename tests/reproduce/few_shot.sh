# Few measurements: the targets for models that are left out, at 15 measurements and at 5.
source "$SOURCE/tests/e2e/lib.sh"
needs_data parvagpu/profiles.csv migprofiler/profiles.csv

expect 0 reproduce few-shot --data "$DATA" --output json
python3 - <<'P' || fail "the figures of few-shot learning do not hold"
import collections, json, statistics
rows = [r for r in json.load(open("out")) if r["sampler"] == "active"]
def median(budget, key):
    models = collections.defaultdict(list)
    for r in rows:
        if r["budget"] == budget: models[r["dataset"], r["model"]].append(r[key])
    assert len(models) >= 15, len(models)
    return statistics.median(statistics.mean(values) for values in models.values())
def mean(budget, key):
    values = [r[key] for r in rows if r["budget"] == budget]
    return sum(values) / len(values)
assert median(15, "median_error") <= 0.05, median(15, "median_error")
assert median(15, "p90_error") <= 0.15, median(15, "p90_error")
assert mean(15, "throughput_regret") <= 0.02, mean(15, "throughput_regret")
assert 0.93 <= mean(15, "coverage95") <= 0.97, mean(15, "coverage95")
assert median(5, "median_error") <= 0.10, median(5, "median_error")
P
finish
