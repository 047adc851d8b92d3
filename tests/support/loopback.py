"""httpx for servers on loopback: nothing is encrypted, and reading the certificates takes longer than a request."""

from __future__ import annotations

from functools import partial

import httpx

get = partial(httpx.get, verify=False)
post = partial(httpx.post, verify=False)
put = partial(httpx.put, verify=False)
patch = partial(httpx.patch, verify=False)
Client = partial(httpx.Client, verify=False)
AsyncClient = partial(httpx.AsyncClient, verify=False)
