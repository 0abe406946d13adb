"""A shop with a login, and answers that are streamed as server-sent events."""

import asyncio
import json
import secrets

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, StreamingResponse

app = FastAPI()
FORM = '<form method=post><input type=hidden name=csrf value="%s"></form>'
sessions: dict[str, str] = {}


@app.get("/login")
def login_form(request: Request):
    csrf = secrets.token_urlsafe(16)
    response = HTMLResponse(FORM % csrf)
    response.set_cookie("csrf", csrf)
    return response


@app.post("/login")
async def login(request: Request):
    body = (await request.body()).decode()
    fields = dict(pair.split("=", 1) for pair in body.split("&"))
    if fields["csrf"] != request.cookies.get("csrf") or fields["password"] != "secret":
        return JSONResponse({"detail": "wrong password"}, status_code=403)
    session = secrets.token_urlsafe(16)
    sessions[session] = fields["user"]
    response = RedirectResponse("/token", status_code=303)
    response.set_cookie("session", session)
    return response


@app.get("/token")
def token(request: Request):
    session = request.cookies["session"]
    return {"data": {"token": session, "user": sessions[session]}}


@app.get("/answer")
async def answer(request: Request):
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme != "Bearer" or token not in sessions:
        return JSONResponse({"detail": "log in first"}, status_code=401)

    async def words():
        for word in ["Here", " is", " an", " answer."]:
            await asyncio.sleep(0.002)
            chunk = {"choices": [{"delta": {"content": word}}]}
            yield f"data: {json.dumps(chunk)}\n\n"
        yield "data: [DONE]\n\n"

    return StreamingResponse(words(), media_type="text/event-stream")
