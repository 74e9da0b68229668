# Real inference: models made, measured on slices of this machine, served by worker processes, loaded over HTTP and gRPC.
. "$(dirname "$0")/lib.sh" || exit 1

expect 0 models; has out text-encoder-large
expect 2 models make; has err "make DIR"
if [[ ! -f $(dirname "$TANGRAM")/../lib/tangram/libtangram_torch.so ]]; then
  expect 3 models make m --format torchscript; has err "built without libtorch"
  finish
  exit
fi

# A folder that cannot be made is said in one line, without the library's own calls.
expect 3 models make /proc/nothing; has err "cannot write /proc/nothing"
[[ $(wc -l <err) -le 1 ]] || fail "more than one line: $(cat err)"

# The same seed, the same bytes.
expect 0 models make m
expect 0 models make again --only image-classifier
cmp -s m/image-classifier.pt again/image-classifier.pt || fail "the same seed gave other bytes"
expect 0 validate m/services.yaml

# A model that is not there, or is none of ours; a GPU; options of other engines.
measure=(measure --device cpu --engine torch --models m --precision 0.5 --max-repeats 2 --warm-up 1)
expect 3 "${measure[@]}" --model text-encoder-large -o x.csv; has err "tangram models make"
expect 2 "${measure[@]}" --model other -o x.csv; has err "--services FILE"
expect 2 "${measure[@]}" --model text-encoder --noise -o x.csv
expect 2 measure --device a100-80gb --engine torch --models m --model text-encoder -o x.csv; has err "--profiles 2g.20gb"
expect 2 measure --device cpu --engine torch --model text-encoder -o x.csv; has err "--models DIR"

# A model that returns a dict, made of one that returns a tensor: the message says what to do, to its end.
mkdir dict
python3 - m/image-classifier.pt dict/image-classifier.pt <<'P' || fail "no model that returns a dict"
import sys, zipfile
source, target = sys.argv[1:]
with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
    for name in old.namelist():
        data = old.read(name)
        if name.endswith("__torch__.py"):
            head, answer = data.decode().rsplit("return ", 1)
            at = head.rindex("-> Tensor:")
            head = head[:at] + "-> Dict[str, Tensor]:" + head[at + len("-> Tensor:"):]
            data = (head + 'return {"logits": ' + answer.strip() + "}\n").encode()
        new.writestr(name, data)
P
expect 2 measure --device cpu --engine torch --models dict --precision 0.5 --max-repeats 2 --warm-up 1 --model image-classifier --services m/services.yaml --profiles 1c --batches 1 --sizes 1 --sampler grid -o x.csv
has err "image-classifier: the model returns a dict"; has err 'return out["logits"] or a tuple (docs/how-to/hugging-face.md)'

# Out of memory is a row without latency; the library alone fits, 64 texts of 256 tokens do not.
expect 0 "${measure[@]}" --model text-encoder --services m/services.yaml --profiles 1c --batches 1,64 --sizes 8,256 \
  --sampler grid --memory-limit 260 -o little.csv
grep -q '^cpu,1c,text-encoder,1,8,1,[0-9]' little.csv || fail "one short text did not run: $(cat little.csv)"
grep -q '^cpu,1c,text-encoder,64,256,1,,' little.csv || fail "64 long texts did not run out of memory: $(cat little.csv)"

expect 0 "${measure[@]}" --model text-encoder --services m/services.yaml --profiles 1c --batches 1,4 --sizes 16,128 \
  --sampler grid -o all.csv
expect 0 "${measure[@]}" --model image-classifier --services m/services.yaml --profiles 1c --batches 1,4 --sizes 1 \
  --sampler grid -o all.csv
[[ $(wc -l <all.csv) == 7 ]] || fail "expected six rows: $(cat all.csv)"
# Each row has the weights (3.5 million parameters are 13 MiB, 54 thousand 0.2 MiB) and the time to load them.
grep -qE '^cpu,1c,text-encoder,.*,1[0-9.]+,[0-9.]+$' all.csv && grep -qE '^cpu,1c,image-classifier,.*,0\.2[0-9]*,[0-9.]+$' all.csv ||
  fail "no weights or no time to load: $(cat all.csv)"

