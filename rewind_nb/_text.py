"""Terminal text (placeholder until the views land)."""


def diff_text(diff):
    return repr(diff)


def run_text(run):
    return repr(run)


def tree_text(runs):
    return "\n".join(map(repr, runs))
