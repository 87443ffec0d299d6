"""What is captured inside a step: HTTP, tools, clock, random, uuid, artifacts.

Everything goes through one seam, `_exchange`: a call is opened in the context of the
running step (`_context`), answered from a recording or live, and recorded. Outside a step
nothing here has any effect.
"""
