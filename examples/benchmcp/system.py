"""A memory in Python that plays the recall-loop amplification bench as an MCP server.

    go run ./bench -scenario S1 -systems hearsay -mcp "last-word=python3 examples/benchmcp/system.py"

It keeps one value for each slot, the last that somebody said, and lets an agent act on it.
docs/bench.md has the protocol. It speaks MCP over stdin and stdout, and needs nothing but
Python 3.8; with an MCP library the last forty lines are its affair.
"""
import json
import re
import sys


class LastWord:
    """One memory: the last sentence about each slot. The id of a sentence is its slot."""

    def __init__(self):
        self.said = {}

    def write(self, request):
        text = request["statement"]["text"]
        slot = re.match(r"(.*?)'s (.*?) is ", text)
        self.said[slot.group(0) if slot else text] = text
        return {"id": slot.group(0) if slot else text}

    def recall(self, request):
        words = request["query"]["text"].lower().split()
        shares = {i: sum(w in t.lower() for w in words) for i, t in self.said.items()}
        ids = sorted((i for i in shares if shares[i]), key=lambda i: (-shares[i], i))
        return self.look({"ids": ids[:10]})

    def look(self, request):
        found = [i for i in request["ids"] if i in self.said]
        return {"memories": [{"id": i, "text": self.said[i], "trusted": True, "supports": 1} for i in found]}


memories = {}


def call(operation, request):
    if operation == "open":
        memories[request["memory"]] = LastWord()
        return {"gate": False}  # its agent acts on whatever it was shown
    if operation == "close":
        memories.pop(request["memory"], None)
        return {}
    return getattr(memories[request["memory"]], operation)(request)


TOOLS = ["open", "write", "recall", "look", "close"]


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "last-word", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": t, "inputSchema": {"type": "object"}} for t in TOOLS]}
    if method == "tools/call" and params["name"] in TOOLS:
        result = call(params["name"], params["arguments"])
        return {"content": [{"type": "text", "text": json.dumps(result)}], "structuredContent": result}
    if method == "ping":
        return {}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue  # a notification
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    result = answer(message.get("method"), message.get("params", {}))
    if result is None:
        reply["error"] = {"code": -32601, "message": "no such method or tool"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
