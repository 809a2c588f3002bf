"""A bare repository behind https in a process of its own: git's own http-backend, with a user and a password."""

import base64
import os
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.mail_server import make_certificate

ROOT = Path(__file__).resolve().parents[2]
USER, PASSWORD = "bot", "s3cr3t-word"


@contextmanager
def git_server(repository):
    """The URL of the repository while the block runs; `ca.pem` lies beside it."""
    folder = repository.path.parent
    repository.git("config", "http.receivepack", "true")
    make_certificate(folder)
    ready = folder / "https-port"
    process = subprocess.Popen([sys.executable, "-m", "tests.support.git_server", str(folder)], cwd=ROOT)
    try:
        end = time.monotonic() + 30
        while not ready.exists():
            assert process.poll() is None and time.monotonic() < end, "the server did not start"
            time.sleep(0.01)
        yield f"https://localhost:{ready.read_text()}/{repository.path.name}"
    finally:
        process.kill()
        process.wait()


class _Handler(BaseHTTPRequestHandler):
    """CGI, as far as git's backend needs it."""

    protocol_version = "HTTP/1.1"
    folder: Path

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        wanted = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != wanted:
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic realm=x")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": USER,
        }
        done = subprocess.run(["git", "http-backend"], input=self._body(), env=environment, capture_output=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.decode().split(": ", 1) for line in head.split(b"\r\n"))
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, *_) -> None:
        pass


def _serve(folder: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"folder": folder}))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    scratch = folder / "https-port.new"
    scratch.write_text(str(server.server_address[1]))
    scratch.rename(folder / "https-port")
    server.serve_forever()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
