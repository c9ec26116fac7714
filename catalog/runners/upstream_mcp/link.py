"""One open connection to an upstream server, with the official client, at a revision that both support.

A link serves one call at a time: the questions and reports of the server in between belong to that call without doubt.
A task of its own opens and closes the link, because the client's task groups must end in the task where they began. The
caller's own credentials are unknown here; the headers are the administrator's, with secrets filled in.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any

from catalog.message_load import MessageLoad, TooManyValues
from catalog.runners import networks
from catalog.runners.upstream_mcp import pipes
from catalog.runners.upstream_mcp.connection import Connection
from catalog.runners.upstream_mcp.failures import UpstreamError, failure, refused_error, timeout_error
from catalog.runners.upstream_mcp.steps import Steps
from toolhub import __version__, egress
from toolhub.wire.json_size import MAX_VALUES

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.session import ClientSession

MAX_MESSAGE_BYTES = 16_777_216
"""Maximum size of one message of an upstream server, in bytes."""
MAX_SILENCE_SECONDS = 1800.0
"""Maximum silence of an upstream's stream, in seconds."""
APPS: Mapping[str, dict[str, Any]] = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
"""The extension that says that pages are kept (MCP Apps): some servers show them to such clients only."""
BEGINNINGS = frozenset(
    {"initialize", "server/discover", "completion/complete"}
    | {"tools/list", "tools/call", "prompts/list", "prompts/get"}
    | {"resources/list", "resources/templates/list", "resources/read"}
)
"""Requests whose refusal (401) means that nothing ran; not those about a task that has begun, nor notifications."""
MAX_PAGES = 100
"""Maximum number of pages of one list that are read."""
log = logging.getLogger(__name__)


