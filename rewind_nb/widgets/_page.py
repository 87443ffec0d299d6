"""A widget as one page that needs nothing: no kernel, no network, no other file."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewind_nb.widgets._base import View

__all__ = ["save"]

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' blob:; img-src data:">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{title}</title><style>body{{margin:16px;background:#fff}}
@media (prefers-color-scheme:dark){{body{{background:#111418}}}}
{css}</style></head>
<body><div id="rewind"></div><noscript>{static}</noscript>
<script id="saved" type="application/json">{saved}</script>
<script type="module">
const {{ code, state, answers }} = JSON.parse(document.getElementById("saved").textContent);
const heard = new Map();
const model = {{
  saved: true,
  get: (name) => state[name],
  set(name, value) {{
    state[name] = value;
    for (const each of heard.get(`change:${{name}}`) ?? []) each();
  }},
  save_changes() {{}},
  on: (name, each) => heard.set(name, [...(heard.get(name) ?? []), each]),
  off: (name, each) => heard.set(name, (heard.get(name) ?? []).filter((one) => one !== each)),
  send({{ id, ask, args }}) {{
    const found = answers[JSON.stringify([ask, args])];
    const answer = found ?? {{ error: "This saved page does not hold that; the notebook does." }};
    queueMicrotask(() => {{
      for (const each of heard.get("msg:custom") ?? []) each({{ id, ...answer }});
    }});
  }},
}};
const url = URL.createObjectURL(new Blob([code], {{ type: "text/javascript" }}));
const widget = (await import(url)).default;
widget.render({{ model, el: document.getElementById("rewind") }});
</script></body></html>
"""


def save(view: View, path: Path) -> Path:
    """Write a page that shows a widget as it is now, and holds the answers to what it may ask."""
    asked = {
        json.dumps([ask, args], separators=(",", ":"), ensure_ascii=False): view.answer(
            {"ask": ask, "args": args}
        )
        for ask, args in view.questions()
    }
    saved = {"code": view._esm, "state": view.state(), "answers": asked}  # noqa: SLF001
    path.write_text(
        _PAGE.format(
            title=html.escape(view.title),
            css=view._css,  # noqa: SLF001
            static=view.html(),
            saved=_in_script(saved),
        ),
        "utf-8",
    )
    return path


def _in_script(value: Any) -> str:
    """JSON that no HTML parser takes for an end of the script, or for the end of a line."""
    text = json.dumps(value, ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
