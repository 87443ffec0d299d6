"""The style sheet. Every selector starts at `.rw`, so nothing else on the page changes.

Colours come from the notebook's theme where it has variables for them (JupyterLab, VS Code,
Colab), else from the system's; text and background are always set together. A source has a
colour, and beside it a sign and its name: colour is never the only cue.
"""

from __future__ import annotations

__all__ = ["CSS"]

_LIGHT = """--rw-edge:#7d858c;--rw-fg:#212529;--rw-bg:#fff;--rw-live:#c2410c;--rw-cache:#1971c2;--rw-tool-cache:#0b7285;
--rw-override:#9c36b5;--rw-render-cache:#5c6f0a;--rw-reused:#2b8a3e;--rw-inherited:#6c757d;
--rw-bad:#d6293a;--rw-refused:#d6293a;--rw-good:#2b8a3e;--rw-warn:#9a6700;--rw-del:rgba(214,41,58,.16);
--rw-ins:rgba(43,138,62,.18);--rw-line:rgba(128,128,128,.32);--rw-soft:rgba(128,128,128,.09)"""

_DARK = """--rw-edge:#8f979e;--rw-fg:#e6e6e6;--rw-bg:#111418;--rw-live:#ff9f5a;--rw-cache:#74b9ff;--rw-tool-cache:#4fd1e0;
--rw-override:#dd8bf5;--rw-render-cache:#c0d860;--rw-reused:#72d88a;--rw-inherited:#a3abb3;
--rw-bad:#ff7b82;--rw-refused:#ff7b82;--rw-good:#72d88a;--rw-warn:#e3b341;--rw-del:rgba(255,105,115,.24);
--rw-ins:rgba(90,210,120,.22);--rw-line:rgba(160,160,160,.34);--rw-soft:rgba(160,160,160,.12)"""

_THEME = "body:not([data-jp-theme-light]):not(.vscode-light)"