# Served from one core, where the two models take turns; promises are long, because tests run beside each other.
cat >plan.json <<'P'
{"version": 1, "devices": [{"name": "host-0", "type": "cpu", "cores": 1, "memory_gib": 2, "quota": false, "layout": "1c@0", "slices": [
  {"profile": "1c", "start": 0, "replicas": [
    {"service": "embed-texts", "processes": 1, "buckets": [{"size_max": 32, "batch_size": 4}, {"size_max": 128, "batch_size": 4}]},
    {"service": "classify-images", "processes": 1, "buckets": [{"size_max": 1, "batch_size": 4}]}]}]}]}
P
sed 's/latency_ms: [0-9]*/latency_ms: 20000/' m/services.yaml >services.yaml
"$TANGRAM" serve plan.json --services services.yaml --measurements all.csv --engine torch --models m --http-port 0 --grpc-port 0 \
  --metrics-port 0 2>serve.err &
server=$!
for _ in $(seq 600); do grep -q '"event":"ready"' serve.err && break; sleep 0.1; done
grep -q '"event":"ready"' serve.err || fail "not ready: $(cat serve.err)"
http=$(sed -n 's/.*"event":"serving".*"http":"http:..127.0.0.1:\([0-9]*\)".*/\1/p' serve.err)
grpc=$(sed -n 's/.*"grpc":"127.0.0.1:\([0-9]*\)".*/\1/p' serve.err)
protocol=(--protocol http)
[[ -n $grpc ]] && protocol=(--protocol both --grpc-port "$grpc")
expect 0 load --services services.yaml --http-port "$http" "${protocol[@]}" --seconds 2 --html page.html --output json
python3 - out <<'P' || fail "the load went wrong: $(cat out)"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["total"]["sent"] > 10, report
for service in report["services"]:
    assert service["in_time"] == service["sent"] and service["kept"], service
P
has page.html "classify-images"
expect 0 load --model embed-texts --http-port "$http" --rate 20 --seconds 1 --size log-normal:8,0.5,64 --slo-ms 20000
expect 0 load --model embed-texts --http-port "$http" --size 16 --slo-ms 20000 --clients 3 --requests 60 --output json
has out '"sent": 60,'
expect 2 load --model embed-texts --http-port "$http" --clients 3 --protocol grpc
expect 3 load --model nobody --http-port "$http"; has err "does not have this model"
expect 2 load --http-port "$http"; has err "--services FILE"

# The same text alone and beside longer ones: the mask keeps them apart, and rounding is all that differs.
python3 - "$http" <<'P' || fail "answers depend on who shares the batch"
import json, sys, threading, urllib.request
url = f"http://127.0.0.1:{sys.argv[1]}/v2/models/embed-texts/infer"
def ask(text):
    body = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, len(text)], "data": text}]}
    return json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())))["outputs"][0]["data"]
text = [5, 8, 13, 21, 34]
alone, answers = ask(text), []
threads = [threading.Thread(target=lambda n=n: answers.append(ask(text if n % 2 else [n + 1] * (n + 6)))) for n in range(16)]
[t.start() for t in threads]; [t.join() for t in threads]
near = [a for a in answers if max(abs(x - y) for x, y in zip(a, alone)) < 1e-5]
assert len(near) == 8, len(near)
P

# Words that the vocabulary does not have fail who sent them, with the reason, and nobody who shared their batch.
python3 - "$http" <<'P' || fail "a bad request failed others: $(tail -3 serve.err)"
import json, sys, threading, urllib.error, urllib.request
url = f"http://127.0.0.1:{sys.argv[1]}/v2/models/embed-texts/infer"
answers = {}
def ask(n):
    text = [999999 if n % 8 == 3 else 7] * 12
    body = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, len(text)], "data": text}]}
    try:
        answers[n] = (urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())).status, "")
    except urllib.error.HTTPError as e:
        answers[n] = (e.code, e.read().decode())
threads = [threading.Thread(target=ask, args=(n,)) for n in range(32)]
[t.start() for t in threads]; [t.join() for t in threads]
for n, (status, text) in answers.items():
    assert (status, "index out of range" in text) == ((500, True) if n % 8 == 3 else (200, False)), (n, status, text)
P
has serve.err '"event":"batch_failed"'
kill "$server"
wait "$server" || fail "the server did not end well"
finish
