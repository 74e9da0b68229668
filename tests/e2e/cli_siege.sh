# A gateway under a few seconds of random abuse over HTTP: it lives, and its memory stays within its budget. Who is served
# in time meanwhile is judged by bench/macro/siege alone, because it depends on what else the machine does.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }

siege=(python3 "$SOURCE/bench/macro/siege" --program "$TANGRAM" --no-grpc --judge memory --output json)
for seed in 1 2; do
  "${siege[@]}" --only random_abuse --seconds 5 --seed "$seed" --key with >rows 2>err || fail "seed $seed: $(cat rows err)"
  python3 - rows <<'P' || fail "seed $seed: $(cat rows)"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
sys.exit(not (len(rows) == 1 and rows[0]["passed"] and rows[0]["in_time"] > 0))
P
done
"${siege[@]}" --list >out; has out "gzip_bodies"
finish
