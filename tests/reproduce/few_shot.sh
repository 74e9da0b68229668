# Few measurements: the targets for models that are left out, at 15 measurements and at 5, also with their whole family.
source "$SOURCE/tests/e2e/lib.sh"
needs_data parvagpu/profiles.csv migprofiler/profiles.csv

expect 0 reproduce few-shot --data "$DATA" --output json
python3 - <<'P' || fail "the figures of few-shot learning do not hold"
import json, statistics
rows = [r for r in json.load(open("out")) if r["sampler"] == "active"]
# The active sampler draws no random numbers: one row for each model and budget.
def values(budget, key, family): return {(r["dataset"], r["model"]): (r["family_left_out"] if family else r)[key] for r in rows if r["budget"] == budget}
def median(*of): return statistics.median(values(*of).values())
def mean(*of): return statistics.mean(values(*of).values())
def coverage(budget, family):
    held_out = values(budget, "held_out", family)
    return sum(share * held_out[model] for model, share in values(budget, "coverage95", family).items()) / sum(held_out.values())
# The figures of docs/results/few-shot.md in percent: median error, p90 error, regret, coverage.
published = {
    (15, False): (2.5, 6.5, 1.4, 94.9), (15, True): (2.7, 7.3, 1.4, 94.4),
    (5, False): (3.0, 10.3, 3.4, 98.9), (5, True): (3.9, 13.6, 4.0, 98.8),
}
for (budget, family), (error, p90, regret, covered) in published.items():
    models = values(budget, "median_error", family)
    assert len(models) == 15, (budget, family, sorted(models))
    got = [100 * x for x in (median(budget, "median_error", family), median(budget, "p90_error", family),
                             mean(budget, "throughput_regret", family), coverage(budget, family))]
    assert abs(got[0] - error) <= 0.5 and abs(got[1] - p90) <= 1 and abs(got[2] - regret) <= 0.5 and abs(got[3] - covered) <= 1, (budget, family, got)
# The targets at 15, also with the family unknown.
for family in (False, True):
    assert median(15, "median_error", family) <= 0.05 and median(15, "p90_error", family) <= 0.15, family
    assert mean(15, "throughput_regret", family) <= 0.02, mean(15, "throughput_regret", family)
    assert 0.93 <= coverage(15, family) <= 0.97, coverage(15, family)
# Leaving relatives out changes something for the models that have some, and nothing for the two that have none.
alone = [r for r in rows if r["model"] in ("inceptionv3", "mobilenetv2") and r["family_left_out"]]
assert len({r["model"] for r in alone}) == 2 and all(r["family_left_out"]["median_error"] == r["median_error"] for r in alone), alone
bert = [r for r in rows if r["dataset"] == "parvagpu" and r["model"] == "bert" and r["budget"] == 15]
assert all(r["family_left_out"]["median_error"] != r["median_error"] for r in bert) and bert, bert
P
finish
