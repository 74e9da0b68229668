#!/usr/bin/env python3
"""Serves one Python function as a model of the Open Inference Protocol, for `tangram serve --engine command`.

    tangram serve PLAN --services FILE --model MODEL --engine command \
        --command "python3 examples/python/function_server.py --port {port} --model shout"

Replace predict() with a function of your own. It gets the inputs of one batch as flat lists of numbers with their
shapes, and returns the outputs in the same form; the first axis is the batch. Only the standard library is used, so a
function that needs numpy or a framework may import it, and everything else stays as it is.
"""
import argparse
import array
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# The protocol's names of datatypes, and Python's of arrays.
TYPES = {"BOOL": "B", "UINT8": "B", "INT8": "b", "UINT16": "H", "INT16": "h", "UINT32": "I", "INT32": "i",
         "UINT64": "Q", "INT64": "q", "FP32": "f", "FP64": "d"}


def predict(inputs):
    """One batch. Here: for each sample, the sum and the largest of its numbers. Padding is 0."""
    shape, values = inputs["INPUT"]
    samples, length = shape[0], shape[1]
    rows = [values[i * length:(i + 1) * length] for i in range(samples)]
    return {"OUTPUT": ("FP32", [samples, 2], [number for row in rows for number in (sum(row), max(row))])}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # Connections stay open from batch to batch.
    disable_nagle_algorithm = True

    def do_GET(self):
        known = ["/v2/health/live", "/v2/health/ready", f"/v2/models/{self.server.model}/ready"]
        self.answer(200 if self.path in known else 404, b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != f"/v2/models/{self.server.model}/infer":
            return self.answer(404, b'{"error": "unknown model"}')
        try:
            json_length = int(self.headers.get("Inference-Header-Content-Length", len(body)))
            reply, tensors = self.infer(json.loads(body[:json_length]), body[json_length:])
        except Exception as problem:  # Whatever the function raises fails this batch alone.
            return self.answer(500, json.dumps({"error": repr(problem)}).encode())
        head = json.dumps(reply).encode()
        self.answer(200, head + tensors, {"Inference-Header-Content-Length": str(len(head))})

    def infer(self, request, binary):
        inputs = {}
        for tensor in request["inputs"]:
            size = tensor.get("parameters", {}).get("binary_data_size")
            if size is None:
                values = tensor["data"]
            else:
                values = array.array(TYPES[tensor["datatype"]], binary[:size]).tolist()
                binary = binary[size:]
            inputs[tensor["name"]] = (tensor["shape"], values)
        outputs, tensors = [], b""
        for name, (datatype, shape, values) in predict(inputs).items():
            data = array.array(TYPES[datatype], values).tobytes()
            outputs.append({"name": name, "datatype": datatype, "shape": shape,
                            "parameters": {"binary_data_size": len(data)}})
            tensors += data
        return {"model_name": self.server.model, "id": request.get("id", ""), "outputs": outputs}, tensors

    def answer(self, status, body, fields=None):
        self.send_response(status)
        for name, value in (fields or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass  # Tangram's log has every batch that fails.


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default="function")
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.model = options.model
    server.serve_forever()
