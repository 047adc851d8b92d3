"""A small OpenAI-compatible endpoint for embeddings, to measure what they change. Not part of the product.

    python -m venv /tmp/static && /tmp/static/bin/pip install wordllama
    /tmp/static/bin/python bench/embedding_endpoint.py --port 8091

It serves static token vectors (256 dimensions; their mean is the vector of a text) that the package brings along, so
that nothing is fetched. Far weaker than a model that was trained on code, and a hundred times as fast.
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def load() -> Any:
    """The model, from the files of its package alone."""
    import wordllama  # type: ignore[import-not-found]

    folder = Path(wordllama.__file__).parent
    here = folder / "tokenizer"  # where the loader looks; the wheel has it under another name
    if not here.exists():
        here.symlink_to(folder / "tokenizers")
    return wordllama.WordLlama.load(dim=256, disable_download=True)


class Embeddings(BaseHTTPRequestHandler):
    """``POST /v1/embeddings``."""

    model: Any
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        vectors = self.model.embed(texts, norm=True).round(5).tolist()
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        words = sum(len(text.split()) for text in texts)
        usage = {"prompt_tokens": words, "total_tokens": words}
        body = json.dumps({"object": "list", "data": data, "model": asked["model"], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """One line a request would be all there is to see."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8091)
    port = parser.parse_args().port
    Embeddings.model = load()
    print(f"http://127.0.0.1:{port}/v1", flush=True)
    ThreadingHTTPServer(("127.0.0.1", port), Embeddings).serve_forever()


if __name__ == "__main__":
    main()
