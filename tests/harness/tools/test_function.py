"""`@tool`: a typed function becomes a tool, and can still be called."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import subprocess
import sys
import threading
from typing import Any

import pytest

from graphrt.errors import InputError, ToolError
from graphrt.harness.tools.function import FunctionTool, tool
from graphrt.harness.tools.protocol import ToolPolicy, ToolResult

WORD: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="unset")


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(name="look_up", effect="pure", timeout_s=3, on_error="raise", approval=True, max_result_chars=10)
async def search(query: str) -> str:
    """Find something."""
    await asyncio.sleep(0)
    return f"about {query}, much"


def call(made: FunctionTool[..., Any], arguments: dict[str, Any], context: Any) -> ToolResult:
    return asyncio.run(made.call(made.check(arguments), context))


def test_decorated_function_stays_callable_and_keeps_its_metadata() -> None:
    assert add(1, b=2) == 3
    assert asyncio.run(search("tea")) == "about tea, much"
    face: Any = add
    assert (face.__name__, face.__doc__, face.__module__) == ("add", "Add two numbers.", __name__)
    assert list(inspect.signature(add).parameters) == ["a", "b"]
    assert repr(add) == "FunctionTool('add')"


def test_spec_is_built_from_name_docstring_and_signature() -> None:
    assert add.spec.name == "add"
    assert add.spec.description == "Add two numbers."
    assert add.spec.parameters == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert add.spec is add.spec


def test_function_without_parameters_has_an_empty_object_as_schema() -> None:
    @tool
    def now() -> str:
        return "noon"

    assert now.spec.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert now.spec.description == ""


def test_options_set_the_policy_and_the_name() -> None:
    assert search.spec.name == "look_up"
    assert search.policy == ToolPolicy(effect="pure", timeout_s=3, on_error="raise", approval=True, max_result_chars=10)
    assert add.policy == ToolPolicy()


def test_call_returns_text_for_the_model_and_a_value_for_the_program(context: Any) -> None:
    assert call(add, {"a": 1}, context()) == ToolResult(text="2", value=2)
    assert call(search, {"query": "tea"}, context()).text == "about tea, much"


def test_sync_function_runs_in_a_worker_thread_with_the_callers_context_variables(context: Any) -> None:
    @tool
    def where() -> list[Any]:
        return [threading.current_thread() is threading.main_thread(), WORD.get()]

    async def ask() -> Any:
        WORD.set("kept")
        return (await where.call({}, context())).value

    assert asyncio.run(ask()) == [False, "kept"]


def test_sync_functions_do_not_block_the_loop(context: Any) -> None:
    gate = threading.Barrier(3, timeout=20)

    @tool
    def meet() -> int:
        return gate.wait() * 0

    async def ask() -> list[Any]:
        return await asyncio.gather(*(meet.call({}, context()) for _ in range(3)))

    assert [result.value for result in asyncio.run(ask())] == [0, 0, 0]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_error_of_the_function_is_raised_unchanged(kind: str, context: Any) -> None:
    def fails() -> None:
        raise KeyError("x")

    async def fails_later() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        call(tool(fails if kind == "sync" else fails_later), {}, context())


def test_stop_iteration_of_a_function_does_not_hang_the_caller(context: Any) -> None:
    @tool
    def runs_out() -> str:
        return next(iter([]))

    with pytest.raises(RuntimeError, match="StopIteration"):
        call(runs_out, {}, context())


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_tool_that_exits_the_program_only_fails(kind: str, context: Any) -> None:
    def leave() -> None:
        sys.exit(3)

    async def leave_later() -> None:
        sys.exit(3)

    with pytest.raises(RuntimeError, match=r"sys\.exit\(3\)"):
        call(tool(leave if kind == "sync" else leave_later), {}, context())


HANGS = """
import asyncio, time
from graphrt.harness import ToolCall, ToolContext, tool

@tool
def hang() -> None:
    time.sleep(3600)

@tool
def quick() -> str:
    return "done"

async def main():
    context = ToolContext(call=ToolCall(id="1", name="hang"))
    async def one():
        try:
            async with asyncio.timeout(0.2):
                await hang.call({}, context)
        except TimeoutError:
            return "given up"
    print(set(await asyncio.gather(*(one() for _ in range(50)))), (await quick.call({}, context)).text)

