"""JetStream's orchestrator with our detokenize body, and with failures that surface.

JetStream's own prefill, transfer and generate bodies run unchanged. Around them: the first failure
is handed on instead of killing the process, the end of a turn reaches the engine, and the number of
free slots grows only where the generate thread can stand it.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from jopd.engines.jetstream_api import engine_api, orchestrator
from jopd.engines.jetstream_engine import JetStreamEngine
from jopd.engines.jetstream_messages import Block, Prompt, TokenSample

_IDLE_S = 1.0  # how often an idle detokenize thread looks whether the process is ending


class TurnQueue(queue.Queue):
    """From the generate to the detokenize thread: `(slot, request)` and `(step, ResultTokens)`.

    Putting a block waits until it is read, so that the slots it frees are filled before the next
    block, and then gives them back to JetStream. Nowhere else may free slots appear: between its
    look at the free slots and its next block, the generate thread asserts that one is in use.
    """

    def __init__(self, free_slots: queue.Queue):
        super().__init__()
        self._free_slots = free_slots
        self._ended: deque[int] = deque()
        self._closed = False

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Puts an item; see the class."""
        super().put(item, block, timeout)
        if item is None or not isinstance(item[1], engine_api.ResultTokens):
            return
        with self.all_tasks_done:
            self.all_tasks_done.wait_for(lambda: self._closed or not self.unfinished_tasks)
        while self._ended:
            self._free_slots.put(self._ended.popleft(), block=False)

    def give_back(self, slot: int) -> None:
        """Marks a slot as free once the block being read is done."""
        self._ended.append(slot)

    def close(self) -> None:
        """Lets a waiting `put` go."""
        with self.all_tasks_done:
            self._closed = True
            self.all_tasks_done.notify_all()


class PrefillQueue(queue.Queue):
    """Prompts on their way to the one prefill thread; not empty before the last one is computed.

    The generate thread fills free slots before it decodes while this queue says that more is to
    come; else it would decode a block for all but the last of the requests that came together.
    """

    def __init__(self):
        super().__init__()
        self._computing = False

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The next prompt; what was taken before is computed by now."""
        with self.mutex:
            self._computing = False
        return super().get(block, timeout)

    def empty(self) -> bool:
        """Whether no prompt waits or is being computed."""
        with self.mutex:
            return not self._qsize() and not self._computing

    def _get(self) -> Any:
        item = super()._get()
        self._computing = item is not None
        return item


@dataclass(frozen=True, slots=True)
class _Running:
    """A request in a slot and the tokens delivered to it."""

    request: orchestrator.ActiveRequest
    tokens: list[int]


class _Reporting:
    """A context that hands an exception to `report` and ends it there."""

    def __init__(self, report: Callable[[BaseException], None]):
        self._report = report

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Reports the exception, if there is one."""
        if error is not None:
            self._report(error)
        return True


