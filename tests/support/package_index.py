"""A package registry on this machine's loopback, for real clients."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Mapping


class Index:
    """A server of files on this machine's loopback."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.asked.append(self.path)
                content = index.files.get(self.path)
                self.send_response(404 if content is None else 200)
                kind = "application/json" if (content or b"").startswith(b"{") else "text/html"
                self.send_header("Content-Type", kind if "." not in self.path[-5:] else "application/octet-stream")
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Nobody answers any more. Safe to call twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def wheel(name: str, version: str, files: Mapping[str, str]) -> bytes:
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    content = {**files, f"{info}/METADATA": metadata, f"{info}/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n"}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in (*content, f"{info}/RECORD")))
    return packed.getvalue()


def tarball(files: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def serve_wheel(index: Index, name: str, version: str, files: Mapping[str, str]) -> None:
    """Put a package on the index that pip reads at ``/simple``."""
    file = f"{name}-{version}-py3-none-any.whl"
    index.files[f"/files/{file}"] = wheel(name, version, files)
    index.files[f"/simple/{name}/"] = (
        index.files.get(f"/simple/{name}/", b"") + f"<a href='/files/{file}'>{file}</a>".encode()
    )


def serve_npm(index: Index, name: str, scripts: Mapping[str, str]) -> None:
    """Put version 1.0.0 of a package on the registry that npm reads."""
    manifest = json.dumps({"name": name, "version": "1.0.0", "scripts": scripts})
    packed = tarball({"package/package.json": manifest, "package/index.js": ""})
    digest = base64.b64encode(hashlib.sha512(packed).digest()).decode()
    dist = {"tarball": f"{index.url}/{name}/-/{name}-1.0.0.tgz", "integrity": f"sha512-{digest}"}
    version = {"name": name, "version": "1.0.0", "dist": dist, "hasInstallScript": bool(scripts), "scripts": scripts}
    document = {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    index.files |= {f"/{name}": json.dumps(document).encode(), f"/{name}/-/{name}-1.0.0.tgz": packed}