asyncio.run(main())
"""


def test_hanging_functions_block_neither_other_tools_nor_the_exit_of_the_program() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60, check=True)

    assert (done.stdout, done.stderr) == ("{'given up'} done\n", "")


def test_methods_partials_and_callable_objects_can_be_tools(context: Any) -> None:
    class Shop:
        def price(self, item: str) -> str:
            """What it costs."""
            return f"{item}: 3"

        async def __call__(self, item: str) -> str:
            return item

    def scale(by: int, n: int) -> int:
        return by * n

    assert tool(functools.partial(scale, 2)).spec.description == ""
    price = tool(Shop().price)
    assert (price.spec.name, price.spec.description) == ("price", "What it costs.")
    assert call(price, {"item": "tea"}, context()).text == "tea: 3"
    assert call(tool(name="shop")(Shop()), {"item": "tea"}, context()).text == "tea"
    assert call(tool(functools.partial(scale, 2)), {"n": 4}, context()).text == "8"


def test_awaitable_that_a_sync_function_returns_is_awaited(context: Any) -> None:
    async def later() -> int:
        return 7

    @tool
    def soon() -> Any:
        return later()

    assert call(soon, {}, context()).value == 7


def test_printing_is_harmless(context: Any, capsys: pytest.CaptureFixture[str]) -> None:
    @tool
    def talk() -> str:
        print("hello")  # noqa: T201 - a tool may print
        return "done"

    assert call(talk, {}, context()).text == "done"
    assert capsys.readouterr().out == "hello\n"


def test_unserializable_result_is_refused_with_its_path(context: Any) -> None:
    @tool
    def odd() -> Any:
        return {"rows": [1, object()]}

    with pytest.raises(ToolError) as caught:
        call(odd, {}, context())
    assert (caught.value.code, caught.value.path, caught.value.tool) == ("tool-result", "result['rows'][1]", "odd")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "two words"}, "cannot be 'two words'"),
        ({"name": ""}, "cannot be ''"),
        ({"name": "x" * 65}, "name of a tool cannot be"),
        ({"name": 3}, "cannot be 3"),
        ({"description": 3}, "description of a tool cannot be 3"),
        ({"effect": "twice"}, "effect of a tool cannot be 'twice'"),
        ({"timeout_s": 0}, "timeout_s of a tool cannot be 0"),
        ({"timeout_s": True}, "timeout_s of a tool cannot be True"),
        ({"timeout_s": float("nan")}, "timeout_s of a tool cannot be nan"),
        ({"timeout_s": "1"}, "timeout_s of a tool cannot be '1'"),
        ({"on_error": "ignore"}, "on_error of a tool cannot be 'ignore'"),
        ({"approval": "yes"}, "approval of a tool cannot be 'yes'"),
        ({"max_result_chars": 0}, "max_result_chars of a tool cannot be 0"),
        ({"max_result_chars": 1.5}, "max_result_chars of a tool cannot be 1.5"),
    ],
)
def test_invalid_options_are_reported_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:

        @tool(**options)
        def fine() -> None: ...

    assert caught.value.code == "input"
    assert said in caught.value.what


def test_name_instead_of_the_function_is_refused() -> None:
    with pytest.raises(InputError, match="@tool cannot be 'look_up'"):
        tool("look_up")  # type: ignore[call-overload]
    with pytest.raises(InputError, match="What a tool is made of cannot be"):
        FunctionTool(3)  # type: ignore[arg-type]


def test_lambda_requires_a_name() -> None:
    with pytest.raises(InputError, match="lambda"):
        tool(lambda: 1)
    assert tool(name="one")(lambda: 1).spec.name == "one"


def _untyped(value: Any) -> Any:
    return value


def test_all_problems_of_a_signature_are_reported_at_once() -> None:
    def wrong(a, b: int, /, *c: int, d: Missing, e: threading.Thread, f: str, **g: Any) -> None: ...  # type: ignore[no-untyped-def, name-defined]  # noqa: F821

    with pytest.raises(InputError) as caught:
        tool(_untyped(wrong))
    error = caught.value
    assert error.code == "tool-schema"
    assert [problem.split(":")[0] for problem in error.values] == ["a", "b", "*c", "d", "**g", "e"]
    assert "positional-only" in error.values[0]
    assert "take a list" in error.values[2]
    assert "'Missing' is not defined" in error.values[3]
    assert "Thread" in error.values[5]
    assert "Injected" in error.values[5]
    assert __file__ in error.where
    assert all(problem in str(error) for problem in error.values)


def test_unannotated_parameters_and_unbound_methods_are_reported() -> None:
    class Shop:
        def price(self, item) -> str:  # type: ignore[no-untyped-def]
            return "1"

    with pytest.raises(InputError) as caught:
        tool(_untyped(Shop).price)
    assert "tool(an_object.method)" in caught.value.values[0]
    assert "item: has no annotation" in caught.value.values[1]


def test_generators_are_refused() -> None:
    def items() -> Any:
        yield 1

    async def later() -> Any:
        yield 1

    for fn in (items, later):
        with pytest.raises(InputError, match="generator; return a list"):
            tool(fn)


def test_function_with_an_unreadable_signature_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        tool(name="smallest")(min)
    assert caught.value.code == "tool-schema"
