"""One JSON request to an OpenAI-compatible endpoint, and what comes back.

The openai client's own `post` builds a request three times over, 0.35 ms of CPU. Here its address,
authentication, time limit and errors are used; the request goes over a connection of wire.py, or, where that
cannot serve, the client's own. Nothing is tried again: the router does that.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import httpx2
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI

from lockstitch.graph.models.wire import head_of, wires_of, with_content
from lockstitch.graph.models.wire_reply import Reply


class Endpoint:
    """One address of an OpenAI client's server."""

    def __init__(self, client: AsyncOpenAI, path: str) -> None:
        """`path` is below the client's base URL."""
        self._client = client._client  # noqa: SLF001  its connections: no public name leads to them
        base = client.base_url
        self._url = base.copy_with(raw_path=base.raw_path.rstrip(b"/") + path.encode())
        own = {**client.default_headers, **client.auth_headers}  # one that is left out is no text
        self._headers = {name: value for name, value in own.items() if isinstance(value, str)}
        self._limits = httpx2.Timeout(client.timeout).as_dict()
        self._known: tuple[Mapping[str, str] | None, bytes] = (None, b"")  # headers, and the head with them
        self._wires = wires_of(self._client, self._url)

    async def post(self, content: bytes, *, headers: Mapping[str, str], params: Mapping[str, Any]) -> Any:
        """Send `content`; the JSON of the reply, its text where it is none.

        Raises:
            openai.APIStatusError: the endpoint refused; with its answer.
            openai.APITimeoutError, openai.APIConnectionError: there was no answer.
        """
        asked = partial(self._request, content, headers, params)  # made where somebody looks at it: 0.1 ms
        try:
            if self._wires:
                whole = with_content(self._head(headers, params), content)
                reply = await self._wires.send(self._url, whole, self._limits)
                if (read := _plain_json(reply)) is not None:
                    return read
                response = reply.response(asked())
            if not self._wires or response.has_redirect_location:
                self._wires = None  # httpx2 knows how to follow, and is asked from now on
                response = await self._client.send(asked(), follow_redirects=True)
        except httpx2.TimeoutException as error:
            raise APITimeoutError(request=asked()) from error
        except httpx2.RequestError as error:
            raise APIConnectionError(request=asked()) from error
        body = _json_or_text(response)
        if response.is_error:
            said = body.get("error", body) if isinstance(body, dict) else body
            raise APIStatusError(f"Error code: {response.status_code} - {body}", response=response, body=said)
        return body

    def _request(
        self, content: bytes, headers: Mapping[str, str], params: Mapping[str, Any]
    ) -> httpx2.Request:
        url = self._url.copy_merge_params(params) if params else self._url
        own = {**self._headers, **headers}
        return httpx2.Request("POST", url, content=content, headers=own, extensions={"timeout": self._limits})

    def _head(self, headers: Mapping[str, str], params: Mapping[str, Any]) -> bytes:
        """As `head_of`, made once for the headers that are sent again and again."""
        if params or headers != self._known[0]:
            head = head_of(self._request(b"", headers, params))
            if params:
                return head
            self._known = (dict(headers), head)
        return self._known[1]


def _plain_json(reply: Reply) -> Any:
    """The JSON of a usual reply; None of any other."""
    try:
        return json.loads(reply.body) if reply.is_plain else None
    except ValueError:
        return None


def _json_or_text(response: httpx2.Response) -> Any:
    try:
        return json.loads(response.content)
    except ValueError:
        return response.text
