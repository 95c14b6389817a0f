"""What the recipes share: every key of `jopd.settings.TrainSettings`, with the papers' values.

DivOPD's Table 3 (sampler), Table 4 (optimizer) and Table 5 (temperatures) are written here once.
"""

from ml_collections import ConfigDict


def webshop() -> ConfigDict:
    """The embedded WebShop; give `items_file` and `attributes_file` for the original's data."""
    return ConfigDict(
        {
            "domain": "webshop",
            "items_file": "",
            "attributes_file": "",
            "human_instructions_file": "",
            "human_goals": False,
            "num_products": 0,
            "text_mode": "text",
            "protocol": "original",
            "goals_seed": 233,
            "test_goals": 500,
            "eval_goals": 1000,
        }
    )


def scienceworld() -> ConfigDict:
    """ScienceWorld as the papers' lineage plays it, in processes of its own."""
    return ConfigDict(
        {
            "domain": "scienceworld",
            "simplifications": "easy",
            "task_types": (),
            "heap_mb": 512,
            "answer_s": 20.0,
        }
    )


def alfworld() -> ConfigDict:
    """ALFWorld on made games; give `data_dir` for the official ones."""
    return ConfigDict(
        {
            "domain": "alfworld",
            "data_dir": "",
            "task_types": (),
            "expert": "knowing",
            "dialect": "move",
        }
    )


def tau2(domain: str) -> ConfigDict:
    """A domain of tau2-bench, "retail" or "telecom", with the package's own limits."""
    return ConfigDict(
        {
            "domain": domain,
            "user": "scripted",
            "user_patience": 10,
            "max_steps": 200,
            "max_errors": 10,
            "answer_s": 30.0,
        }
    )


def maths() -> ConfigDict:
    """The embedded problems; give both files for others, such as AIME's and DAPO's."""
    return ConfigDict({"domain": "math", "problems_file": "", "eval_problems_file": ""})


def model(checkpoint: str) -> ConfigDict:
    """A model from a Hugging Face directory or the hub."""
    config = ConfigDict({"checkpoint": checkpoint})
    config.scratch = None
    return config


def scratch_model(
    model_type: str, *, width: int, layers: int, max_positions: int, seed: int
) -> ConfigDict:
    """A small model of a public architecture, random weights, word-level tokenizer."""
    return ConfigDict(
        {
            "checkpoint": "",
            "scratch": {
                "model_type": model_type,
                "hidden_size": width,
                "intermediate_size": 3 * width,
                "num_layers": layers,
                "num_heads": 4,
                "num_kv_heads": 2,
                "head_dim": width // 4,
                "max_positions": max_positions,
                "tie_embeddings": True,
                "seed": seed,
            },
        }
    )


def engine(
    *, slots: int, max_prompt: int, max_response: int, dtype: str, reuse_prefixes: bool = True
) -> ConfigDict:
    """The student's engine."""
    return ConfigDict(
        {
            "slots": slots,
            "max_context": max_prompt + max_response,
            "max_prompt": max_prompt,
            "prefill_buckets": (),
            "decode_block": 8,
            "compute_dtype": dtype,
            "cache_dtype": dtype,
            "reuse_prefixes": reuse_prefixes,
            "deadline_s": 1800.0,
        }
    )


def teacher_as_customer(*, slots: int, max_prompt: int, max_message: int, dtype: str) -> ConfigDict:
    """The teacher plays tau2-bench's customer, with an engine of its own."""
    return ConfigDict(
        {
            "model": model("teacher"),
            "engine": engine(
                slots=slots, max_prompt=max_prompt, max_response=max_message, dtype=dtype
            ),
            "temperature": 0.6,  # Qwen3's model cards, which warn of greedy decoding
            "max_message_tokens": max_message,
        }
    )


def scorer(
    *, cache_rows: int, max_context: int, buckets: tuple[int, ...], dtype: str
) -> ConfigDict:
    """The teacher's scorer."""
    return ConfigDict(
        {
            "cache_rows": cache_rows,
            "max_context": max_context,
            "max_batch_rows": 16,
            "max_batch_tokens": 16 * buckets[-1],
            "buckets": buckets,
            "head_chunk": 256,
            "compute_dtype": dtype,
            "cache_dtype": dtype,
            "deadline_s": 1800.0,
        }
    )


def optimizer(learning_rate: float) -> ConfigDict:
    """AdamW as in Table 4 of DivOPD: constant rate, no warm-up, clipping at 1."""
    return ConfigDict(
        {
            "learning_rate": learning_rate,
            "warmup_updates": 0,
            "decay_updates": 0,
            "beta1": 0.9,
            "beta2": 0.999,
            "epsilon": 1e-8,  # the paper does not give it
            "weight_decay": 0.01,
            "max_grad_norm": 1.0,
        }
    )


