"""The code fingerprint: has the code behind an action changed since it was recorded?

``fingerprint(target)`` digests what a callable says and depends on: its body without
comments and layout, defaults, bound parameters, closure, the functions and classes of
the user's own modules that it refers to, and immutable constants. What may change while
the code runs is kept apart: ``containers`` holds the content of mutable values, for the
caller to compare at the start and the end of a run (`CodeFingerprint.digest_with`);
``hidden_state`` lists what counts by its type only.

By module: `_value` looks at live values without running code, `_names` and `_source`
read code objects, `_imports` modules that are imported inside functions, `_walk` is the
graph, `_functions` and `_classes` say what its nodes are, `_fingerprint` the result, `_explain`
what two of them differ in.

Limits: attributes of instances are followed for the target alone; a method called on
another instance counts with the whole class; a module imported inside a function counts
by its whole text; what is reached by a computed name (``getattr``, ``globals()``) is
not seen.
"""

from rewind_nb._code._explain import explain
from rewind_nb._code._fingerprint import CodeFingerprint, fingerprint

__all__ = ["CodeFingerprint", "explain", "fingerprint"]
