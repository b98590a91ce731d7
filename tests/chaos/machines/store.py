"""Keeps small things for the scripts of all machines, as an object store does: `store.py ADDRESS PORT`.

PUT /NAME/KEY keeps the body, GET /NAME/KEY tells it, GET /NAME/ tells the keys of a name.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

kept: dict[str, bytes] = {}


class Shelf(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(b"")

    def do_GET(self) -> None:
        if self.path.endswith("/"):
            keys = [name.removeprefix(self.path) for name in list(kept) if name.startswith(self.path)]
            self._answer("\n".join(keys).encode())
        else:
            self._answer(kept[self.path])

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """It is never read."""


if __name__ == "__main__":
    ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Shelf).serve_forever()
