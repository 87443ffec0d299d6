"""Law 13: a secret never reaches a row, file, log line, exception, widget, repr or output."""

from __future__ import annotations

import base64
import copy
import inspect
import json
import pickle
import string
import traceback
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewind_nb import _redact
from rewind_nb._secrets import (
    MIN_REGISTERED,
    SECRET_HEADERS,
    Secret,
    contains_secret,
    is_secret_parameter,
    redact,
    redact_bytes,
    register_secret,
    safe_url,
)
from rewind_nb.errors import ConfigError

CANARY = 'sk-CANARY-7f3a/+9Q=&"quoted"\'\\end'

# "*" is left out: the mask itself may complete a key that holds asterisks.
keys = st.text(
    st.sampled_from([c for c in string.printable if c.isprintable() and c not in " *"]),
    min_size=MIN_REGISTERED,
    max_size=60,
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.fixture(autouse=True, scope="module")
def registry():
    """Generated keys such as "00000000" must not be secrets to the tests of other modules."""
    kept, _redact._registry = _redact._registry, _redact._Registry()
    yield
    _redact._registry = kept


@pytest.fixture
def secret():
    return Secret(CANARY)


def test_only_reveal_shows_a_secret(secret):
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>60}", f"{secret!s} {secret!r}"]
    assert secret.reveal() == CANARY
    assert {s.strip() for s in shown} == {"Secret(***)", "Secret(***) Secret(***)"}


def test_attributes_of_a_secret_do_not_show_it(secret):
    assert not hasattr(secret, "__dict__")
    members = [value for name, value in inspect.getmembers(secret)]
    assert CANARY not in repr(members)
    assert CANARY not in repr([getattr(secret, n) for n in Secret.__slots__ if hasattr(secret, n)])


def test_a_secret_cannot_be_pickled_nor_turned_into_json(secret):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps({"key": secret}, protocol)
    with pytest.raises(TypeError, match="cannot be pickled"):
        secret.__getstate__()
    with pytest.raises(TypeError):
        json.dumps(secret)


def test_a_copy_of_a_secret_is_the_secret_itself(secret):
    assert copy.copy(secret) is secret
    assert copy.deepcopy({"key": [secret]})["key"][0] is secret


def test_secrets_compare_by_what_they_hold_and_never_with_text(secret):
    assert secret == Secret(CANARY)
    assert hash(secret) == hash(Secret(CANARY))
    assert secret != Secret("sk-another-key")
    assert secret != CANARY


def test_a_secret_names_the_reason_why_it_is_never_stored(secret):
    assert secret.__rewind_refuse__ == "a Secret is never stored"


@pytest.mark.parametrize(
    "bad",
    [
        "sk-CANARY-key\n",
        "\tsk-CANARY-key",
        "sk-CANARY key",
        "sk-CANARY-key\r\n",
        "sk-CANARY-key\x00",
        "sk-CANARY-key\x7f",
        "“sk-CANARY-key”",
        "sk-CANARY-kéy",
        "sk-CANARY-\u00a0key",
        "",
        None,
        b"sk-CANARY-key",
        ["sk-CANARY-key"],
    ],
)
def test_a_malformed_key_is_refused_without_being_quoted(bad):
    with pytest.raises(ConfigError) as caught:
        Secret(bad)
    error = caught.value
    assert "CANARY" not in "".join(traceback.format_exception(error))
    assert "CANARY" not in repr((error, error.args, vars(error), error.__context__))
    inner = traceback.TracebackException.from_exception(error, capture_locals=True).stack[-1]
    assert "CANARY" not in repr(inner.locals)
    assert "sk-" not in str(error)
    assert not any(c.isdigit() for c in str(error))  # nor its length, nor a position


@given(key=keys, before=texts, after=texts)
def test_redact_leaves_no_encoding_of_a_registered_secret(key, before, after):
    register_secret(key)
    whole = f"{before}{key}{after}"
    assert key not in redact(whole)
    assert quote(key, safe="") not in redact(quote(whole, safe=""))
    assert json.dumps(key)[1:-1] not in redact(json.dumps(whole))
    assert key.encode() not in redact_bytes(whole.encode())


