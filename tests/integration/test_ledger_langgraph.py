"""EffectGuard: tools of a real agent and of a ToolNode, sync and async, against a real ledger.

Nothing here but LangGraph, LangChain and the ledger: the same file is run with the lowest versions that are declared.
"""

import asyncio
import uuid

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.types import Command, interrupt

from onward_ledger import AsyncLedgerClient, LedgerClient, errors
from onward_ledger.action import Status
from onward_ledger.langgraph import CannotTell, EffectGuard, NotSent, Refused, Seen, Stopped, ToolEffect, current
from tests.support.ledger_process import ledger_process

pytestmark = pytest.mark.campaign

S = Status


class Scripted(BaseChatModel):
    """A chat model that says its lines by the number of what it has said before."""

    lines: list

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        said = sum(isinstance(message, AIMessage) for message in messages)
        calls = self.lines[said] if said < len(self.lines) else []
        message = AIMessage("", tool_calls=calls) if calls else AIMessage("Done.")
        return ChatResult(generations=[ChatGeneration(message=message)])


def call(name="pay", id="call_0", **args):
    return {"name": name, "args": args or {"amount": 5}, "id": id, "type": "tool_call"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("langgraph")
    with ledger_process(folder, f"sqlite:///{folder / 'ledger.db'}") as process:
        yield process.start()


@pytest.fixture
def client(service):
    return service.client()


@pytest.fixture
def thread():
    return str(uuid.uuid4())


class World:
    """What the tools changed. `script` says what the next calls do beside it."""

    def __init__(self):
        self.payments = []
        self.script = []

    def pay(self, amount):
        word = self.script.pop(0) if self.script else None
        if isinstance(word, Exception) and not isinstance(word, OSError | ToolException):
            raise word
        self.payments.append((current().action_id, amount))
        if word is not None:
            raise word
        return f"paid {amount} as #{len(self.payments)}"

    def find(self, action):
        found = [n for n, (marker, _) in enumerate(self.payments, 1) if marker == action.action_id]
        return [f"paid {action.params['args']['amount']} as #{n}" for n in found]

    def tools(self):
        @tool
        def pay(amount: int) -> str:
            """Pay."""
            return self.pay(amount)

        @tool
        def ask(what: str) -> str:
            """Ask."""
            return f"{what}?"

        return [pay, ask]


@pytest.fixture
def world():
    return World()


def agent(client, world, *lines, tools=None, saver=None, effect=None, **options):
    guard = EffectGuard(client, {"pay": effect or ToolEffect(verify=world.find)})
    model = Scripted(lines=[list(line) for line in lines])
    saver = saver or InMemorySaver()
    return create_agent(model, tools or world.tools(), middleware=[guard], checkpointer=saver, **options)


def config(thread, **more):
    return {"configurable": {"thread_id": thread, **more}}


GO = {"messages": [("user", "go")]}


def run(graph, thread, input=GO, **more):
    state = graph.invoke(input, config(thread, **more), durability="sync")
    return [m.content for m in state["messages"] if isinstance(m, ToolMessage)]


def recorded(client, thread):
    return client.actions(thread)


# --- what is told apart -----------------------------------------------------------------------------------------------


def test_each_call_is_one_action_though_ids_and_arguments_repeat(client, world, thread):
    """Two calls in one message, then the same call with the same id and the same arguments: three payments."""
    graph = agent(client, world, [call(id="a"), call(id="b")], [call(id="a")])
    assert sorted(run(graph, thread)) == ["paid 5 as #1", "paid 5 as #2", "paid 5 as #3"]
    actions = recorded(client, thread)
    assert [(a.status, a.kind, a.resource) for a in actions] == [(S.SUCCEEDED, "tool.pay", "pay")] * 3
    assert len({a.action_id for a in actions}) == 3
    assert sorted((a.step.rpartition("#")[2], a.slot) for a in actions) == [("1", "0"), ("1", "1"), ("2", "0")]
    assert {a.params["call"] for a in actions} == {"a", "b"}


def test_a_second_question_in_the_same_thread_is_a_new_call(client, world, thread):
    graph = agent(client, world, [call()], [], [call()])
    run(graph, thread)
    assert len(run(graph, thread)) == 2
    assert len(world.payments) == 2


def test_tools_that_are_not_named_pass_through(client, world, thread):
    graph = agent(client, world, [call("ask", what="who")])
    assert run(graph, thread) == ["who?"]
    assert recorded(client, thread) == ()


def test_two_calls_that_nothing_tells_apart_are_not_run(client, world, thread):
    graph = agent(client, world, [call(id="a"), call(id="a")])
    with pytest.raises(Stopped, match="cannot be told apart"):
        run(graph, thread)
    assert world.payments == []


def test_a_conversation_that_is_cut_short_counts_from_a_new_beginning(client, world, thread):
    """What summarizing does: all messages removed, a new first one. The same call is then a new one."""
    saver = InMemorySaver()
    graph = agent(client, world, [call()], [], saver=saver)
    run(graph, thread)
    cut = [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("In short: one was paid.")]
    graph.update_state(config(thread), {"messages": cut}, as_node="__start__")
    assert run(graph, thread) == ["paid 5 as #2"]
    assert len(recorded(client, thread)) == 2


def test_an_agent_that_is_entered_twice_by_its_parent_makes_two_payments(client, world, thread):
    """A subgraph begins its conversation anew each time: the task that it runs in tells the two apart."""
    inner = agent(client, world, [call()])
    inner.checkpointer = None

    def ask_agent(state):
        answer = inner.invoke({"messages": [HumanMessage("go", id="always the same")]})
        return {"messages": [AIMessage(answer["messages"][-2].content)]}

    parent = StateGraph(MessagesState).add_node("first", ask_agent).add_node("second", ask_agent)
    graph = parent.add_edge(START, "first").add_edge("first", "second").compile(checkpointer=InMemorySaver())
    graph.invoke(GO, config(thread), durability="sync")
    assert [amount for _, amount in world.payments] == [5, 5]


# --- what is given again ----------------------------------------------------------------------------------------------


class Dying(InMemorySaver):
    """Keeps nothing from the moment on when a tool's answer comes: as of a process that dies behind the effect."""

    dead = False

    def put_writes(self, config, writes, task_id, task_path=""):
        self.dead |= any(isinstance(v, list) and any(isinstance(m, ToolMessage) for m in v) for _, v in writes)
        self._live()
        super().put_writes(config, writes, task_id, task_path)

    def put(self, *args, **kwargs):
        self._live()
        return super().put(*args, **kwargs)

    def _live(self):
        if self.dead:
            raise ConnectionError("died")

    def revive(self):
        self.__class__ = InMemorySaver


def test_the_recorded_answer_is_given_again_behind_a_crash(client, world, thread):
    """The effect happened and was recorded, its result never reached the checkpoint."""
    saver = Dying()
    with pytest.raises(ConnectionError):
        run(agent(client, world, [call(id="a"), call(id="b")], saver=saver), thread)
    assert len(world.payments) == 2
    saver.revive()
    resumed = run(agent(client, world, [call(id="a"), call(id="b")], saver=saver), thread, None)
    assert sorted(resumed) == ["paid 5 as #1", "paid 5 as #2"]
    assert len(world.payments) == 2


def test_without_the_guard_the_same_crash_pays_twice(client, world, thread):
    """The control."""
    saver = Dying()
    paid = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def plain():
        return create_agent(Scripted(lines=[[call()]]), [pay], checkpointer=saver)

    with pytest.raises(ConnectionError):
        run(plain(), thread)
    saver.revive()
    run(plain(), thread, None)
    assert paid == [5, 5]


def test_answers_keep_their_blocks_their_artifact_and_the_id_of_the_call(client, thread):
    @tool(response_format="content_and_artifact")
    def pay(amount: int) -> tuple[list, dict]:
        """Pay."""
        return [{"type": "text", "text": "paid"}], {"number": 1}

    saver = Dying()
    effect = ToolEffect()
    with pytest.raises(ConnectionError):
        run(agent(client, None, [call(id="x")], tools=[pay], saver=saver, effect=effect), thread)
    saver.revive()
    graph = agent(client, None, [call(id="x")], tools=[pay], saver=saver, effect=effect)
    state = graph.invoke(None, config(thread), durability="sync")
    (message,) = (m for m in state["messages"] if isinstance(m, ToolMessage))
    assert (message.content, message.artifact) == ([{"type": "text", "text": "paid"}], {"number": 1})
    assert (message.tool_call_id, message.name, message.status) == ("x", "pay", "success")


def test_what_the_tool_node_injects_arrives(client, thread):
    given = []

    @tool
    def pay(amount: int, runtime: ToolRuntime, config: RunnableConfig) -> str:
        """Pay."""
        given.append(
            (amount, runtime.tool_call_id, len(runtime.state["messages"]), config["configurable"]["thread_id"])
        )
        return "paid"

    run(agent(client, None, [call(id="x")], tools=[pay], effect=ToolEffect()), thread)
    assert given == [(5, "x", 2, thread)]


def test_an_answer_that_cannot_be_kept_is_told_at_once(client, thread):
    happened = []

    @tool
    def pay(amount: int):
        """Pay."""
        happened.append(amount)
        return Command(update={"messages": [ToolMessage("paid", tool_call_id="call_0")]})

    graph = agent(client, None, [call()], tools=[pay], effect=ToolEffect())
    for input in (GO, None):
        with pytest.raises(Stopped, match=r"happened and is recorded.*Command"):
            run(graph, thread, input)
    assert happened == [5]


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_an_error_behind_the_effect_is_looked_up_on_the_resume(client, world, thread):
    world.script = [OSError("cut")]
    graph = agent(client, world, [call()])
    with pytest.raises(OSError, match="cut"):
        run(graph, thread)
    (action,) = recorded(client, thread)
    assert action.status is S.UNKNOWN
    assert run(graph, thread, None) == ["paid 5 as #1"]
    assert len(world.payments) == 1


def test_what_nobody_can_tell_stops_the_run_until_it_is_settled(client, world, thread):
    def cannot(action):
        raise CannotTell("the bank is closed")

    world.script = [OSError("cut")]
    graph = agent(client, world, [call()], effect=ToolEffect(verify=cannot))
    with pytest.raises(OSError, match="cut"):
        run(graph, thread)
    for _ in range(2):
        with pytest.raises(Stopped, match="the bank is closed") as stopped:
            run(graph, thread, None)
        assert isinstance(stopped.value.error, errors.UnknownOutcome)
    action = stopped.value.error.action
    client.resolve(
        action.action_id, status=S.SUCCEEDED, receipt={"seen": "#1"}, reason="asked", expected_version=action.version
    )
    assert run(graph, thread, None) == ['{"seen": "#1"}']
    assert len(world.payments) == 1


@pytest.mark.parametrize("handle", [True, "Something failed.", lambda error: "failed"])
def test_a_tool_node_that_hides_errors_from_the_run_does_not_hide_this(client, world, thread, handle):
    """Else the model reads that it failed, and calls the tool once more: a new call, a second payment."""
    if callable(handle):
        handle.__annotations__ = {"error": OSError}
    graph = tool_node(client, world, ToolEffect(verify=None), handle_tool_errors=handle)
    world.script = [OSError("cut")]
    for input in (says(call()), None):
        with pytest.raises(Stopped, match="UNKNOWN"):
            run(graph, thread, input)
    assert len(world.payments) == 1


def test_a_tool_that_tells_the_model_of_its_failure_is_not_believed(client, world, thread):
    """ToolException is a message to the model, not a proof that nothing happened."""

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return world.pay(amount)

    pay.handle_tool_error = True
    world.script = [ToolException("no answer")]
    graph = agent(client, world, [call()], tools=[pay])
    with pytest.raises(Stopped, match="UNKNOWN"):
        run(graph, thread)
    assert run(graph, thread, None) == ["paid 5 as #1"]


@pytest.mark.parametrize("error", [Refused("no money"), ValueError("no money")])
def test_a_definite_no_goes_to_the_model_and_is_given_again(client, world, thread, error):
    saver = Dying()
    world.script = [error]
    effect = ToolEffect(verify=world.find, refuses=(ValueError,))
    with pytest.raises(ConnectionError):
        run(agent(client, world, [call()], saver=saver, effect=effect), thread)
    saver.revive()
    assert run(agent(client, world, [call()], saver=saver, effect=effect), thread, None) == ["no money"]
    assert recorded(client, thread)[0].status is S.FAILED
    assert world.payments == []


def test_what_was_not_sent_is_run_again_on_the_resume(client, world, thread):
    world.script = [NotSent("the bank is closed")]
    graph = agent(client, world, [call()])
    with pytest.raises(NotSent):
        run(graph, thread)
    assert run(graph, thread, None) == ["paid 5 as #1"]
    assert [a.claims for a in recorded(client, thread)] == [2]


def test_arguments_that_the_tool_does_not_take_are_told_to_the_model(client, world, thread):
    graph = agent(client, world, [call(amount="much")], [call()])
    wrong, right = run(graph, thread)
    assert "amount" in wrong
    assert right == "paid 5 as #1"
    assert [a.status for a in recorded(client, thread)] == [S.FAILED, S.SUCCEEDED]


def test_a_retry_inside_of_the_guard_does_not_run_the_tool_again(client, world, thread):
    """Whoever retries on an error takes it for a proof that nothing happened."""

    class Retrying(EffectGuard):
        def wrap_tool_call(self, request, handler):
            def again(request):
                try:
                    return handler(request)
                except OSError:
                    return handler(request)

            return super().wrap_tool_call(request, again)

    world.script = [OSError("cut")]
    guard = Retrying(client, {"pay": ToolEffect()})
    graph = create_agent(Scripted(lines=[[call()]]), world.tools(), middleware=[guard], checkpointer=InMemorySaver())
    with pytest.raises(Exception, match="second time under one claim"):
        run(graph, thread)
    assert len(world.payments) == 1


def test_a_question_inside_of_an_effect_is_refused(client, thread):
    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return interrupt("sure?")

    graph = agent(client, None, [call()], tools=[pay], effect=ToolEffect())
    with pytest.raises(Stopped, match="interrupted the run inside of its effect"):
        run(graph, thread)


def test_the_same_place_with_another_call_stops_the_run(client, world, thread):
    """The last checkpoint is lost, and the model, asked again, says something else."""
    saver = InMemorySaver()
    graph = agent(client, world, [call()], saver=saver)
    run(graph, thread)
    asked = next(
        s for s in graph.get_state_history(config(thread)) if s.next == ("model",) and len(s.values["messages"]) == 1
    )
    other = agent(client, world, [call(amount=7)], saver=saver)
    again = {"configurable": {**asked.config["configurable"]}}
    with pytest.raises(Stopped, match="recorded with another request") as stopped:
        other.invoke(None, again, durability="sync")
    assert stopped.value.error.action.params["args"] == {"amount": 5}
    assert [amount for _, amount in world.payments] == [5]
    branched = {"configurable": {**asked.config["configurable"], "onward_branch": "second try"}}
    other.invoke(None, branched, durability="sync")
    assert [amount for _, amount in world.payments] == [5, 7]


# --- what it refuses to start with ------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", [None, "async", "exit"])
def test_it_refuses_to_run_without_every_step_on_disk(client, world, thread, durability):
    graph = agent(client, world, [call()])
    options = {} if durability is None else {"durability": durability}
    with pytest.raises(Stopped, match='durability="sync"'):
        graph.invoke(GO, config(thread), **options)
    assert world.payments == []


def test_it_refuses_to_run_without_a_checkpointer_or_a_thread(client, world, thread):
    guard = EffectGuard(client, {"pay": ToolEffect()})
    graph = create_agent(Scripted(lines=[[call()]]), world.tools(), middleware=[guard])
    with pytest.raises(Stopped, match="needs a checkpointer"):
        graph.invoke(GO, config(thread))
    with pytest.raises(Stopped, match="needs a thread"):
        graph.invoke(GO)
    assert world.payments == []


# --- epochs, threads, ToolNode, async ---------------------------------------------------------------------------------


def test_a_newer_driver_passes_its_epoch(client, world, thread):
    graph = agent(client, world, [call()])
    run(graph, thread, onward_epoch=3)
    assert [a.epoch for a in recorded(client, thread)] == [3]
    with pytest.raises(Stopped, match="epoch"):
        agent(client, world, [call()]).invoke(GO, config(thread, onward_epoch=2), durability="sync")
    with pytest.raises(Stopped, match="onward_epoch is a number"):
        run(agent(client, world, [call()]), thread, onward_epoch="4")


def test_a_thread_may_have_any_name(client, world):
    name = f"conversation with Änne, {uuid.uuid4()}"
    run(agent(client, world, [call()]), name)
    action = client.action(world.payments[0][0])
    assert (action.params["thread"], action.status) == (name, S.SUCCEEDED)


def says(*calls):
    return {"messages": [HumanMessage("go"), AIMessage("", tool_calls=list(calls))]}


def tool_node(client, world, effect, **options):
    guard = EffectGuard(client, {"pay": effect})
    node = ToolNode(
        world.tools(), wrap_tool_call=guard.wrap_tool_call, awrap_tool_call=guard.awrap_tool_call, **options
    )
    return (
        StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile(checkpointer=InMemorySaver())
    )


def test_a_tool_node_of_ones_own(client, world, thread):
    graph = tool_node(client, world, ToolEffect(verify=world.find))
    assert sorted(run(graph, thread, says(call(id="a"), call(id="b")))) == ["paid 5 as #1", "paid 5 as #2"]
    assert sorted(a.slot for a in recorded(client, thread)) == ["0", "1"]


@pytest.mark.parametrize("kind", [LedgerClient, AsyncLedgerClient])
@pytest.mark.parametrize("form", ["async tool", "sync tool"])
def test_an_agent_that_is_awaited(service, client, world, thread, kind, form):
    async def find(action):
        return [Seen(receipt={"content": found}) for found in world.find(action)]

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        return await asyncio.to_thread(world.pay, amount)

    async def main():
        opened = kind(service.url, service.token)
        tools = [pay] if form == "async tool" else world.tools()
        graph = agent(
            opened, world, [call(id="a"), call(id="b")], [call()], tools=tools, effect=ToolEffect(verify=find)
        )
        world.script = [OSError("cut")]
        # One call at a time: another one in flight when the first is cut would rightly be UNKNOWN to the next driver.
        first, second = (config(thread, onward_epoch=epoch) | {"max_concurrency": 1} for epoch in (1, 2))
        try:
            with pytest.raises(OSError, match="cut"):
                await graph.ainvoke(GO, first, durability="sync")
            state = await graph.ainvoke(None, second, durability="sync")
        finally:
            closing = opened.close()
            if closing is not None:
                await closing
        return [m.content for m in state["messages"] if isinstance(m, ToolMessage)]

    said = asyncio.run(main())
    assert len(said) == len(world.payments) == 3
    assert {a.status for a in recorded(client, thread)} == {S.SUCCEEDED}
