"""A model that plays the other side of a conversation, such as the customer of tau2-bench."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from jopd.engines.base import Engine, Sampling
from jopd.envs.base import EnvError
from jopd.rollout.prompts import Message
from jopd.rollout.replies import without_thoughts
from jopd.rollout.runner import ChatTokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpeaker:
    """Answers a chat with what its model says, thoughts left out.

    The same chat gets the same answer from the same weights: its sampling seed comes from the chat.

    Attributes:
      engine: of the model.
      tokenizer: of the model.
      sampling: how it speaks.
      max_prompt_tokens: longest chat that it can read.
    """

    engine: Engine
    tokenizer: ChatTokenizer
    sampling: Sampling
    max_prompt_tokens: int

    async def __call__(self, messages: Sequence[Message], tools: Sequence[str]) -> str:
        """The model's next message.

        Raises:
          EnvError: the chat is longer than the model can read.
        """
        prompt = self.tokenizer.render_chat(messages, tools=tools)
        limit = self.max_prompt_tokens
        if len(prompt) > limit:
            raise EnvError(f"the customer's prompt has {len(prompt)} tokens, more than {limit}")
        seed = zlib.crc32(prompt.tobytes()) >> 1
        generation = await self.engine.respond(prompt, sampling=self.sampling, seed=seed)
        return without_thoughts(self.tokenizer.decode(generation.tokens))