class Orchestrator(orchestrator.Driver):
    """JetStream's driver of one engine.

    Requests are `ActiveRequest`s whose content is a `Prompt`. Text and plain ids, as JetStream's
    server sends them, become one with the engine's default sampling and the request's limit; their
    responses, too, end with the stop id.

    Args:
      engine: the engine.
      on_leave: called whenever a request has left its slot, on the detokenize thread.
      on_failure: called with an exception of a thread, on that thread; must not wait for it.

    Attributes:
      generated_tokens: tokens delivered so far.
    """

    def __init__(
        self,
        engine: JetStreamEngine,
        *,
        on_leave: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ):
        self.generated_tokens = 0
        self._engine = engine
        self._on_leave = on_leave
        self._reporting = _Reporting(on_failure)
        self._ready = threading.Event()
        self._stopper: threading.Thread | None = None
        self._stop_lock = threading.Lock()
        super().__init__(
            prefill_engines=[engine],
            generate_engines=[engine],
            prefill_params=[engine.load_params()],
            generate_params=[engine.load_params()],
            interleaved_mode=True,
            jax_padding=False,
        )
        self._prefill_backlog = PrefillQueue()
        self._turn_queue = TurnQueue(self._generate_slots[0])
        self._detokenize_backlogs = [self._turn_queue]
        self._ready.set()  # the threads were started above and look at the queues from here on

    def stop_soon(self) -> threading.Thread:
        """Ends the threads; returns the thread that waits for them."""
        with self._stop_lock:
            if self._stopper is None:
                self._turn_queue.close()
                self._stopper = threading.Thread(target=self.stop, name="stop", daemon=True)
                self._stopper.start()
            return self._stopper

    def backlogs(self) -> dict[str, int]:
        """How many requests or blocks wait before each thread."""
        return {
            "prefill": self._prefill_backlog.qsize(),
            "transfer": self._transfer_backlogs[0].qsize(),
            "generate": self._generate_backlogs[0].qsize(),
            "detokenize": self._turn_queue.qsize(),
        }

    def _prefill_thread(self, idx: int) -> None:
        with self._reporting:
            self._ready.wait()
            super()._prefill_thread(idx)

    def _transfer_thread(self, idx: int) -> None:
        with self._reporting:
            self._ready.wait()
            super()._transfer_thread(idx)

    def _generate_thread(self, idx: int) -> None:
        with self._reporting:
            self._ready.wait()
            super()._generate_thread(idx)

    def _detokenize_thread(self, idx: int) -> None:
        with self._reporting:
            self._ready.wait()
            self._detokenize(self._engine.build_tokenizer(self._engine.get_tokenizer()))

    def _process_prefill_content(
        self,
        request: orchestrator.ActiveRequest,
        tokenizer: Any,
        is_bos: bool,
        max_prefill_length: int,
    ) -> tuple[Any, int]:
        """The request's `Prompt` in the place of padded tokens."""
        content = request.prefill_content
        if not isinstance(content, Prompt):
            if isinstance(content, str):
                padded, length = tokenizer.encode(
                    content, is_bos=is_bos, max_prefill_length=max_prefill_length, jax_padding=False
                )
                content = padded[:length]
            content = self._engine.plain_prompt(
                np.asarray(content, np.int32), max_tokens=request.max_tokens
            )
        return content, len(content.tokens)

    def _detokenize(self, tokenizer: Any) -> None:
        running: dict[int, _Running] = {}
        while self.live:
            try:
                item = self._turn_queue.get(timeout=_IDLE_S)
            except queue.Empty:
                if threading.main_thread().is_alive():
                    continue
                return
            if item is None:
                return
            place, content = item
            if isinstance(content, engine_api.ResultTokens):
                self._deliver(Block.read(content), running, tokenizer)
            else:
                running[place] = _Running(content, [])
            self._turn_queue.task_done()

    def _deliver(
        self,
        block: Block,
        running: dict[int, _Running],
        tokenizer: Any,
    ) -> None:
        for slot, turn in list(running.items()):
            request, sample = turn.request, block.sample(slot)
            if tokenizer is not None and not request.is_client_side_tokenization:
                sample.text = [tokenizer.decode([token]) for token in sample.token_ids]
            turn.tokens.extend(sample.token_ids)
            self.generated_tokens += len(sample.token_ids)
            finished = bool(block.finished[slot])
            if _hand_over(request, sample, finished=finished) or finished:
                del running[slot]
                self._engine.release(slot, np.array(turn.tokens, np.int32))
                self._turn_queue.give_back(slot)
                self._on_leave()


def _hand_over(request: orchestrator.ActiveRequest, sample: TokenSample, *, finished: bool) -> bool:
    """Gives a block's tokens to whoever waits for them; True when nobody does any more."""
    channel = request.return_channel
    try:
        if sample.token_ids:
            request.enqueue_samples([sample])
        if finished:
            channel.close()
    except RuntimeError:  # the event loop of the request is closed
        return True
    return channel.cancelled()
