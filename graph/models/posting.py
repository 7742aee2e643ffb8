"""One JSON request to an OpenAI-compatible endpoint, and what comes back.

The openai client's own `post` builds a request three times over, 0.35 ms of CPU. Here its address,
authentication, time limit and errors are used; the request goes over a connection of wire.py, or, where that
cannot serve, the client's own. Nothing is tried again: the router does that.
"""

import json
from collections.abc import Mapping
from typing import Any

import httpx2
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI

from lockstitch.graph.models.wire import wires_of


class Endpoint:
    """One address of an OpenAI client's server."""

    def __init__(self, client: AsyncOpenAI, path: str) -> None:
        """`path` is below the client's base URL."""
        self._client = client._client  # noqa: SLF001  its connections: no public name leads to them
        base = client.base_url
        self._url = base.copy_with(raw_path=base.raw_path.rstrip(b"/") + path.encode())
        own = {**client.default_headers, **client.auth_headers}  # one that is left out is no text
        self._headers = {name: value for name, value in own.items() if isinstance(value, str)}
        self._extensions = {"timeout": httpx2.Timeout(client.timeout).as_dict()}
        self._wires = wires_of(self._client, self._url)

    async def post(self, content: bytes, *, headers: Mapping[str, str], params: Mapping[str, Any]) -> Any:
        """Send `content`; the JSON of the reply, its text where it is none.

        Raises:
            openai.APIStatusError: the endpoint refused; with its answer.
            openai.APITimeoutError, openai.APIConnectionError: there was no answer.
        """
        request = httpx2.Request(
            "POST",
            self._url.copy_merge_params(params) if params else self._url,
            content=content,
            headers={**self._headers, **headers},
            extensions=self._extensions,
        )
        try:
            response = await self._send(request)
        except httpx2.TimeoutException as error:
            raise APITimeoutError(request=request) from error
        except httpx2.RequestError as error:
            raise APIConnectionError(request=request) from error
        body = _json_or_text(response)
        if response.is_error:
            said = body.get("error", body) if isinstance(body, dict) else body
            raise APIStatusError(f"Error code: {response.status_code} - {body}", response=response, body=said)
        return body

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        if self._wires:
            response = await self._wires.send(request)
            if not response.has_redirect_location:
                return response
            self._wires = None  # httpx2 knows how to follow, and is asked from now on
        return await self._client.send(request, follow_redirects=True)


def _json_or_text(response: httpx2.Response) -> Any:
    try:
        return json.loads(response.content)
    except ValueError:
        return response.text
