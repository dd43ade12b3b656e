"""Every refusal of the server in one shape: ``{"error": {"message", "type", "param", "code"}}``."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from omni_bench.errors import OmniBenchError

_SHOWN_CHARS = 80


class ApiError(OmniBenchError):
    """An answer other than 200. ``param`` names the field at fault, ``code`` is for programs."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    def body(self) -> dict[str, dict[str, str | None]]:
        """The JSON body; ``type`` follows from the status, as in OpenAI's API."""
        return {
            "error": {"message": str(self), "type": error_type(self.status), "param": self.param, "code": self.code}
        }

    def response(self) -> web.Response:
        """The whole answer."""
        return web.json_response(self.body(), status=self.status, headers=self.headers)


def error_type(status: int) -> str:
    """``type`` of an error body."""
    if status == 429:
        return "rate_limit_error"
    if status == 503:
        return "service_unavailable_error"
    return "invalid_request_error" if status < 500 else "server_error"


def bad_request(message: str, param: str | None, code: str = "invalid_value") -> ApiError:
    """A 400."""
    return ApiError(400, message, param=param, code=code)


def unavailable(message: str, code: str) -> ApiError:
    """A 503 that may pass."""
    return ApiError(503, message, code=code, headers={"Retry-After": "1"})


def from_http_exception(error: web.HTTPException, request: web.Request, routes: str) -> ApiError:
    """aiohttp's own refusals (unknown route, wrong method and the like) in the server's shape."""
    if error.status == 404:
        return ApiError(404, f"no route {shown(request.path)}; valid: {routes}", code="not_found")
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        message = f"{shown(request.method)} is not allowed for {shown(request.path)}; valid: {allowed}"
        return ApiError(405, message, code="method_not_allowed", headers={"Allow": allowed})
    return ApiError(error.status, error.reason, code=error.reason.lower().replace(" ", "_"))


def shown(value: object) -> str:
    """A value of the client's for a message: quoted, cut to 80 characters, nothing unprintable."""
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."