_RULES = """
.rw{color:var(--jp-ui-font-color1,var(--vscode-editor-foreground,
var(--colab-primary-text-color,var(--rw-fg))));
background:var(--jp-layout-color0,var(--vscode-editor-background,
var(--colab-primary-surface-color,var(--rw-bg))));
font:13px/1.45 var(--jp-ui-font-family,system-ui,-apple-system,"Segoe UI",sans-serif);
border:1px solid var(--rw-line);border-radius:6px;padding:10px 12px;margin:2px 0;max-width:100%;
box-sizing:border-box;text-align:left;overflow-wrap:anywhere}
.rw .rw-head{display:flex;flex-wrap:wrap;align-items:baseline;gap:4px 10px;font-size:15px}
.rw .rw-head b{font-weight:600}
.rw .rw-line{margin-top:3px}
.rw .rw-head+div:not([class]){margin-top:3px}
.rw .rw-scroll+.rw-line{margin-top:8px}
.rw .rw-origin{min-width:240px}
.rw .rw-origin>.rw-line:first-child{margin-top:0}
.rw .rw-facts{margin-top:3px;opacity:.82}
.rw .rw-mono{font-family:var(--jp-code-font-family,ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace);
font-size:12px;unicode-bidi:isolate}
.rw .rw-dim{opacity:.72}
.rw .rw-why{min-width:130px;max-width:360px}
.rw .rw-why .rw-mono{overflow-wrap:normal}
.rw .rw-title{font-weight:600;margin:12px 0 3px}
.rw .rw-scroll{overflow:auto;max-height:640px;max-width:100%}
.rw .rw-cut{opacity:.75;font-style:italic}
.rw kbd{font-family:monospace;font-size:.85em;color:inherit;background:none;border:1px solid var(--rw-line);
border-radius:3px;padding:0 2px;opacity:.85}
.rw .rw-chip{display:inline-block;white-space:nowrap;font-size:12px;line-height:17px;padding:0 7px;
border:1px solid var(--rw-c,var(--rw-line));border-radius:9px}
.rw .rw-chip i{font-style:normal;color:var(--rw-c);margin-right:4px}
.rw .rw-box{border-left:3px solid var(--rw-c,var(--rw-line));background:var(--rw-soft);
padding:6px 10px;margin:8px 0 4px;border-radius:0 4px 4px 0}
.rw table.rw-table{border-collapse:collapse;border:0;margin:0;font-size:12.5px;table-layout:auto}
.rw table.rw-table th,.rw table.rw-table td{text-align:left;vertical-align:top;padding:3px 14px 3px 0;
border:0;border-bottom:1px solid var(--rw-line);background:none;white-space:normal;line-height:1.45}
.rw table.rw-table th{font-weight:600;opacity:.72;white-space:nowrap;border-bottom-width:2px}
.rw table.rw-table thead{border:0}
.rw table.rw-table tbody tr:nth-child(n){background:none}
.rw table.rw-table>tbody>tr:last-child>td{border-bottom:0}
.rw table.rw-table .rw-n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.rw table.rw-table .rw-keep{white-space:nowrap;overflow-wrap:normal}
.rw .rw-path{width:max-content;max-width:250px}
.rw table.rw-table .rw-wide{min-width:180px;max-width:420px}
.rw table.rw-table .rw-group td{padding:5px 6px;background:var(--rw-soft)}
.rw table.rw-table .rw-box{width:0;min-width:100%;box-sizing:border-box;margin:2px 0}
.rw .rw-tree{white-space:pre;line-height:1.2}
.rw del{background:var(--rw-del);text-decoration:line-through;border-radius:2px}
.rw ins{background:var(--rw-ins);text-decoration:underline;border-radius:2px}
.rw .rw-prose{white-space:pre-wrap;unicode-bidi:isolate}
.rw details{margin:1px 0}
.rw summary{cursor:pointer}
.rw .rw-inner{margin:3px 0 10px 4px;padding-left:13px;border-left:2px solid var(--rw-line)}
.rw .rw-inner .rw-title{margin-top:7px}
.rw .rw-inner>.rw-title:first-child{margin-top:0}
.rw .rw-in{margin-left:18px}
.rw .rw-way{display:inline-block;line-height:22px}
.rw table.rw-table table.rw-table td{vertical-align:baseline}
.rw table.rw-table .rw-inner{margin-bottom:4px}
.rw table.rw-table .rw-inner .rw-scroll{max-height:420px}
.rw pre.rw-pre{white-space:pre-wrap;margin:4px 0;padding:6px 8px;max-height:340px;overflow:auto;
background:var(--rw-soft);border-radius:4px;color:inherit;border:0;line-height:1.4}
.rw table.rw-table.rw-heat{margin-top:4px}
.rw table.rw-table.rw-heat td{padding:4px 10px;border:1px solid var(--rw-line);min-width:84px}
.rw table.rw-table.rw-heat th{border-bottom:0;padding:4px 10px 4px 0;font-weight:500;opacity:.85;
white-space:normal;max-width:220px}
.rw table.rw-table.rw-heat td.rw-passes{background:rgba(43,138,62,calc(.42*var(--rw-p)));
box-shadow:inset 3px 0 0 rgba(214,41,58,calc(1 - var(--rw-p)))}
.rw table.rw-table.rw-heat td.rw-changes{background:rgba(156,54,181,calc(.3*var(--rw-p)))}
.rw svg{display:block;font:600 12.5px var(--jp-ui-font-family,system-ui,sans-serif);color:inherit}
.rw svg text{fill:currentColor;stroke:none}
.rw svg .rw-small{font-weight:400;font-size:11px}
.rw svg .rw-card{fill:var(--rw-soft);stroke:var(--rw-line)}
.rw svg .rw-how-executed,.rw svg .rw-how-override{stroke:var(--rw-c);stroke-width:1.6}
.rw svg .rw-how-converged{stroke:var(--rw-c);stroke-dasharray:5 3}
.rw svg .rw-how-inherited{fill:none}
.rw .rw-legend{display:flex;flex-wrap:wrap;gap:4px 14px;margin-top:6px;font-size:12px;opacity:.9}
.rw .rw-legend i{font-style:normal;color:var(--rw-c);margin-right:4px}
.rw svg .rw-card-failed{stroke:var(--rw-bad);stroke-width:2}
.rw svg .rw-card-next{fill:none;stroke-dasharray:4 3;stroke:var(--rw-edge)}
.rw svg .rw-behind{fill:none;stroke:var(--rw-line);stroke-width:1.3}
.rw svg .rw-edge{fill:none;stroke:var(--rw-edge);stroke-width:1.3}
.rw svg .rw-edge-next{stroke-dasharray:4 3}
.rw svg .rw-tip{fill:var(--rw-edge);stroke:none}
.rw svg .rw-sign{fill:var(--rw-c)}
.rw svg .rw-bar{fill:var(--rw-c);stroke:none}
"""

_SOURCES = (
    "live",
    "cache",
    "tool-cache",
    "override",
    "refused",
    "render-cache",
    "reused",
    "inherited",
)

CSS = "".join(
    [
        f".rw{{{_LIGHT}}}",
        f"@media (prefers-color-scheme:dark){{{_THEME} .rw{{{_DARK}}}}}",
        f'[data-jp-theme-light="false"] .rw,.vscode-dark .rw{{{_DARK}}}',
        _RULES,
        *(
            f".rw .rw-{name}{{--rw-c:var(--rw-{name})}}"
            for name in (*_SOURCES, "bad", "good", "warn")
        ),
        ".rw .rw-converged{--rw-c:var(--rw-reused)}",
    ]
).replace("\n", "")
