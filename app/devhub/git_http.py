"""Clone and push over smart HTTP: ``git http-backend`` as a CGI program, after our own check of who asks.

A request and its answer are held in memory; this serves repositories of a test or a demo, not the world.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

from anyio.to_thread import run_sync
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from app.devhub import auth, refs
from app.devhub.errors import Refused, not_found
from app.devhub.git import ENVIRONMENT, LIMITS
from app.devhub.gitobjects import ZERO, Ref
from app.devhub.hub import Hub
from app.devhub.records import Repository
from sandbox import process

PATH = re.compile(r"/(?P<owner>[^/]+)/(?P<repo>[^/]+?)(\.git)?/(?P<rest>info/refs|git-upload-pack|git-receive-pack)")
BODY_LIMIT = 512 * 1024 * 1024

HOOK = r"""#!/bin/sh
# Refuses what GitHub refuses. The variables come from the stand-in; the hook runs before any ref moves.
zero=0000000000000000000000000000000000000000
empty=4b825dc642cb6eb9a060e54bf8d69288fbee4904
while read -r old new ref; do
  case " $DEVHUB_PROTECTED " in
    *" $ref "*) echo "GH006: Protected branch update failed for $ref." >&2; exit 1 ;;
  esac
  [ "$DEVHUB_WORKFLOWS" = yes ] || [ "$new" = "$zero" ] && continue
  start=$old
  [ "$old" = "$zero" ] && start=$(git merge-base "$new" "$DEVHUB_DEFAULT" 2>/dev/null || echo $empty)
  file=$(git diff-tree -r --name-only --diff-filter=ACMRT "$start" "$new" -- .github/workflows | head -n 1)
  if [ -n "$file" ]; then
    echo "refusing to allow a GitHub App to create or update workflow \`$file\` without \`workflows\` permission" >&2
    exit 1
  fi
done
"""


def install_hooks(hub: Hub) -> None:
    """Write the hook that judges pushes."""
    folder = hub.state_dir / "hooks"
    folder.mkdir(exist_ok=True)
    hook = folder / "pre-receive"
    hook.write_text(HOOK)
    hook.chmod(0o755)


async def serve(hub: Hub, request: Request, path: re.Match[str]) -> Response:
    """Answer one request of a git client."""
    try:
        body = await _body(request)
        return await run_sync(_answer, hub, request, path, body)
    except Refused as refused:
        ask = {"WWW-Authenticate": 'Basic realm="GitHub"'} if refused.status == 401 else {}
        return PlainTextResponse(f"{refused.what}\n", refused.status, headers=ask)


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > BODY_LIMIT:
                raise Refused(413, "Request Entity Too Large")
            parts.append(part)
    except ClientDisconnect as error:
        raise Refused(400, "The request ended early") from error
    return b"".join(parts)


def _answer(hub: Hub, request: Request, path: re.Match[str], body: bytes) -> Response:
    pushing = "git-receive-pack" in (path["rest"], request.query_params.get("service", ""))
    actor = _caller(hub, request.headers.get("authorization"))
    repository = hub.repository(path["owner"], path["repo"])
    renamed = None if repository else hub.renamed(path["owner"], path["repo"])
    if renamed is not None and auth.sees(hub.store, actor, renamed):
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(hub.web(f"/{hub.full_name(renamed)}.git/{path['rest']}{query}"), 301)
    if repository is None or not auth.sees(hub.store, actor, repository):
        # git asks for a password only after a 401, so a private repository looks the same as none.
        raise Refused(401, "Repository not found.") if actor is None else not_found()
    need = "contents:write" if pushing else "contents:read"
    auth.require(hub.store, actor, repository, (need,), "write" if pushing else "read")
    if not pushing:
        return _backend(hub, request, path, body, repository, {})
    assert actor is not None
    if repository.archived:
        raise Refused(403, "This repository was archived so it is read-only.")
    return _push(hub, request, path, body, repository, actor)


def _push(
    hub: Hub, request: Request, path: re.Match[str], body: bytes, repository: Repository, actor: auth.Actor
) -> Response:
    free = refs.may_pass_protection(hub, repository, actor)
    rules = {
        "DEVHUB_PROTECTED": "" if free else " ".join(f"{refs.HEADS}{name}" for name in repository.protected),
        "DEVHUB_WORKFLOWS": "yes" if refs.may_write_workflows(actor) else "no",
        "DEVHUB_DEFAULT": f"{refs.HEADS}{repository.default_branch}",
        "REMOTE_USER": actor.user.login,
    }
    with hub.store.transaction():  # so that nobody sees a moved branch and a pull request that has not followed
        before = {ref.name: ref for ref in hub.git(repository).refs()}
        response = _backend(hub, request, path, body, repository, rules)
        for name, old, new in _moves(before, {ref.name: ref for ref in hub.git(repository).refs()}):
            refs.moved(hub, repository, actor, name, old, new)
    return response


def _moves(before: Mapping[str, Ref], after: Mapping[str, Ref]) -> list[tuple[str, str, str]]:
    def sha(refs: Mapping[str, Ref], name: str) -> str:
        return refs[name].sha if name in refs else ZERO

    names = sorted(before.keys() | after.keys())
    return [(name, sha(before, name), sha(after, name)) for name in names if sha(before, name) != sha(after, name)]


def _caller(hub: Hub, header: str | None) -> auth.Actor | None:
    """Who asks: the password of basic authentication is a token, whatever the user name."""
    if not header:
        return None
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        return auth.identify(hub.store, header, hub.clock.now())
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise Refused(401, "Bad credentials") from error
    return auth.by_token(hub.store, password or user, hub.clock.now())


def _backend(
    hub: Hub, request: Request, path: re.Match[str], body: bytes, repository: Repository, rules: Mapping[str, str]
) -> Response:
    git_dir = hub.git(repository).path
    env = {
        **ENVIRONMENT,
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_1": "core.hooksPath",
        "GIT_CONFIG_VALUE_1": str(hub.state_dir / "hooks"),
        "GIT_PROJECT_ROOT": str(git_dir.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
        "PATH_INFO": f"/{git_dir.name}/{path['rest']}",
        "REQUEST_METHOD": request.method,
        "QUERY_STRING": request.url.query,
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
        **rules,
    }
    done = process.run(["git", "http-backend"], env=env, stdin=body, limits=LIMITS, split_stderr=True)
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    if not head:
        raise Refused(500, "git http-backend gave no answer")
    headers = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n"))
    status = int(headers.pop("Status", "200").split()[0])
    return Response(content, status, headers=headers)
