"""MockHarness: a harness that replies from a script, for tests, examples and continuous integration.

Only the methods of a harness live here. `script` defines what a script may contain, `_doubles` how it is followed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Unpack, final

from graphrt.errors import ScriptError, names
from graphrt.errors._codes.doubles import SCRIPT_UNKNOWN_TOOL
from graphrt.harness._doubles.playback import ScriptPlayer
from graphrt.harness._doubles.reply_pieces import pieces
from graphrt.harness._doubles.schema_check import wrong_call
from graphrt.harness.messages import Prompt
from graphrt.harness.protocol import AgentReply, StreamItem
from graphrt.harness.request import ModelRequest, RunOptions
from graphrt.harness.script import Expectation, Pattern, Reply, expect

__all__ = ["Expectation", "MockHarness", "Pattern", "Reply", "expect"]


@final
class MockHarness(ScriptPlayer):
    """A harness that replies from a script, and raises ScriptError when the calls differ from the script.

    There are two forms of script, which may be combined. A call that matches a rule does not use up an ordered item.

    * *script*, a list: call n gets item n. An item is a reply, a function from the request to a reply, or
      `expect(pattern, reply=...)`, which also checks the call.
    * *rules*, a mapping from pattern to reply, for calls whose order is not fixed (parallel tasks). The first pattern
      that matches decides. A single reply answers any number of calls, but at least one; a list answers exactly as
      many calls as it has items, in order of arrival.

    Nothing repeats by itself. An unexpected call raises ScriptError. So does the end of a `with` block, or
    `assert_done()`, if replies are left over or a ScriptError was swallowed on the way.
    The mock stands in for an agent, so a call of a tool that was not offered is a mistake of the script: it raises
    ScriptError too.
    It may be called from several tasks, event loops and worker threads at once.

    Args:
        script: The ordered replies, or the mapping of rules.
        rules: The rules, if there is an ordered script too.
        usage: Usage of replies that have none: "words" counts words (of all messages in, of the reply out), a Usage
            is used as is, None reports unknown usage.
        model: Model name in replies that have none, for calls that choose no model.
        check_calls: Whether a call of a tool that does not fit the tool's present schema raises ScriptError. False for
            a test of such a call.
    """

    async def run(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AgentReply:
        """Reply from the script.

        Raises:
            ScriptError: The script does not expect this call, or replies with a tool that the call does not offer.
            BaseException: The scripted exception.
        """
        return await self._answer(ModelRequest.build(prompt, options, defaults={"model": self._model}))

    async def stream(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AsyncGenerator[StreamItem, None]:
        """Reply from the script, word by word; a scripted exception is raised before the first word."""
        reply = await self.run(prompt, **options)
        for piece in pieces(reply):
            yield piece
        yield reply

    def _check(self, reply: AgentReply, request: ModelRequest, number: int) -> None:
        offered = [tool.name for tool in request.tools]
        unbound = [call.name for call in reply.tool_calls if call.name not in offered]
        failure: ScriptError | None = None
        if unbound:
            failure = SCRIPT_UNKNOWN_TOOL(
                tool_name=unbound[0], number=number, offered=names(offered) or "no tools", expected=unbound, got=offered
            )
        elif self._check_calls:
            schemas = {tool.name: tool.parameters for tool in request.tools}
            failure = wrong_call(self._name, reply.tool_calls, schemas) if reply.tool_calls else None
        if failure is not None:
            with self._lock:  # kept for assert_done(), in case the code under test swallows it
                self._book.failures.append(failure)
            raise failure