def devices() -> ConfigDict:
    """Everything on the same devices; recipes for a pod split them."""
    return ConfigDict(
        {
            "learner": 0,
            "engine": 0,
            "teacher": 0,
            "learner_tensor": 1,
            "engine_tensor": 1,
            "teacher_tensor": 1,
        }
    )


def reporting() -> ConfigDict:
    """TensorBoard, and progress on the terminal."""
    return ConfigDict({"tensorboard": True, "wandb_project": "", "progress_interval_s": 10.0})


def divopd(*, first_pass_cap: int) -> ConfigDict:
    """The sampler of Table 3."""
    return ConfigDict(
        {
            "composer": "divopd",
            "batch_size": 64,
            "pool_multiplier": 4,
            "first_pass_cap": first_pass_cap,
            "max_staleness": 2,
            "max_pending_age": 8,
            "age_offset": 0,
            "fill": "available",
            "seed": 0,
        }
    )


def paper_run(
    *,
    student: str,
    teacher: str,
    horizon: int,
    first_pass_cap: int,
    num_updates: int,
    eval_episodes: int,
) -> ConfigDict:
    """A row of DivOPD's Table 1 on a pod; the recipe adds environment and prompt style."""
    max_prompt, max_response = 10_240, 512  # of the public code whose settings coincide
    config = ConfigDict()
    config.student, config.teacher = model(student), model(teacher)
    config.customer = None
    config.rollout = {
        "horizon": horizon,
        "max_prompt_tokens": max_prompt,
        "max_response_tokens": max_response,
        "temperature": 1.0,  # Table 5
        "overflow": "end",
    }
    config.explorer = {"concurrency": 64, "max_env_errors": 20}
    config.engine = engine(
        slots=64, max_prompt=max_prompt, max_response=max_response, dtype="bfloat16"
    )
    config.scorer = scorer(
        cache_rows=64,
        max_context=max_prompt + max_response,
        buckets=(256, 512, 1024, 2048),
        dtype="bfloat16",
    )
    config.queue = {"capacity_turns": 1024, "policy": "block"}
    config.composer = divopd(first_pass_cap=first_pass_cap)
    config.loss = {
        "distill_coef": 1.0,
        "reduction": "seq-mean-token-mean",
        "denominator": "rows",
    }
    config.learner = {
        "rows_per_micro_batch": 4,
        "row_length": 16_384,
        "compute_dtype": "bfloat16",
        "remat": True,
        "head_chunk": 256,
    }
    config.optimizer = optimizer(1e-6)
    config.evaluation = {
        "interval": 5,
        "episodes": eval_episodes,
        "samples_per_task": 1,
        "concurrency": 64,
        "temperature": 0.4,  # Table 5
        "seed": 1,
    }
    config.checkpoint = {"interval": 10, "keep": 3}
    config.devices = devices()
    config.runtime = {
        "mode": "threads",
        "num_updates": num_updates,
        "sync_interval": 1,
        "seed": 0,
    }
    config.reporting = reporting()
    return config


def sft_run(*, max_prompt: int, max_response: int, num_updates: int) -> ConfigDict:
    """Supervised learning of a tiny Qwen3-shaped model on a CPU; the environment is to be added."""
    config = ConfigDict()
    longest = max_prompt + max_response
    config.student = scratch_model("qwen3", width=96, layers=2, max_positions=longest, seed=1)
    config.rollout = {
        "horizon": 30,
        "max_prompt_tokens": max_prompt,
        "max_response_tokens": max_response,
        "temperature": 1.0,
        "overflow": "end",
    }
    config.engine = engine(
        slots=16, max_prompt=max_prompt, max_response=max_response, dtype="float32"
    )
    config.demonstrations = {"random_action_rate": 0.0, "batch_size": 32}
    config.learner = {
        "rows_per_micro_batch": 4,
        "row_length": longest,
        "compute_dtype": "float32",
        "remat": False,
        "head_chunk": 256,
    }
    config.optimizer = optimizer(3e-3)
    config.optimizer.update({"warmup_updates": 50, "decay_updates": num_updates - 50})
    config.evaluation = {
        "interval": num_updates,
        "episodes": 48,
        "samples_per_task": 1,
        "concurrency": 4,
        "temperature": 0.4,  # Table 5
        "seed": 1,
    }
    config.devices = devices()
    config.runtime = {"num_updates": num_updates, "seed": 0}
    config.reporting = reporting()
    return config


def webshop_run(*, student: str, first_pass_cap: int, variant: str) -> ConfigDict:
    """The two WebShop rows of Table 1, which differ in student and cap."""
    config = paper_run(
        student=student,
        teacher="langfeng01/GiGPO-Qwen2.5-7B-Instruct-WebShop",
        horizon=15,
        first_pass_cap=first_pass_cap,
        num_updates=150,
        eval_episodes=128,
    )
    config.env = webshop()
    config.prompt = {"style": "webshop_accumulate", "template_file": ""}
    select_variant(config, variant)
    return config


