# What the packages bring beside the program: units, alerts, dashboard, manual pages. Whatever needs a program that is not
# installed is left out with a message.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1
give_up_after 120 tail -n 5 log
packaging=$SOURCE/packaging
left_out() { echo "left out: $1"; }

# ---- Units ----
if command -v systemd-analyze >/dev/null; then
  score=$(systemd-analyze security --offline=true "$packaging/systemd/tangram-gateway.service" 2>&1 | sed -n 's/.*exposure level.*: \([0-9.]*\) .*/\1/p')
  awk -v s="${score:-10}" 'BEGIN { exit !(s <= 2.5) }' || fail "tangram-gateway.service is exposed: ${score:-no score}, 2.5 wanted"
  echo "tangram-gateway.service: exposure $score"
  # Each drop-in is a unit that systemd understands, too.
  for part in local-cores local-gpus cut-gpus; do
    mkdir -p "units/$part.d"
    sed "s|^ExecStart=/usr/bin/tangram|ExecStart=$TANGRAM|; /^User=/d; /^Group=/d" "$packaging/systemd/tangram-gateway.service" >"units/gateway-$part.service"
    mkdir -p "units/gateway-$part.service.d"
    sed "s|^ExecStart=/usr/bin/tangram|ExecStart=$TANGRAM|" "$packaging/systemd/$part.conf" >"units/gateway-$part.service.d/local.conf"
    SYSTEMD_UNIT_PATH="$PWD/units:" systemd-analyze verify --man=no "units/gateway-$part.service" >verify 2>&1
    grep -E "gateway-$part|local.conf" verify | grep -v "EnvironmentFile" && fail "systemd does not understand $part.conf"
  done
else
  left_out "the units' exposure: systemd-analyze is not installed"
fi

# ---- Alerts and dashboard, against the metrics of a server ----
cp -r "$SOURCE/examples" .
"$TANGRAM" serve --follow examples/fleet.yaml --services examples/services.yaml --measurements examples/measurements.csv \
  --cuts emulated --http-port 0 --grpc-port 0 --metrics-port 0 2>log &
server=$!
until grep -q '"event":"ready"' log; do sleep 0.05; kill -0 "$server" 2>/dev/null || { fail "no server: $(tail -n 3 log)"; finish; }; done
curl -s "$(sed -n 's/.*"metrics":"\([^"]*\)".*/\1/p' log)" >metrics
kill -TERM "$server"
wait "$server"
has metrics 'tangram_slo_promised_ratio{service="tag-uploads"} 0.95'
python3 - metrics "$packaging" <<'P' || fail "alerts or dashboard name what no server has"
import json, re, sys
text = open(sys.argv[1]).read()
# What a server without prices and restarts does not print, or a histogram splits.
known = set(re.findall(r"^# TYPE (\w+)", text, re.M)) | {"tangram_follow_cost_per_hour"}
labels = {}
for name, some in re.findall(r"^(\w+)\{(.*)\} ", text, re.M):
    labels.setdefault(name, set()).update(re.findall(r"(\w+)=", some))
board = json.load(open(sys.argv[2] + "/grafana/tangram.json"))
places = {f"panel {p['title']}": t["expr"] for p in board["panels"] for t in p.get("targets", [])}
places.update({"alert " + str(n): line for n, line in enumerate(open(sys.argv[2] + "/prometheus/tangram-alerts.yaml"), 1)
               if not line.lstrip().startswith(("#", "- record", "description", "summary"))})
wrong = 0
for place, expr in places.items():
    for name, some in re.findall(r"(?<![:\w])(tangram_\w+)(?:\{([^}]*)\})?", expr):
        base = re.sub(r"_bucket$", "", name)
        if base not in known: print(f"{place}: there is no {name}"); wrong += 1
        for label in re.findall(r"(\w+)(?==~|!=|=\")", some or ""):
            if label not in labels.get(name, set()) | {"instance"}: print(f"{place}: {name} has no label {label}"); wrong += 1
ids = [p["id"] for p in board["panels"]]
if len(ids) != len(set(ids)): print("two panels have one id"); wrong += 1
sys.exit(wrong > 0)
P
if command -v promtool >/dev/null; then
  promtool check metrics <metrics >out 2>&1 || grep -v "^$" out | head -5
  promtool check rules "$packaging/prometheus/tangram-alerts.yaml" >out 2>&1 || fail "$(cat out)"
  (cd "$packaging/prometheus" && promtool test rules tangram-alerts-test.yaml) >out 2>&1 || fail "$(cat out)"
else
  left_out "the alerts' own tests: promtool (package prometheus) is not installed"
fi

# ---- Manual pages ----
for page in "" serve plan; do
  # shellcheck disable=SC2086
  expect 0 reference man $page
  if command -v groff >/dev/null; then
    groff -man -Tutf8 -ww out >text 2>warnings || fail "groff does not understand the page ${page:-tangram}"
    empty warnings
  fi
done
expect 2 reference man plann; has err "did you mean plan?"
expect 2 reference cli plan; has err "only the page man"
finish
