"""A memory in Python that plays the recall-loop amplification bench over HTTP.

    python3 examples/benchhttp/system.py &
    go run ./bench -scenario S1 -systems hearsay -http two-say=http://127.0.0.1:8799

It keeps each text once, counts whoever said it first-hand, and lets an agent act on what two
said. docs/bench.md has the protocol. It needs nothing but Python 3.8.
"""
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class TwoSay:
    """One memory. The id of a text is the text."""

    def __init__(self):
        self.lock = threading.Lock()  # the bench asks from several threads
        self.who = {}  # text -> who said it first-hand

    def write(self, request):
        said = request["statement"]
        author = (said["author"]["kind"], said["author"]["name"])
        with self.lock:
            who = self.who.setdefault(said["text"], [])
            # What a turn says after it was shown something may come from there.
            if not said["recalled"] and author[0] != "agent" and author not in who:
                who.append(author)
        return {"id": said["text"]}

    def recall(self, request):
        words = request["query"]["text"].lower().split()
        with self.lock:
            shares = {t: sum(w in t.lower() for w in words) for t in self.who}
        ids = sorted((t for t in shares if shares[t]), key=lambda t: (-shares[t], t))
        return self.look({"ids": ids[:10]})

    def look(self, request):
        with self.lock:
            found = [(i, len(self.who[i])) for i in request["ids"] if i in self.who]
        return {"memories": [{"id": i, "text": i, "trusted": n > 1, "supports": n} for i, n in found]}

    def decide(self, request):
        action = request["action"]
        shown = self.look({"ids": action["recalled"]})["memories"]
        return {"allowed": any(m["trusted"] and action["value"] in m["text"] for m in shown)}


memories = {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps the connection
    wbufsize = -1  # one packet for headers and body

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        operation, name = self.path.strip("/"), request["memory"]
        status, answer = 200, {}
        if operation == "open":
            memories[name] = TwoSay()
            answer = {"gate": True, "settles": False}
        elif operation == "close":
            memories.pop(name, None)
        elif operation in ("write", "recall", "look", "decide"):
            answer = getattr(memories[name], operation)(request)
        else:
            status, answer = 404, {"error": "no such operation"}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8799
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print("listening on http://127.0.0.1:%d" % server.server_address[1], flush=True)
    server.serve_forever()
