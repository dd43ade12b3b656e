"""Addresses of speech servers: what can be one, and the endpoints under it. Light: the load worker imports it."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urljoin, urlsplit


def url_problem(url: str) -> str | None:
    """Why ``url`` cannot be the address of a server, None if it can. Never repeats a password."""
    shown = repr(re.sub(r"//[^/?#]*@", "//...@", url))
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or not url.isprintable() or " " in url:
        return f"{shown}: not an http or https URL, such as http://127.0.0.1:8091{_meant(url)}"
    if "@" in parts.netloc:
        return (
            f"{shown}: a user name or password in the URL would be stored with the run; put the key into an "
            "environment variable and name that in client.api_key_env"
        )
    if parts.query or parts.fragment:
        return f"{shown}: the address of a server, without '?' or '#'"
    return None


def _meant(url: str) -> str:
    """The end of a message about an address without scheme, or of IPv6 without its brackets, empty for any other."""
    if re.fullmatch(r"(\[[0-9a-fA-F:]+]|[\w.-]+)(:\d{1,5})?(/[\w./-]*)?", url):
        return f"; did you mean http://{url}?"
    scheme, _, rest = url.partition("://")
    address, slash, path = rest.partition("/")
    host, _, port = address.rpartition(":")
    for found, end in ((host, f":{port}"), (address, "")):
        if (not end or (len(port) > 3 and port.isdecimal())) and _is_ipv6(found):
            return f"; did you mean {scheme}://[{found}]{end}{slash}{path}?"
    return ""


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def is_on_this_machine(url: str) -> bool:
    """Whether the address is this machine's own loopback."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


_API = re.compile(r"/v1(/audio/speech(/stream)?|/chat/completions)?\Z")


def server_root(url: str) -> str:
    """A server's address without a slash at its end; it may be given with ``/v1``, and with an endpoint behind that."""
    return _API.sub("", url.rstrip("/")).rstrip("/")


def speech_url(base_url: str) -> str:
    """The speech endpoint of the server at ``base_url``."""
    return server_root(base_url) + "/v1/audio/speech"


def redirect_advice(url: str, location: str) -> str:
    """What helps where a server sends the request to ``url`` on to ``location``. The API's own path is fixed."""
    path, there = urlsplit(url).path, urlsplit(urljoin(url, location)).path
    api = path[path.rfind("/v1/") :]
    if there.endswith(f"{api}/"):
        return f"the client's path {api} is fixed: the server, or the proxy before it, must take it without the slash"
    return "set target.url to where the API is"
