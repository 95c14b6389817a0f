"""Whole runs of the commands on a small scale: resume, conservation, failures, and what is left."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
import transformers
from full_disk import small_file_system

from jopd.experience.recorder import read_turns

ROOT = Path(__file__).parents[1]
SMALL = {
    "composer.batch_size": 8,
    "composer.pool_multiplier": 2,
    "runtime.num_updates": 5,
    "checkpoint.interval": 1,
    "evaluation.interval": 100,
    "evaluation.episodes": 2,
    "evaluation.concurrency": 2,
    "explorer.concurrency": 4,
    "engine.slots": 4,
    "engine.prefill_buckets": "(320,)",
    "scorer.buckets": "(320,)",
    "scorer.max_batch_rows": 1,
    "scorer.cache_rows": 4,
    "reporting.tensorboard": False,
}
SFT_SECTIONS = ("evaluation", "engine", "reporting")
MEASURED = ("time/", "eval/seconds")


def start(workdir: Path, **changes) -> subprocess.Popen:
    settings = SMALL | {name.replace("__", "."): value for name, value in changes.items()}
    return start_command(
        "train",
        "--config=configs/quickstart.py:smoke",
        f"--workdir={workdir}",
        "--resume=auto",
        *overrides(settings),
    )


def overrides(settings: dict[str, object]) -> list[str]:
    return [f"--config.{name}={value}" for name, value in settings.items()]


def start_command(name: str, *flags: str) -> subprocess.Popen:
    environment = os.environ | {"XLA_FLAGS": "", "JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", f"jopd.{name}", *flags],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen, timeout_s: float = 600) -> str:
    output, _ = process.communicate(timeout=timeout_s)
    assert process.returncode == 0, output[-3000:]
    return output


def log_lines(workdir: Path) -> list[dict[str, float]]:
    path = workdir / "log.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def kill_after(process: subprocess.Popen, workdir: Path, updates: int) -> None:
    """kill -9 as soon as the log has so many lines."""
    deadline = time.monotonic() + 600
    while len(log_lines(workdir)) < updates and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[0][-3000:]
    process.send_signal(signal.SIGKILL)
    process.communicate()


def unmeasured(lines: list[dict[str, float]]) -> list[dict[str, float]]:
    """Log lines without what a clock measured."""
    return [{k: v for k, v in line.items() if not k.startswith(MEASURED)} for line in lines]


def final_arrays(workdir: Path) -> list[np.ndarray]:
    with ocp.CheckpointManager(
        workdir / "checkpoints", item_handlers={"learner": ocp.StandardCheckpointHandler()}
    ) as manager:
        restored = manager.restore(
            manager.latest_step(), args=ocp.args.Composite(learner=ocp.args.StandardRestore())
        )
    return [np.asarray(leaf) for leaf in jax.tree.leaves(restored["learner"])]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    workdir = tmp_path_factory.mktemp("uninterrupted") / "run"
    finish(start(workdir, runtime__mode="inline"))
    return workdir


@pytest.mark.slow
def test_killed_and_resumed_lock_step_runs_give_the_same_batches_and_weights(
    uninterrupted, tmp_path
):
    workdir = tmp_path / "run"
    kill_after(start(workdir, runtime__mode="inline"), workdir, updates=2)
    finish(start(workdir, runtime__mode="inline"))
    process_counts = ("explore/generated_tokens", "explore/reused_share", "teacher/")
    for ours, theirs in zip(log_lines(workdir), log_lines(uninterrupted), strict=True):
        for name in theirs:
            if not name.startswith((*MEASURED, *process_counts)):
                assert ours[name] == theirs[name], f"update {ours['update']}: {name}"
    turns = [
        [
            (r.candidate.turn.rollout_id, r.candidate.turn.response_tokens.tolist())
            for r in read_turns(d / "turns")
        ]
        for d in (workdir, uninterrupted)
    ]
    assert turns[0] == turns[1]
    for a, b in zip(final_arrays(workdir), final_arrays(uninterrupted), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_nothing_is_lost_or_counted_twice_when_an_asynchronous_run_is_killed(tmp_path):
    workdir = tmp_path / "run"
    kill_after(start(workdir), workdir, updates=2)
    finish(start(workdir))
    last = log_lines(workdir)[-1]
    accounted = sum(
        last[f"queue/{name}_turns"]
        for name in ("trained", "stale", "aged", "invalid", "pending", "discarded")
    )
    assert last["queue/produced_turns"] == accounted + last["queue/turns"]
    assert [line["update"] for line in log_lines(workdir)] == [1, 2, 3, 4, 5]
    keys = [
        (r.candidate.turn.rollout_id, r.candidate.turn.index) for r in read_turns(workdir / "turns")
    ]
    arrivals = [r.candidate.turn.arrival for r in read_turns(workdir / "turns")]
    assert len(set(keys)) == len(keys)
    assert arrivals == list(range(len(arrivals)))


@pytest.mark.slow
def test_a_run_directory_holds_what_the_readme_says(uninterrupted):
    summary = json.loads((uninterrupted / "summary.json").read_text())
    for name in (
        "teacher_success_rate",
        "initial_success_rate",
        "peak_success_rate",
        "final_success_rate",
        "final_five_success_rate",
    ):
        assert 0 <= summary[name] <= 1
    assert summary["updates"] == 5 and summary["eval_episodes"] == 2
    assert summary["trained_tokens"] == sum(
        line["batch/trained_tokens"] for line in log_lines(uninterrupted)
    )
    assert json.loads((uninterrupted / "config.json").read_text())["command"] == "train"
    assert (uninterrupted / "prompt.txt").read_text().startswith("<|im_start|> user i want ")
    assert len(list((uninterrupted / "evaluations").glob("student-*.jsonl"))) == 2
    assert len(list((uninterrupted / "evaluations").glob("teacher-*.jsonl"))) == 1


@pytest.mark.slow
def test_a_dying_scorer_ends_the_run_with_its_own_error(tmp_path):
    process = start(tmp_path / "run", scorer__deadline_s=0.0)
    output, _ = process.communicate(timeout=600)
    assert process.returncode != 0
    assert "EngineError: no score and no progress for 0 s" in output


@pytest.mark.slow
def test_a_full_disk_ends_the_run_and_says_what_to_do(tmp_path):
    with small_file_system(tmp_path / "small", size="1m") as place:
        process = start(place / "run")
        output, _ = process.communicate(timeout=600)
    assert process.returncode != 0
    first_to_fail = r"(too full for a checkpoint of update 1|No space left on device)"
    assert re.search(rf"{first_to_fail}.*--resume=auto", output)


@pytest.mark.slow
def test_the_trained_student_is_exported_and_loads_in_transformers(uninterrupted, tmp_path):
    out = tmp_path / "model"
    message = finish(
        start_command("export", f"--run={uninterrupted}", f"--out={out}", "--dtype=float32")
    )
    assert f"the student after 5 updates is in {out}" in message
    model = transformers.AutoModelForCausalLM.from_pretrained(out)
    with ocp.CheckpointManager(uninterrupted / "checkpoints") as manager:
        restored = manager.restore(5, args=ocp.args.Composite(learner=ocp.args.StandardRestore()))
    np.testing.assert_array_equal(
        model.get_input_embeddings().weight.detach().numpy(),
        restored["learner"]["params"]["embed"]["embedding"],
    )
    card = (out / "README.md").read_text()
    assert "divopd" in card and "5 updates" in card
    refused, _ = (
        again := start_command("export", f"--run={uninterrupted}", f"--out={out}")
    ).communicate(timeout=300)
    assert again.returncode != 0 and str(out) in refused


@pytest.mark.slow
def test_a_checkpoint_is_evaluated_like_in_its_run(uninterrupted, tmp_path):
    settings = SMALL | {"runtime.mode": "inline"}
    workdir = tmp_path / "evaluation"
    flags = ["--config=configs/quickstart.py:smoke", f"--workdir={workdir}", *overrides(settings)]
    output = finish(start_command("evaluate", f"--run={uninterrupted}", *flags))
    assert "on 2 tasks, version 5" in output
    records = [
        d / "student-000005.jsonl" for d in (workdir / "evaluations", uninterrupted / "evaluations")
    ]
    assert records[0].read_text() == records[1].read_text()
    summary = json.loads((workdir / "summary.json").read_text())
    assert 0 <= summary["eval/success_low"] <= summary["eval/success_rate"]


@pytest.mark.slow
def test_supervised_learning_makes_a_model_that_training_starts_from(tmp_path):
    shared = {name: value for name, value in SMALL.items() if name.split(".")[0] in SFT_SECTIONS}
    settings = shared | {"runtime.num_updates": 4, "evaluation.interval": 2}
    output = finish(
        start_command(
            "sft",
            "--config=configs/quickstart.py:cold_start",
            f"--workdir={tmp_path / 'sft'}",
            *overrides(settings),
        )
    )
    assert f"the model is in {tmp_path / 'sft' / 'model'}" in output
    lines = log_lines(tmp_path / "sft")
    assert [line["update"] for line in lines if "eval/success_rate" in line] == [2]
    assert lines[-1]["loss/supervised"] < lines[0]["loss/supervised"]
    finish(
        start(
            tmp_path / "run",
            student__checkpoint=tmp_path / "sft" / "model",
            runtime__num_updates=1,
        )
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--config.composer.colour=red"], "has no key colour, given in --config.composer.colour"),
        (["--config.student.checkpoint=/nowhere"], "is no directory here"),
        (["--config.env.items_file=/nowhere.json"], "attributes_file is needed"),
        (["--config.explorer.concurrency=0"], "concurrency and max_env_errors must be at least 1"),
    ],
)
def test_bad_input_ends_a_run_at_once_with_a_message(tmp_path, flags, message):
    assert message in refused_training(tmp_path / "run", flags)


def test_a_checkpoint_of_an_unknown_architecture_is_refused_by_its_name(tmp_path):
    model = tmp_path / "gpt2"
    shutil.copytree(ROOT / "configs/quickstart_models/student", model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"model_type": "gpt2"}))
    message = refused_training(tmp_path / "run", [f"--config.student.checkpoint={model}"])
    assert "gpt2" in message and "qwen3" in message


def refused_training(workdir: Path, flags: list[str]) -> str:
    """What a run that must not start says."""
    process = start_command(
        "train", "--config=configs/quickstart.py:smoke", f"--workdir={workdir}", *flags
    )
    output, _ = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "Traceback" not in output
    return output
