"""Exchanges with a server, byte for byte as clients send them. Arguments: its HTTP port, its metrics port, [load]."""

import email.utils
import json
import socket
import struct
import sys
import threading
import time

HTTP, METRICS = int(sys.argv[1]), int(sys.argv[2])


def connect(port=HTTP):
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read_answer(stream):
    """Status, headers in lower case, body of the next answer of a connection."""
    line = stream.readline()
    assert line.startswith(b"HTTP/1.1 "), line
    status = int(line.split()[1])
    headers = {}
    while (line := stream.readline()) != b"\r\n":
        name, value = line.decode().split(":", 1)
        headers[name.lower()] = value.strip()
    if status == 100:
        return read_answer(stream)
    return status, headers, stream.read(int(headers["content-length"]))


def ask(method, path, body=b"", headers=(), port=HTTP):
    with connect(port) as c:
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        c.sendall((head + "".join(f"{n}: {v}\r\n" for n, v in headers) + "\r\n").encode() + body)
        return read_answer(c.makefile("rb"))


def ask_json(method, path, value=None, **more):
    status, _, body = ask(method, path, b"" if value is None else json.dumps(value).encode(), **more)
    return status, json.loads(body) if body else None


RANK = "/v2/models/rank-answers/infer"


def rank(ids, **more):
    return {"inputs": [{"name": "input_ids", "shape": [1, len(ids)], "datatype": "INT64", "data": ids}], **more}


def test_health_and_metadata():
    assert ask_json("GET", "/v2/health/live") == (200, {"live": True})
    assert ask_json("GET", "/v2/health/ready")[0] == 200
    status, server = ask_json("GET", "/v2")
    assert status == 200 and server["name"] == "tangram" and "binary_tensor_data" in server["extensions"]
    status, model = ask_json("GET", "/v2/models/rank-answers/versions/1")
    assert status == 200 and model["inputs"][0] == {"name": "input_ids", "datatype": "INT64", "shape": [-1, -1]}
    assert model["outputs"][1]["shape"] == [-1, -1, 2]
    assert ask_json("GET", "/v2/models/rank-answers/ready") == (200, {"name": "rank-answers", "ready": True})
    status, config = ask_json("GET", "/v2/models/rank-answers/config")
    assert config["max_batch_size"] == 8 and config["input"][0]["data_type"] == "TYPE_INT64"
    for path in ("/v2/models/none", "/v2/models/rank-answers/versions/2", "/v3", "/v2/models/rank-answers/dance"):
        status, answer = ask_json("GET", path)
        assert status == 404 and "error" in answer, path
    status, headers, _ = ask("POST", "/v2/health/live")
    assert status == 405 and headers["allow"] == "GET, HEAD", headers
    assert ask("GET", RANK)[1]["allow"] == "POST"
    date = email.utils.parsedate_to_datetime(ask("GET", "/v2")[1]["date"])
    assert abs(date.timestamp() - time.time()) < 60, date
    with connect() as c:  # HEAD: the length of the body, and no body.
        c.sendall(b"HEAD /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = c.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 200") and b"Content-Length: 13" in answer and answer.endswith(b"\r\n\r\n")


def test_json_infer():
    status, answer = ask_json("POST", RANK, rank([5, 6, 7], id="one"))
    assert status == 200, answer
    assert answer["id"] == "one" and answer["model_name"] == "rank-answers" and answer["model_version"] == "1"
    embedding, tokens = answer["outputs"]
    assert embedding["shape"] == [1, 8] and len(embedding["data"]) == 8
    assert tokens["shape"] == [1, 3, 2] and len(tokens["data"]) == 6
    # Only what was asked for, and an explicit mask changes nothing.
    masked = rank([5, 6, 7], outputs=[{"name": "embedding"}])
    masked["inputs"].append({"name": "attention_mask", "shape": [1, 3], "datatype": "INT64", "data": [[1, 1, 1]]})
    status, again = ask_json("POST", RANK, masked)
    assert status == 200 and [o["name"] for o in again["outputs"]] == ["embedding"]
    assert again["outputs"][0]["data"] == embedding["data"]
    for wrong in (b"{", b"", b"[]", json.dumps(rank([1], parameters={"sequence_id": 3})).encode(),
                  json.dumps({"inputs": []}).encode()):
        status, _, body = ask("POST", RANK, wrong)
        assert status == 400 and "error" in json.loads(body), (wrong, status, body)


