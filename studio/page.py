"""The page: the files in web/ at `/`, and what a person may choose from at `/options.json`.

There is no build step: the files are sent as they lie, and a browser asks each time whether they changed.
"""

import asyncio
import hashlib
from pathlib import Path
from typing import Any, Final, get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lockstitch.graph.keyless import MODEL as DEMO
from lockstitch.graph.models.choice import choose_model
from lockstitch.graph.models.presets import TIERS
from lockstitch.graph.models.wish import Tier
from lockstitch.graph.parts import current_folder
from lockstitch.graph.strategies.registry import strategy_names
from lockstitch.state.errors import NoModelError
from lockstitch.state.reasons import ENDINGS
from lockstitch.state.settings import STEPS_AT_SERVER, STEPS_MAX, STEPS_MIN, Mode, Settings
from lockstitch.studio.http.desk import Desk, desk_of
from lockstitch.studio.service import CAN_GO_ON

WEB: Final = Path(__file__).parent / "web"
HTML: Final = "text/html; charset=utf-8"
CSS: Final = "text/css; charset=utf-8"
SCRIPT: Final = "text/javascript; charset=utf-8"
SVG: Final = "image/svg+xml"
FILES: Final[dict[str, str]] = {
    "index.html": HTML,
    "styles.css": CSS,
    "steps.css": CSS,
    "past.css": CSS,
    "icon.svg": SVG,
    "announcer.js": SCRIPT,
    "api.js": SCRIPT,
    "ask.js": SCRIPT,
    "calls.js": SCRIPT,
    "changes.js": SCRIPT,
    "choices.js": SCRIPT,
    "composer.js": SCRIPT,
    "diff.js": SCRIPT,
    "dom.js": SCRIPT,
    "drawers.js": SCRIPT,
    "facts.js": SCRIPT,
    "fields.js": SCRIPT,
    "folders.js": SCRIPT,
    "history.js": SCRIPT,
    "line.js": SCRIPT,
    "main.js": SCRIPT,
    "past.js": SCRIPT,
    "past_move.js": SCRIPT,
    "past_step.js": SCRIPT,
    "patch.js": SCRIPT,
    "processes.js": SCRIPT,
    "prose.js": SCRIPT,
    "scroll.js": SCRIPT,
    "step.js": SCRIPT,
    "steps.js": SCRIPT,
    "thread.js": SCRIPT,
    "threads.js": SCRIPT,
    "visible.js": SCRIPT,
    "wire.js": SCRIPT,
    "words.js": SCRIPT,
}
INDEX: Final = "index.html"
STRATEGY_WORDS: Final[dict[str, str]] = {
    "react": "One model call a step, with all tools.",
    "reason-act-observe": "Three model calls a step: reason, act, observe.",
    "plan-and-execute": "Tasks first, then item by item.",
    "tool-first": "As react, but the first reply must call a tool.",
    "llm-only": "In plain text, for models that cannot call tools.",
}
MODE_WORDS: Final[dict[str, str]] = {
    "plan": "Changes no file; what commands change is thrown away.",
    "ask": "Edits files, asks before commands, deletes and the web.",
    "auto": "Asks as little as the rules allow.",
}


def page_routes() -> list[Route]:
    """The routes of the page, for the app that holds the desk. Reads its files now, and never again."""
    routes = [Route(f"/{name}", _sender(name, kind)) for name, kind in FILES.items()]
    return [Route("/", _sender(INDEX, HTML)), Route("/options.json", _options), *routes]


def _sender(name: str, kind: str) -> Any:
    body = (WEB / name).read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache", "content-type": kind}

    async def send(request: Request) -> Response:
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers)

    return send


async def _options(request: Request) -> Response:
    body = await asyncio.to_thread(page_options, desk_of(request))
    return JSONResponse(body, headers={"cache-control": "no-store"})


def page_options(desk: Desk) -> dict[str, Any]:
    """What the page lets a person choose, with the words for it, and what each end of a run means."""
    settings, tools = desk.settings, desk.parts.guard.registry.list()
    return {
        "strategies": [_choice(name, STRATEGY_WORDS.get(name, "")) for name in strategy_names()],
        "modes": [_choice(name, MODE_WORDS[name]) for name in get_args(Mode)],
        "tools": [_choice(tool.name, tool.tool.description.partition("\n")[0]) for tool in tools],
        "strategy": settings.strategy,
        "mode": settings.mode,
        "steps": {"least": STEPS_MIN, "most": STEPS_MAX, "usual": settings.max_steps or STEPS_AT_SERVER},
        "model": _models(settings),
        "demo": settings.model == DEMO,
        "workspace": str(settings.workspace or current_folder()),
        "endings": {
            reason: {"meaning": ending.meaning, "can_go_on": reason in CAN_GO_ON}
            for reason, ending in ENDINGS.items()
        },
    }


def _models(settings: Settings) -> dict[str, Any]:
    """The usual model, empty where none is set; the others that are set; whether it is the only one."""
    named = [_tier_model(tier, settings) for tier in TIERS]
    usual = _tier_model("balanced", settings)
    others = dict.fromkeys([*named, *settings.fallback_models])
    has_endpoint = bool(settings.openai_api_key or settings.openai_base_url)
    return {
        "usual": usual,
        "others": [name for name in others if name and name != usual],
        "fixed": usual.startswith("scripted:") and not has_endpoint,
    }


def _tier_model(tier: Tier, settings: Settings) -> str:
    try:
        return str(choose_model(None, settings, tier=tier))
    except NoModelError:
        return ""


def _choice(name: str, words: str) -> dict[str, str]:
    return {"name": name, "words": words}
