"""fake_gateway.py FOLDER: answers GET /v2/nodes with the tasks that have touched FOLDER/NAME within 3 s.

Prints its port. Stands for a gateway where the tasks are no `tangram node`."""
import http.server, json, os, sys, time

folder = sys.argv[1]


class Nodes(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        now = time.time()
        names = [n for n in os.listdir(folder) if now - os.stat(os.path.join(folder, n)).st_mtime < 3]
        body = json.dumps({"nodes": [{"name": n, "state": "joined"} for n in names]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Nodes)
print(server.server_port, flush=True)
server.serve_forever()