def binary_request(ids):
    """As Triton's Python client writes it: header, then tensors."""
    header = json.dumps({
        "id": "b", "inputs": [{"name": "input_ids", "shape": [1, len(ids)], "datatype": "INT64",
                               "parameters": {"binary_data_size": 8 * len(ids)}}],
        "outputs": [{"name": "embedding", "parameters": {"binary_data": True}}, {"name": "tokens"}]},
        separators=(",", ":")).encode()
    return header, header + struct.pack(f"<{len(ids)}q", *ids)


def test_binary_infer():
    header, body = binary_request([5, 6, 7])
    status, headers, answer = ask("POST", RANK, body, [("Inference-Header-Content-Length", len(header)),
                                                       ("Content-Type", "application/octet-stream")])
    assert status == 200, answer
    length = int(headers["inference-header-content-length"])
    value = json.loads(answer[:length])
    assert headers["content-type"] == "application/octet-stream"
    assert value["outputs"][0]["parameters"]["binary_data_size"] == 32 == len(answer) - length
    numbers = struct.unpack("<8f", answer[length:])
    _, text = ask_json("POST", RANK, rank([5, 6, 7]))
    assert all(abs(a - b) < 1e-6 for a, b in zip(numbers, text["outputs"][0]["data"]))
    assert text["outputs"][1]["data"] == value["outputs"][1]["data"]
    # A raw request has no JSON at all.
    image = bytes(range(256)) * 12
    status, headers, answer = ask("POST", "/v2/models/classify-photos/infer", image, [("Inference-Header-Content-Length", 0)])
    assert status == 200 and len(answer) - int(headers["inference-header-content-length"]) == 40
    assert ask("POST", "/v2/models/classify-photos/infer", image[:-1], [("Inference-Header-Content-Length", 0)])[0] == 400


def test_answers_do_not_depend_on_company():
    """Many at once, each compared with the same request alone."""
    requests = [list(range(1, 2 + n)) for n in range(0, 120, 7)]
    alone = [ask_json("POST", RANK, rank(ids))[1]["outputs"] for ids in requests]
    together = [None] * len(requests)

    def send(i):
        together[i] = ask_json("POST", RANK, rank(requests[i], parameters={"tangram_deadline_ms": 20000}))[1]["outputs"]

    threads = [threading.Thread(target=send, args=(i,)) for i in range(len(requests))]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert together == alone


def test_pipelining_and_chunks():
    body = json.dumps(rank([1, 2, 3])).encode()
    post = f"POST {RANK} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    get = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect() as c:
        c.sendall(post + get + post + get)
        stream = c.makefile("rb")
        kinds = [b"outputs" in read_answer(stream)[2] for _ in range(4)]
        assert kinds == [True, False, True, False]
        # The same connection, byte by byte, in chunks, after a polite question.
        c.sendall(f"POST {RANK} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n".encode())
        assert stream.readline() == b"HTTP/1.1 100 Continue\r\n" and stream.readline() == b"\r\n"
        for i in range(0, len(body), 7):
            part = body[i:i + 7]
            for byte in b"%x\r\n%s\r\n" % (len(part), part):
                c.sendall(bytes([byte]))
        c.sendall(b"0\r\n\r\n")
        assert read_answer(stream)[0] == 200
        c.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        status, headers, _ = read_answer(stream)
        assert status == 200 and headers["connection"] == "close" and stream.read() == b""
    # A client that has said everything still gets its answer.
    with connect() as c:
        c.sendall(post)
        c.shutdown(socket.SHUT_WR)
        assert read_answer(c.makefile("rb"))[0] == 200


