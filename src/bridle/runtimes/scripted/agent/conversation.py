"""Puts a conversation together: its store, its tools, its guard and the loop that plays it."""

from __future__ import annotations

import os

from .guard import Guard
from .loop import Limits, Loop
from .sources import Sources
from .store import Store
from .tools import Toolbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .aids import Aids
    from .interrupt import Interrupt
    from .parts import Face, Inbox


def conversation(
    request: dict[str, Any],
    face: Face,
    aids: Aids,
    interrupt: Interrupt,
    inbox: Inbox | None = None,
) -> tuple[Loop, Sources]:
    """Begin the conversation that `request` asks for, or resume it; announces it on `face`."""
    store = Store(request["state_dir"], request["native_id"], resume=request["resume"])
    if not request["resume"]:
        store.add("session", id=request["native_id"], cwd=os.getcwd(), version=request["version"])
    sources = Sources(request, store, interrupt)
    face.emit(
        {
            "type": "session",
            "id": request["native_id"],
            "model": (request.get("server") and request.get("model")) or "scripted",
            "version": request["version"],
            "scripted": True,
            "resumed": request["resume"],
            "images": len(request.get("images", [])),
        }
    )
    guard = Guard(request["guard"], face) if request.get("guard") else None
    if guard is not None:
        guard.begin()
    asks = request["permission"] == "ask"
    loop = Loop(
        face=face,
        interrupt=interrupt,
        toolbox=Toolbox(face, request["tools"], interrupt, ask=asks, guard=guard),
        store=store,
        limits=Limits(request),
        aids=aids,
        inbox=inbox,
    )
    return loop, sources
