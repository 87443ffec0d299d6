"""A Jupyter server in a process of its own, and a notebook of it in a browser."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

APPUTILS = "@jupyterlab/apputils-extension"
COMMAND = [
    "lab", "--no-browser", "--allow-root", "--ServerApp.port_retries=0", "--ServerApp.password=",
    "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True",
    "--LabApp.expose_app_in_browser=True", "--LabServerApp.extra_labextensions_path=[]",
    "--ServerApp.root_dir=.",
]  # fmt: skip


class Lab:
    """JupyterLab on a free port of 127.0.0.1, with all of its settings in a folder.

    Args:
        subshells: whether messages of widgets are handled while a cell executes.
    """

    def __init__(self, folder, *, subshells=True):
        self.folder = folder
        self.notebooks = folder / "notebooks"
        self.notebooks.mkdir()
        self._settings("notification", {"fetchNews": "false", "checkForUpdates": False})
        comms = "perCommTarget" if subshells else "disabled"
        self._settings("kernels-settings", {"commsOverSubshells": comms})

    def _settings(self, plugin, values):
        place = self.folder / "settings" / APPUTILS / f"{plugin}.jupyterlab-settings"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(values))

    def __enter__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        places = {
            "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime", "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "IPYTHONDIR": "ipython",
        }  # fmt: skip
        environment = {name: str(self.folder / place) for name, place in places.items()}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.url = f"http://127.0.0.1:{port}"
        self._log = (self.folder / "server.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jupyter", *COMMAND, f"--ServerApp.port={port}"],
            cwd=self.notebooks,
            env={**os.environ, **environment, "PATH": path},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._wait()
        return self

    def _wait(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if self._process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"{self.url}/api/status", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        self.__exit__()
        raise RuntimeError((self.folder / "server.log").read_text()[-3000:])

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()

    def open(self, page, name, *cells):
        """A new notebook of code cells, with its kernel ready."""
        self.write(name, *cells)
        return Notebook(page, f"{self.url}/lab/tree/{name}.ipynb?reset")

    def write(self, name, *cells):
        """A new notebook of code cells."""
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        bare = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        notebook = {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {"kernelspec": kernel},
            "cells": [{**bare, "id": f"cell-{i}", "source": cell} for i, cell in enumerate(cells)],
        }
        (self.notebooks / f"{name}.ipynb").write_text(json.dumps(notebook))


_READY = """() => {
  const kernel = window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel;
  return kernel?.connectionStatus === "connected" && kernel.status === "idle";
}"""
_RUN = """async (index) => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = index;
  notebook.deselectAll();
  window.jupyterapp.commands.execute("notebook:run-cell");
}"""
_COUNT = """(index) => window.jupyterapp.shell.currentWidget.content.widgets[index].model.executionCount"""
_OUTPUTS = """(index) =>
  window.jupyterapp.shell.currentWidget.content.widgets[index].model.outputs.toJSON()"""


class Notebook:
    """A notebook in JupyterLab."""

    def __init__(self, page, url):
        self.page = page
        page.goto(url)
        page.wait_for_function("() => window.jupyterapp !== undefined", timeout=60_000)
        page.locator(".jp-Notebook").first.wait_for(timeout=60_000)
        page.wait_for_function(_READY, timeout=60_000)

    def run(self, index, *, wait=True):
        """Execute a cell; its outputs where it was waited for."""
        before = self.page.evaluate(_COUNT, index)
        self.page.evaluate(_RUN, index)
        if not wait:
            return None
        script = f"""() => {{
          const count = ({_COUNT})({index});
          return count !== null && count !== {json.dumps(before)};
        }}"""
        self.page.wait_for_function(script, timeout=60_000)
        return self.outputs(index)

    def outputs(self, index):
        """What a cell put out, as it is stored."""
        return self.page.evaluate(_OUTPUTS, index)

    def text(self, index):
        """What a cell printed and what its last line is."""
        said = []
        for output in self.outputs(index):
            plain = output.get("text") or output.get("data", {}).get("text/plain", "")
            said.append(plain if isinstance(plain, str) else "".join(plain))
            said += output.get("traceback", [])
        return "".join(said)

    def value(self, index):
        """Execute a cell, and what it told."""
        self.run(index)
        return self.text(index).strip()

    def command(self, name, **arguments):
        """Execute a command of JupyterLab."""
        self.page.evaluate(
            "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => null)",
            [name, arguments],
        )

    def cells(self):
        """The sources of its cells."""
        return self.page.evaluate(
            "() => [...window.jupyterapp.shell.currentWidget.content.widgets].map((cell) => cell.model.sharedModel.getSource())"
        )

    def theme(self, name):
        self.command("apputils:change-theme", theme=f"JupyterLab {name}")
        self.page.wait_for_function(
            "(light) => document.body.dataset.jpThemeLight === light",
            arg="true" if name == "Light" else "false",
        )
        self.page.locator("#jupyterlab-splash").wait_for(state="hidden")