@pytest.mark.thorough
@given(key=keys, before=st.binary(max_size=7), after=st.binary(max_size=7))
def test_redact_finds_a_secret_inside_base64_at_every_alignment(key, before, after):
    register_secret(key)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        packed = encode(before + key.encode() + after).decode()
        clean = redact(packed)
        assert "***" in clean
        assert len(clean) <= len(before) * 4 / 3 + len(after) * 4 / 3 + 12


@given(text=texts, data=st.binary(max_size=40))
def test_what_holds_no_secret_comes_back_as_it_was(text, data):
    _redact._registry = _redact._Registry()  # generated keys may occur in generated text
    register_secret(CANARY)
    assert redact(f"clean {text}") == f"clean {text}"
    assert redact_bytes(data) == data


def test_bytes_that_are_not_text_keep_their_bytes_around_the_secret():
    register_secret(CANARY)
    assert redact_bytes(b"\xff\xfe" + CANARY.encode() + b"\x80") == b"\xff\xfe***\x80"


@pytest.mark.parametrize(
    "echo",
    ["sk-proj-***wxyz", "sk-proj-AB*********wxyz", "sk-proj-ABCD…wxyz", "sk-proj-ABCD...wxyz"],
)
def test_a_half_masked_echo_of_a_key_is_masked_whole(echo):
    register_secret("sk-proj-ABCDEFGHIJKLMNOPQRSTUVwxyz")
    assert redact(f"Incorrect API key provided: {echo}. See docs") in (
        "Incorrect API key provided: ***. See docs",
        "Incorrect API key provided: *** See docs",
    )


def test_contains_secret_sees_raw_and_json_escaped_forms():
    register_secret(CANARY)
    assert contains_secret(f"x{CANARY}y")
    assert contains_secret(f"x{CANARY}y".encode())
    assert contains_secret(json.dumps({"a": CANARY}))
    assert contains_secret(json.dumps({"a": CANARY}).encode())
    assert not contains_secret(CANARY[:-1])
    assert not contains_secret(b"\xff\x00 nothing")


def test_a_value_too_short_to_tell_apart_is_not_scrubbed_from_data():
    Secret("none")
    register_secret("Bearer test")
    assert redact("none test") == "none test"
    assert not contains_secret("none test")


def test_the_scheme_of_an_authorization_header_is_not_part_of_the_secret():
    register_secret("Bearer tok-4711-abcdef")
    assert redact("Bearer and tok-4711-abcdef") == "Bearer and ***"


def test_header_names_are_lower_case_and_hold_what_httpx_shows():
    assert {"authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie"} <= SECRET_HEADERS
    assert all(name == name.lower() for name in SECRET_HEADERS)


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://me:pw@api.test:8443/v1?a=1#top", "https://api.test:8443/v1?a=1#top"),
        ("https://api.test/?KEY=abc&page_token=2", "https://api.test/?KEY=***&page_token=2"),
        ("https://api.test/?api%2Dkey=abc;sig=x%3Dy", "https://api.test/?api%2Dkey=***;sig=***"),
        ("https://api.test/?X-Amz-Signature=abc", "https://api.test/?X-Amz-Signature=***"),
        (
            "https://api.test/#access_token=abc&state=1",
            "https://api.test/#access_token=***&state=1",
        ),
        ("https://api.test/v1?q=a%20b&flag", "https://api.test/v1?q=a%20b&flag"),
        ("https://[::1/v1?key=abc", "***"),
    ],
)
def test_a_safe_url_has_no_credential_and_is_otherwise_unchanged(url, safe):
    assert safe_url(url) == safe


def test_a_registered_secret_in_the_path_of_a_url_is_masked():
    register_secret("tok-in-the-path")
    assert safe_url("https://api.test/bot/tok-in-the-path/send") == "https://api.test/bot/***/send"


def test_paging_tokens_are_not_taken_for_credentials():
    assert not is_secret_parameter("page_token")
    assert is_secret_parameter("access_token")
