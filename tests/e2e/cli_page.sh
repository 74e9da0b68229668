#!/usr/bin/env bash
# The page in a real browser: live, with a key, recorded and simulated.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

HERE=$SOURCE/tests/e2e

# Without a browser: files, events and their errors.
expect 0 simulate "$SOURCE/examples/scenario-day.yaml" --page day.html --record day.recording --quiet
expect 0 replay day.recording --page again.html
has day.html 'id="history"'
has day.html "default-src 'none'"
[[ $(gzip -c day.html | wc -c) -lt 3000000 ]] || fail "day.html is too large"
expect 2 simulate "$SOURCE/examples/scenario-day.yaml" --page day.html --compare elsa,fifs
has err 'one policy'
# What was recorded is what was simulated: the same fleets, frames and marks. Only a device's type and width are guessed
# from the names of its profiles.
python3 - day.html again.html <<'P' || fail "the recording shows another day than the simulation"
import json, re, sys
def history(path):
    text = open(path).read()
    return json.loads(re.search(r'id="history">(.*?)</script>', text, re.S).group(1))
one, two = history(sys.argv[1]), history(sys.argv[2])
same = one["marks"] == two["marks"] and [f["at_s"] for f in one["frames"]] == [f["at_s"] for f in two["frames"]]
same = same and [f["services"] for f in one["frames"]] == [f["services"] for f in two["frames"]]
assert len(one["frames"]) > 200, len(one["frames"])
sys.exit(not same)
P

serve() {
  local name=$1
  shift
  "$TANGRAM" serve "$SOURCE/examples/serving/plan.json" --services "$SOURCE/examples/serving/services.yaml" \
    --measurements "$SOURCE/examples/measurements.csv" --http-port 0 --metrics-port 0 --no-grpc "$@" 2>"$name.log" &
  SERVER=$!
  for ((i = 0; i < 100; ++i)); do grep -q '"ready"' "$name.log" && break; sleep 0.1; done
  ADMIN=$(sed -n 's/.*"metrics":"\(http[^"]*\)metrics".*/\1/p' "$name.log" | head -1)
  HTTP=$(sed -n 's/.*"http":"http:\/\/[^:]*:\([0-9]*\)".*/\1/p' "$name.log" | head -1)
  [[ -n $ADMIN ]] || { fail "no server: $(cat "$name.log")"; finish; }
}
give_up_after 120 cat page.log

serve page --workers --history-mib 2
answers "$SOURCE/examples/serving/services.yaml" --http-port "$HTTP" --duration 3 --rate-scale 0.2
curl -s -D head -o body "$ADMIN" || fail "the page is not there"
grep -qi '^content-security-policy: default-src .none.' head || fail "the page has no policy: $(cat head)"
[[ $(gzip -c body | wc -c) -lt 300000 ]] || fail "the page is too large: $(gzip -c body | wc -c) bytes compressed"
curl -s "${ADMIN}events" >events || fail "no events"
has events 'event: fleet'
has events '"since":null'
[[ $(curl -s -o out -w '%{http_code}' "${ADMIN}events/x") == 400 ]] || fail "a wrong frame number is accepted"
[[ $(curl -s -o out -w '%{http_code}' "${ADMIN}requests/none") == 404 ]] || fail "an unknown request has a story"
[[ $(curl -s -o out -w '%{http_code}' -X POST "${ADMIN}events") == 405 ]] || fail "events can be posted"
[[ $(curl -s -o out -w '%{http_code}' -X POST -d '{"service":"x","rate_factor":0}' "${ADMIN}what-if") == 400 ]] || fail "a rate of zero is accepted: $(cat out)"

if command -v node >/dev/null && BROWSER=$(command -v chromium || command -v google-chrome); then
  node "$HERE/page.mjs" "$BROWSER" live "$ADMIN" >live.out 2>&1 || fail "the live page: $(tail -3 live.out)"
  grep figure live.out
  node "$HERE/page.mjs" "$BROWSER" file "$WORK/day.html" "was lost" "promised" >file.out 2>&1 || fail "the page of a file: $(tail -3 file.out)"
else
  echo "NOT TRIED: the page in a browser: node and chromium are not here"
  BROWSER=
fi
kill "$SERVER"; wait "$SERVER" || fail "the server ended with an error"

expect 0 key make --tenant eye --role viewer
cp out key
sed -n '/^tenants/,$p' err >access.yaml
serve key --access access.yaml
[[ $(curl -s -o out -w '%{http_code}' "${ADMIN}events") == 401 ]] || fail "a stranger reads the events"
[[ $(curl -s -o out -w '%{http_code}' "$ADMIN") == 200 ]] || fail "a stranger cannot load the page that asks for the key"
[[ $(curl -s -o out -w '%{http_code}' -H "Authorization: Bearer $(cat key)" "${ADMIN}events") == 200 ]] || fail "a viewer cannot read the events: $(cat out)"
[[ $(curl -s -o out -w '%{http_code}' -H "Authorization: Bearer $(cat key)" "${ADMIN}what-if") == 403 ]] || fail "a viewer can ask what-if"
if [[ -n $BROWSER ]]; then
  node "$HERE/page.mjs" "$BROWSER" key "$ADMIN" "$(cat key)" >key.page 2>&1 || fail "the page with a key: $(tail -3 key.page)"
fi
kill "$SERVER"; wait "$SERVER" || fail "the server ended with an error"
finish