async def list_pages(ask: Callable[..., Awaitable[Any]]) -> AsyncIterator[Any]:
    """Yield the pages of a list of the session; at most MAX_PAGES, of which the last one still names a next one."""
    from mcp_types import PaginatedRequestParams

    cursor = None
    for _ in range(MAX_PAGES):
        page = await ask(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


class QuestionHandler:
    """The answers of a call to the upstream's questions: replaced for every call that uses the link."""

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise UpstreamError("no client can be asked")

    async def log(self, level: str, data: Any, name: str | None) -> None:
        return


NO_CLIENT = QuestionHandler()


class Link:
    """A connection: `open` it, then use `session`; `alive` tells whether it is still usable."""

    def __init__(
        self,
        connection: Connection,
        secrets: Mapping[str, str],
        capabilities: Mapping[str, Any] | None = None,
        on_change: Callable[[int], object] | None = None,
        load: MessageLoad | None = None,
        steps: Steps | None = None,
    ) -> None:
        self.connection = connection
        self._load, self._steps = load or MessageLoad(), steps or Steps()
        self._secrets = dict(secrets)
        self._capabilities = capabilities or {}
        self._on_change = on_change
        self.questions: QuestionHandler = NO_CLIENT
        self.client: Client | None = None
        self.alive = False
        self.opened_at = time.monotonic()
        self.refused = False
        """Whether the server refused a request (401); the official client says only that there was an error."""
        self.rejected: TooManyValues | None = None
        """Why a message of the server was not read; the official client says only that the response ended."""
        self.listed: dict[str, str] = {}
        """The tools that this session has listed, and so their parameters in headers, with their support of tasks."""
        self._closing = asyncio.Event()
        self._linger = 0.0
        self._keeper: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open the connection. Raises UpstreamError with a sentence."""
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The context is a new one: nothing of the call that happens to be the first one may leak into it.
        self._keeper = asyncio.get_running_loop().create_task(
            self._keep_open(opened), name=f"upstream {self.connection.upstream}", context=contextvars.Context()
        )
        try:
            await asyncio.wait_for(asyncio.shield(opened), self.connection.timeout)
        except TimeoutError:
            self.close()
            if self._keeper is not None:
                self._keeper.cancel()
            raise timeout_error(self.connection) from None
        except asyncio.CancelledError:
            self.close()
            self._keeper.cancel()
            raise

    def close(self, linger: float = 0.0) -> None:
        """Close the link in the background; after `linger` seconds, so that a last message can still be sent."""
        self.alive = False
        self._linger = linger
        self._closing.set()

    async def wait_closed(self) -> None:
        self.close()
        if self._keeper is not None:
            await asyncio.wait({self._keeper})

    @property
    def session(self) -> ClientSession:
        assert self.client is not None  # noqa: S101 - only after `open`
        return self.client.session

    @property
    def revision(self) -> str:
        return self.client.protocol_version if self.client is not None else ""

    async def _keep_open(self, opened: asyncio.Future[None]) -> None:
        try:
            async with AsyncExitStack() as stack:
                self.client = await stack.enter_async_context(await self._client(stack))
                self.alive = True
                await self._prepare(stack)
                if not opened.done():
                    opened.set_result(None)
                await self._closing.wait()
                if self._linger:
                    await asyncio.sleep(self._linger)
        except asyncio.CancelledError:
            if not opened.done():
                opened.cancel()
            raise
        except BaseException as error:  # noqa: BLE001 - the boundary to a foreign library; groups of errors too
            failed = refused_error(self.connection) if self.refused else failure(self.connection, error)
            if not opened.done():
                opened.set_exception(failed)
                opened.exception()
            elif not self._closing.is_set():
                log.info("%s: the connection ended: %s", self.connection.label, failed)
        finally:
            self.alive = False

    async def _client(self, stack: AsyncExitStack) -> AbstractAsyncContextManager[Client]:
        from mcp import Client
        from mcp.client.extension import advertise
        from mcp_types import Implementation, SamplingCapability

        sampling = self._capabilities.get("sampling")
        return Client(
            await self._transport(stack),
            client_info=Implementation(name="toolhub", version=__version__),
            sampling_callback=self._question_callback("sampling/createMessage") if sampling is not None else None,
            sampling_capabilities=SamplingCapability.model_validate(sampling) if sampling else None,
            elicitation_callback=(
                self._question_callback("elicitation/create")
                if self._capabilities.get("elicitation") is not None
                else None
            ),
            list_roots_callback=self._roots if self._capabilities.get("roots") is not None else None,
            logging_callback=self._on_log,
            log_level="debug",
            message_handler=self._on_message,
            cache=None,
            extensions=[advertise(name, settings) for name, settings in APPS.items()] if self.connection.apps else None,
        )

    async def _transport(self, stack: AsyncExitStack) -> Any:
        from mcp.client.sse import sse_client
        from mcp.client.streamable_http import streamable_http_client

        connection = self.connection
        revealed = connection.reveal_values(self._secrets)
        if connection.transport == "stdio":
            return pipes.open_pipes(connection, revealed, MAX_MESSAGE_BYTES, self._load)

        def http_client(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
            return egress.checked_client(
                headers=revealed,
                timeout=connection.timeout,
                read_timeout=MAX_SILENCE_SECONDS,
                max_bytes=MAX_MESSAGE_BYTES,
                resolver=self._steps.watch_resolver(networks.resolver()),
                allowed=networks.allowed_within(connection.allowed_networks),
                watch=self._watch,
                on_status=self._note_status,
                trace=self._steps.trace(),
            )

        if connection.transport == "sse":
            return sse_client(connection.url, httpx_client_factory=http_client)
        client = await stack.enter_async_context(http_client())
        return streamable_http_client(connection.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES)

    def _note_status(self, request: Any, status: int) -> None:
        """Note that the server refused the credentials of a request that began something."""
        if status != 401:
            return
        if request.method == "GET" and not self.alive:  # the stream with which SSE begins
            self.refused = True
            return
        try:
            message = json.loads(request.content)
        except (ValueError, RuntimeError):  # no message, or one that is not at hand
            return
        if isinstance(message, dict) and "id" in message and message.get("method") in BEGINNINGS:
            self.refused = True

    def _watch(self, is_event_stream: bool) -> Callable[[bytes], Awaitable[None]]:
        read = self._load.watch(is_event_stream)

        async def read_or_log(data: bytes) -> None:
            try:
                await read(data)
            except TooManyValues as error:
                self.rejected = error
                log.warning("%s sent a message with more than %d values", self.connection.label, MAX_VALUES)
                raise

        return read_or_log

    async def _prepare(self, stack: AsyncExitStack) -> None:
        """Subscribe to log lines and changes of the lists, where the server has them."""
        assert self.client is not None  # noqa: S101 - it was entered
        capabilities = self.client.server_capabilities
        if self.client.session.initialize_result is not None:
            if capabilities.logging is not None:
                from mcp_types import EmptyResult, SetLevelRequest, SetLevelRequestParams

                request = SetLevelRequest(params=SetLevelRequestParams(level="debug"))
                with contextlib.suppress(Exception):  # a server that refuses its own capability still has tools
                    await self.client.session.send_request(request, EmptyResult)
        elif self._on_change is not None and any(
            listed is not None and listed.list_changed
            for listed in (capabilities.tools, capabilities.resources, capabilities.prompts)
        ):
            listening = asyncio.get_running_loop().create_task(self._listen(), name="upstream changes")
            stack.callback(listening.cancel)

    async def _listen(self) -> None:
        """Receive changes on their own stream, as servers send them from 2026-07-28 on.

        The stream may end before the connection does.
        """
        assert self.client is not None  # noqa: S101
        for pause in (1.0, 5.0, 30.0, 300.0):
            began = False
            try:
                listening = self.client.listen(
                    tools_list_changed=True, resources_list_changed=True, prompts_list_changed=True
                )
                async with listening as events:
                    began = True
                    async for _ in events:
                        self._notify_changed()
            except Exception as error:  # noqa: BLE001 - the schedule still finds every change
                log.debug("%s: changes are not heard: %s", self.connection.label, error)
            if not began:
                return
            await asyncio.sleep(pause)
            self._notify_changed()  # changes during the pause are not announced again

    def _notify_changed(self) -> None:
        if self._on_change is not None:
            self._on_change(self.connection.upstream)

    async def _on_message(self, message: Any) -> None:
        from mcp_types import (
            PromptListChangedNotification,
            ResourceListChangedNotification,
            ToolListChangedNotification,
        )

        changed = (PromptListChangedNotification, ResourceListChangedNotification, ToolListChangedNotification)
        if isinstance(message, changed):
            self._notify_changed()

    async def _on_log(self, params: Any) -> None:
        await self.questions.log(str(params.level), params.data, params.logger)

    def _question_callback(self, method: str) -> Any:
        from mcp_types import CreateMessageResult, CreateMessageResultWithTools, ElicitResult, ErrorData

        async def callback(context: Any, params: Any) -> Any:
            asked = params.model_dump(by_alias=True, mode="json", exclude_none=True)
            asked.pop("_meta", None)
            try:
                answer = await self.questions.ask(method, asked)
                if method == "elicitation/create":
                    return ElicitResult.model_validate(answer)
                if isinstance(answer.get("content"), list):
                    return CreateMessageResultWithTools.model_validate(answer)
                return CreateMessageResult.model_validate(answer)
            except UpstreamError as error:
                return ErrorData(code=-32603, message=str(error))
            except ValueError:
                return ErrorData(code=-32603, message="the answer is not valid")

        return callback

    async def _roots(self, context: Any) -> Any:
        from mcp_types import ErrorData, ListRootsResult

        try:
            return ListRootsResult.model_validate(await self.questions.ask("roots/list", {}))
        except UpstreamError as error:
            return ErrorData(code=-32603, message=str(error))
        except ValueError:
            return ErrorData(code=-32603, message="the answer is not valid")
