# ParvaGPU (SC'24): its greedy takes the published numbers of GPUs; exact planning never takes more.
source "$SOURCE/tests/e2e/lib.sh"
needs_data parvagpu/profiles.csv parvagpu/scenarios.csv

expect 0 reproduce parvagpu --data "$DATA" --output json
python3 - <<'P' || fail "the plans do not hold"
import json
rows = {r["scenario"]: r for r in json.load(open("out"))}
published = {"SLO1": 2, "SLO2": 3, "SLO3": 5, "SLO4": 7}
assert {name: rows[name]["parva"] for name in published} == published, rows
for name, r in rows.items():
    assert {"scenario", "parva", "elastic", "bound", "proved", "certified"} <= set(r)
    assert r["bound"] <= r["elastic"] <= r["parva"], r
    assert r["no_waiting_bound"] <= r["certified_bound"] <= r["certified"], r
    assert r["proved"] or name not in published, r
P
finish