def scienceworld_run(*, student: str, first_pass_cap: int, variant: str) -> ConfigDict:
    """The two ScienceWorld rows of Table 1, which differ in student and cap."""
    config = paper_run(
        student=student,
        teacher="Embodied-Planner-R1",
        horizon=30,
        first_pass_cap=first_pass_cap,
        num_updates=250,
        eval_episodes=256,
    )
    config.env = scienceworld()
    style = "scienceworld_plain" if variant == "smoke" else "scienceworld_accumulate"
    config.prompt = {"style": style, "template_file": ""}
    select_variant(config, variant)
    return config


def alfworld_run(*, student: str, variant: str) -> ConfigDict:
    """The two ALFWorld rows of Table 1, which differ in their students only.

    Students of the Qwen3 family and this teacher of the Qwen2.5 family pad their vocabularies to
    different sizes; the tokens that both know are compared.
    """
    config = paper_run(
        student=student,
        teacher="langfeng01/GiGPO-Qwen2.5-7B-Instruct-ALFWorld",
        horizon=30,
        first_pass_cap=4,
        num_updates=250,
        eval_episodes=140,
    )
    config.env = alfworld()
    style = "alfworld_plain" if variant == "smoke" else "alfworld_accumulate"
    config.prompt = {"style": style, "template_file": ""}
    select_variant(config, variant)
    return config


def stride_run(*, student: str, teacher: str, horizon: int, num_updates: int) -> ConfigDict:
    """STRIDE's settings of an agentic run (arXiv:2609.14636, section 5.1), with whole rollouts.

    The paper's batch is 24 tasks; its retail rollouts have 13 turns on average, so ours is 312
    turns. Betas, weight decay, clipping and temperatures are not given there: ours are DivOPD's.
    """
    max_prompt, max_response = 24_576, 8_192
    config = paper_run(
        student=student,
        teacher=teacher,
        horizon=horizon,
        first_pass_cap=4,
        num_updates=num_updates,
        eval_episodes=40,
    )
    config.rollout.update({"max_prompt_tokens": max_prompt, "max_response_tokens": max_response})
    config.engine = engine(
        slots=64, max_prompt=max_prompt, max_response=max_response, dtype="bfloat16"
    )
    config.scorer = scorer(
        cache_rows=64,
        max_context=max_prompt + max_response,
        buckets=(256, 512, 1024, 2048),
        dtype="bfloat16",
    )
    config.queue.capacity_turns = 4 * 312
    config.composer.batch_size = 312
    config.loss.reduction = "token-mean"
    config.learner.update({"rows_per_micro_batch": 1, "row_length": max_prompt + max_response})
    config.optimizer = optimizer(1e-5)
    config.evaluation.interval = 20
    return config


def shrink(config: ConfigDict) -> None:
    """The same run with tiny models of the same architecture, for a CPU: a smoke test."""
    max_prompt, max_response, longest = 1024, 16, 2048
    for name, seed in (("student", 0), ("teacher", 1)):
        config[name] = scratch_model("qwen2", width=64, layers=2, max_positions=longest, seed=seed)
    config.rollout.update(
        {"horizon": 3, "max_prompt_tokens": max_prompt, "max_response_tokens": max_response}
    )
    config.explorer.concurrency = 4
    config.engine = engine(
        slots=4, max_prompt=max_prompt, max_response=max_response, dtype="float32"
    )
    config.scorer = scorer(
        cache_rows=8, max_context=max_prompt + max_response, buckets=(256, 512), dtype="float32"
    )
    config.scorer.max_batch_rows = 4
    if config.customer is not None:
        config.customer = teacher_as_customer(
            slots=4, max_prompt=1536, max_message=max_response, dtype="float32"
        )
    config.composer.batch_size = 8
    config.learner.update({"rows_per_micro_batch": 1, "row_length": longest})
    config.learner.compute_dtype = "float32"
    config.evaluation.update({"interval": 3, "episodes": 4, "concurrency": 4})
    config.checkpoint.interval = 3
    config.runtime.num_updates = 3


def select_variant(config: ConfigDict, variant: str) -> None:
    """Makes a paper's run what its variant names: a method, or a smoke test."""
    if variant == "smoke":
        shrink(config)
    else:
        select_method(config, variant)


def select_method(config: ConfigDict, method: str) -> None:
    """Sets the composer that a variant names.

    Raises:
      ValueError: no composer has that name.
    """
    methods = ("divopd", "divopd_base", "vanilla")
    if method not in methods:
        raise ValueError(f"unknown variant {method!r}; there are smoke, {', '.join(methods)}")
    config.composer.composer = method
