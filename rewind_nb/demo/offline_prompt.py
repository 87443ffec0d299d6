"""A prompt as the offline model sees it: a state, some words, and how to word the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

WORDINGS = 27  # three phrases per answer, three ways to say each


class CannotAnswerError(Exception):
    """The prompt is none that the offline model understands; the message says why."""


@dataclass
class Prompt:
    """What an answer is made from.

    Attributes:
        state: the state that the prompt brings.
        words: the prompt without its JSON objects.
        wording: the number whose digits choose the phrases.
    """

    state: dict[str, Any]
    words: str
    wording: int

    def say(self, *ways: str) -> str:
        """The next phrase, in the way that the wording's next digit chooses.

        Example:
            >>> prompt = Prompt({}, "", wording=5)  # the digits are 2, then 1, then 0
            >>> [prompt.say("a", "b", "c") for _ in range(3)]
            ['c', 'b', 'a']
        """
        self.wording, digit = divmod(self.wording, 3)
        return ways[digit]


def split(prompt: str) -> tuple[list[tuple[dict[str, Any], int]], str]:
    """The JSON objects of a text with their lengths, and the text without them.

    Example:
        >>> split('Answer with {"n": 1} now.')
        ([({'n': 1}, 8)], 'Answer with  now.')
    """
    decoder = json.JSONDecoder()
    objects: list[tuple[dict[str, Any], int]] = []
    words, at = "", 0
    while (start := prompt.find("{", at)) >= 0:
        words += prompt[at:start]
        try:
            value, end = decoder.raw_decode(prompt, start)
        except ValueError:
            end = start + 1
        else:
            objects.append((value, end - start))
        at = end
    return objects, words + prompt[at:]
