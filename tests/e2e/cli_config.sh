#!/usr/bin/env bash
# What commands would repeat: tangram.yaml and the environment. And what a new user types wrong.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset TANGRAM_ADDRESS TANGRAM_HTTP_PORT TANGRAM_METRICS_PORT TANGRAM_CONFIG

expect 0 config; has out "127.0.0.1"; has out "default"
mkdir -p project/deep/er
cat >project/tangram.yaml <<'Y'
address: gateway.example
metrics_port: 26099
token_file: keys/mine
Y
cd project/deep/er || exit 1
expect 0 config --output json
python3 - <<'P' || fail "tangram.yaml was not found upwards: $(cat out)"
import json
told = json.load(open("out"))
found = {each["name"]: each for each in told["settings"]}
assert told["file"].endswith("/project/tangram.yaml"), told
assert found["address"]["value"] == "gateway.example" and found["address"]["from"].endswith("tangram.yaml:1"), found
assert found["metrics_port"]["value"] == "26099" and found["token_file"]["value"].endswith("/project/keys/mine"), found
assert found["http_port"]["from"] == "default", found
P
# An option goes before the environment, and that before the file. A key of the file is not sent to another server.
export TANGRAM_ADDRESS=127.0.0.1
expect 0 config; has out "TANGRAM_ADDRESS"
expect 3 status --address 127.0.0.1 --port 26098; has err "26098"
mkdir -p ../../keys; echo "no-key" >../../keys/mine
expect 3 status; has err "127.0.0.1 port 26099"
TANGRAM_METRICS_PORT=26097 expect 3 status; has err "port 26097"
TANGRAM_METRICS_PORT=many expect 2 status; has err "TANGRAM_METRICS_PORT: expected a whole number"
TANGRAM_CONFIG='' expect 3 status; has err "port 8002"
unset TANGRAM_ADDRESS
# What is wrong is said with its place; help works all the same.
echo 'adress: x' >tangram.yaml
expect 2 status; has err "tangram.yaml:1:1: key is unknown: \"adress\", did you mean address?"
expect 0 status --help
cd "$WORK" || exit 1

# Mistakes are named before what they cause.
expect 2 plan --mesurements x; has err "unknown option --mesurements; did you mean --measurements?"
expect 2 plan "$SOURCE/examples/services.yaml" "$SOURCE/examples/fleet.yaml" --measurements "$SOURCE/examples/measurements.csv"
has err "this is a services file, and a fleet file was expected here; were FLEET and SERVICES swapped?"
expect 2 geometry h100; has err "did you mean h100-80gb?"

# An index of reports, which overwrites nobody's page.
mkdir pages other
expect 0 simulate "$SOURCE/examples/scenario.yaml" --html pages/run.html
expect 0 plan "$SOURCE/examples/fleet.yaml" "$SOURCE/examples/services.yaml" --measurements "$SOURCE/examples/measurements.csv" \
  --html "pages/the plan.html"
echo '<title>mine</title>' >pages/mine.html
expect 0 report pages; has out "run.html"; has out "Plan"
has pages/index.html './run.html'; has pages/index.html './the%20plan.html'
grep -q mine.html pages/index.html && fail "a page of others is in the index"
expect 0 report pages
expect 3 report other; has err "no page that Tangram wrote"
echo '<title>mine</title>' >other/index.html; cp pages/run.html other
expect 3 report other; has err "not overwritten"

# Answers are not replaced without being asked.
echo '{"tokens": 1}' >rows.jsonl; echo kept >answers.jsonl
expect 2 batch submit --model m --input rows.jsonl --output answers.jsonl; has err "--overwrite"
[[ $(cat answers.jsonl) == kept ]] || fail "answers were replaced"
finish