def test_old_clients():
    """HTTP/1.0: closed after the answer, unless the client asks to keep the connection and is told so."""
    with connect() as c:
        stream = c.makefile("rb")
        for _ in range(2):
            c.sendall(b"GET /v2/health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            status, headers, _ = read_answer(stream)
            assert status == 200 and headers["connection"] == "keep-alive"
        c.sendall(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
        assert read_answer(stream)[1]["connection"] == "close" and stream.read() == b""


def refused(value, headers=()):
    """What the server says of a request that makes no sense."""
    status, _, body = ask("POST", RANK, json.dumps(value).encode(), headers)
    assert status == 400, (status, body)
    return json.loads(body)["error"]


def test_parameters_of_another_type():
    for name, value, shown in (("timeout", "100", '"100"'), ("priority", True, "true"), ("tangram_deadline_ms", "5", '"5"'),
                               ("tangram_input_size", 1.5, "1.5"), ("tangram_background", "yes", '"yes"'),
                               ("binary_data_output", 1, "1"), ("priority", None, "null")):
        error = refused(rank([1], parameters={name: value}))
        assert f"parameter '{name}': expected " in error and error.endswith(f", got {shown}"), error
    for name in ("Tangram-Deadline-Ms", "Tangram-Input-Size", "Tangram-Background"):
        assert refused(rank([1]), [(name, "soon")]).startswith(f"header field {name}: expected "), name
    assert "several Tangram-Deadline-Ms" in refused(rank([1]), [("Tangram-Deadline-Ms", "100")] * 2)
    # Names that mean nothing here are the client's own business, and these are what Triton's clients send.
    for parameters in ({"mine": "a", "triton_x": [1]}, {"binary_data_output": True}, {"priority": 1, "timeout": 10 ** 7},
                       {"sequence_id": 0, "sequence_start": False, "sequence_end": False}):
        status, _, body = ask("POST", RANK, json.dumps(rank([1], parameters=parameters)).encode())
        assert status == 200, (parameters, body)


def test_ragged_lists():
    def two_rows(data):
        return {"inputs": [{"name": "input_ids", "shape": [2, 2], "datatype": "INT64", "data": data}]}
    for data in ([1, 2, 3, 4], [[1, 2], [3, 4]]):
        assert ask_json("POST", RANK, two_rows(data))[0] == 200, data
    for data in ([[1, 2, 3], [4]], [[1], [2, 3, 4]], [1, 2, [3, 4]], [[1, 2, 3, 4]], [[[1, 2]], [[3, 4]]]):
        assert "data is " in refused(two_rows(data)), data


def test_wrong_bytes():
    for bytes_, wanted in (
            (b"GET / HTTP/1.1\n\n", 400), (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            (b"GET /v2 HTTP/1.1\r\nHost: a\r\nAuthorization: b\r\nAuthorization: b\r\n\r\n", 400),
            (b"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505), (b"GET / HTTP/1.1\r\nA: " + b"b" * 20000, 431),
            (b"POST /v2 HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n", 413),
            (b"POST /v2 HTTP/1.1\r\nHost: a\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\n", 415)):
        with connect() as c:
            c.sendall(bytes_)
            stream = c.makefile("rb")
            status, headers, _ = read_answer(stream)
            assert status == wanted and headers["connection"] == "close", (bytes_[:40], status)
            assert stream.read() == b""


def test_deadlines():
    status, headers, body = ask("POST", RANK, json.dumps(rank([1])).encode(), [("Tangram-Deadline-Ms", "0.1")])
    # Shorter than any run: to wait is no use.
    assert status == 429 and "retry-after" not in headers and "not even an idle one" in json.loads(body)["error"]
    status, _ = ask_json("POST", RANK, rank([1], parameters={"timeout": 100}))
    assert status == 429
    assert ask_json("POST", RANK, rank([1], parameters={"priority": 1, "timeout": 0}))[0] == 200
    assert ask("POST", RANK, json.dumps(rank([1])).encode(), [("Tangram-Deadline-Ms", "soon")])[0] == 400
    assert ask_json("POST", RANK, rank(list(range(600))))[0] == 400
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert ask("POST", RANK, json.dumps(rank([1])).encode(), [("traceparent", trace)])[1]["traceparent"] == trace


def test_repository_and_statistics():
    status, index = ask_json("POST", "/v2/repository/index", {})
    assert status == 200 and {m["name"]: m["state"] for m in index} == {"classify-photos": "READY", "rank-answers": "READY"}
    assert ask("POST", "/v2/repository/models/rank-answers/unload")[0] == 200
    assert ask_json("POST", RANK, rank([1]))[0] == 503
    assert ask("GET", "/v2/models/rank-answers/ready")[0] == 400
    for body in (b'{"ready":true}', b'{ "ready" : true }', b'{"a":[1],"ready":\ttrue}'):
        assert len(json.loads(ask("POST", "/v2/repository/index", body)[2])) == 1, body
    assert len(ask_json("POST", "/v2/repository/index", {"a": '"ready":true'})[1]) == 2
    assert ask("POST", "/v2/repository/index", b"{")[0] == 400 and ask("POST", "/v2/repository/index")[0] == 200
    assert ask_json("POST", "/v2/repository/index", {"ready": "true"})[0] == 400
    assert ask("POST", "/v2/repository/models/rank-answers/load")[0] == 200
    assert ask_json("POST", RANK, rank([1]))[0] == 200
    stats = ask_json("GET", "/v2/models/rank-answers/stats")[1]["model_stats"][0]
    assert stats["inference_stats"]["success"]["count"] >= 1 and stats["execution_count"] >= 1
    assert stats["inference_count"] == sum(b["batch_size"] * b["compute_infer"]["count"] for b in stats["batch_stats"])
    assert abs(stats["last_inference"] / 1000 - time.time()) < 60
    assert len(ask_json("GET", "/v2/models/stats")[1]["model_stats"]) == 2
    assert ask_json("POST", "/v2/logging", {"log_verbose_level": 1})[1]["log_verbose_level"] == 1


def test_metrics():
    status, headers, body = ask("GET", "/metrics", port=METRICS)
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
    values = {}
    for line in body.decode().splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name not in values, name
            values[name] = float(value)
    assert 0 < values['tangram_slo_attainment_ratio{service="rank-answers"}'] <= 1
    served = values['tangram_requests_total{service="rank-answers",outcome="served"}']
    assert served > 0
    assert values['nv_inference_request_success{model="rank-answers",version="1"}'] >= served
    assert values['tangram_request_duration_seconds_bucket{service="rank-answers",le="+Inf"}'] >= served
    assert values['tangram_requests_refused_total{service="rank-answers",reason="invalid"}'] > 0
    assert 'tangram_requests_refused_total{service="",reason="malformed"}' in values
    added = ask_json("GET", "/status", port=METRICS)[1]["added"]["count"]
    assert ask_json("POST", RANK, rank([1], parameters={"tangram_background": 1}))[0] == 200
    assert ask_json("GET", "/status", port=METRICS)[1]["added"]["count"] == added, "waiting in the background is not added"
    assert ask("GET", "/metrics")[0] == 404, "metrics are not on the port of clients"
    assert ask("GET", "/v2/models/rank-answers", port=METRICS)[0] == 404


def test_clients_that_leave():
    """Connections dropped before, within and after a request do not disturb others."""
    body = json.dumps(rank([1, 2, 3])).encode()
    post = f"POST {RANK} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    for cut in range(0, len(post) + 1, 5):
        with connect() as c:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            c.sendall(post[:cut])
    assert ask_json("POST", RANK, rank([1]))[0] == 200
    for _ in range(100):
        if ask_json("GET", "/status", port=METRICS)[1]["in_flight"] == 0:
            return
        time.sleep(0.05)
    raise AssertionError("requests of clients that left are still in flight")


def load():
    """Ten clients for two seconds; every request is answered."""
    deadline = time.monotonic() + 2
    failures = []

    def send():
        body = json.dumps(rank(list(range(1, 60)), parameters={"tangram_deadline_ms": 10000})).encode()
        post = f"POST {RANK} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        with connect() as c:
            stream = c.makefile("rb")
            while time.monotonic() < deadline:
                c.sendall(post)
                status, _, answer = read_answer(stream)
                if status != 200:
                    failures.append((status, answer))

    threads = [threading.Thread(target=send) for _ in range(10)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert not failures, failures[:3]


if sys.argv[3:] == ["load"]:
    load()
else:
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()
