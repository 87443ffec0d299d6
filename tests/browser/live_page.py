"""A widget in a page of its own that asks the Python of the test: no kernel between them."""

import json

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>live</title>
<meta name="color-scheme" content="light dark"><style>body{margin:16px;background:#fff}
@media (prefers-color-scheme:dark){body{background:#111418}} %s</style>
<body><div id="rewind"></div></body></html>"""

_START = """async ([code, state]) => {
  const heard = new Map();
  const tell = (event, ...told) => { for (const each of [...(heard.get(event) ?? [])]) each(...told); };
  const put = (name, value) => { state[name] = value; tell(`change:${name}`); };
  window.put = (told) => { for (const [name, value] of Object.entries(told)) put(name, value); };
  const model = {
    get: (name) => state[name],
    set(name, value) {
      put(name, value);
      window.setTrait(name, value).then((told) => {
        for (const [other, now] of Object.entries(told))
          if (JSON.stringify(now) !== JSON.stringify(state[other])) put(other, now);
      });
    },
    save_changes() {},
    on: (name, each) => heard.set(name, [...(heard.get(name) ?? []), each]),
    off: (name, each) => heard.set(name, (heard.get(name) ?? []).filter((one) => one !== each)),
    async send(question) { tell("msg:custom", { id: question.id, ...(await window.answer(question)) }); },
  };
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  (await import(url)).default.render({ model, el: document.getElementById("rewind") });
}"""


class LivePage:
    """Shows a widget; `sync` tells the page what its traits are by now.

    Attributes:
        asked: the kinds of question the page asked, in their order.
    """

    def __init__(self, page, view):
        self.page, self.view, self.asked = page, view, []
        page.expose_function("answer", self._answer)
        page.expose_function("setTrait", self._set)
        page.set_content(_PAGE % view._css)
        page.evaluate(_START, [view._esm, self._state()])

    def _answer(self, question):
        self.asked.append(question["ask"])
        return json.loads(json.dumps(self.view.answer(question)))

    def _set(self, name, value):
        setattr(self.view, name, value)
        return self._state()

    def _state(self):
        return json.loads(json.dumps(self.view.state()))

    def sync(self):
        """Tell the page what the traits are by now."""
        self.page.evaluate("(told) => window.put(told)", self._state())
