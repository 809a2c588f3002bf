"""A real S3 API in a process of its own (moto's server), with one bucket `reports` that keeps every version."""

import socket
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from collections import Counter
from contextlib import contextmanager

import httpx

CREDENTIALS = {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test"}
_ENABLED = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
_NAMES = {"s3": "http://s3.amazonaws.com/doc/2006-03-01/"}


@contextmanager
def s3_server():
    """The URL of the API, for as long as the block runs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 60
        while not _makes_the_bucket(url):
            assert server.poll() is None and time.monotonic() < end, "moto did not start"
            time.sleep(0.05)
        yield url
    finally:
        server.kill()
        server.wait()


def versions(url: str, prefix: str) -> Counter:
    """How often each key below a prefix was written."""
    answer = httpx.get(f"{url}/reports?versions&prefix={prefix}", trust_env=False)
    listed = xml.fromstring(answer.text).findall("s3:Version/s3:Key", _NAMES)
    return Counter(key.text for key in listed)


def _makes_the_bucket(url: str) -> bool:
    try:
        made = httpx.put(f"{url}/reports", timeout=20, trust_env=False)
        return made.is_success and httpx.put(f"{url}/reports?versioning", content=_ENABLED, trust_env=False).is_success
    except httpx.TransportError:
        return False
