"""`python -m jopd.doctor --config=... --workdir=DIR`: what can be known before a run is started.

One line per check, ok, warning or error with what to do; the exit status is 1 after an error. With
--nomodels no weights are loaded, so it runs anywhere.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import jax
import jax.numpy as jnp
from absl import flags

from jopd import assembly
from jopd.assembly import Meshes, ModelFiles, RenderedPrompt, Stage
from jopd.checks import host, scoring, vocabulary
from jopd.checks.findings import Finding, error
from jopd.command import Invocation, run_command
from jopd.customer import customer_at_work, open_customer
from jopd.models.checkpoints import CheckpointError
from jopd.models.decoder import abstract_params
from jopd.models.source import ModelSettings
from jopd.settings import TrainSettings
from jopd.types import WeightSnapshot

_MODELS = flags.DEFINE_bool("models", True, "Also load the models and compare their log-probs.")
_MOMENTS_AND_WEIGHTS = 3 * 4  # bytes per parameter in a checkpoint


def main(settings: TrainSettings, invocation: Invocation) -> None:
    """Prints all findings; exits with 1 if one is an error."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="jopd-doctor-") as directory:
        for finding in examine(settings, invocation.workdir, Path(directory)):
            failed += finding.level == "error"
            print(finding.line(), flush=True)
    if failed:
        sys.exit(f"{failed} error(s): the run would not work as it is")
    print("no errors")


def examine(settings: TrainSettings, workdir: Path, scratch: Path) -> Iterator[Finding]:
    """All findings, cheap ones first.

    Args:
      settings: of the run.
      workdir: where the run would write.
      scratch: where models from scratch are made for the doctor.
    """
    yield from host.check_packages()
    yield from host.check_cores(settings.explorer.concurrency)
    opened, findings = host.check_environment(settings.env)
    yield from findings
    models: dict[str, ModelFiles] = {}
    if opened is not None:
        if settings.customer is None:
            yield from host.check_round_trip(opened)
        stage = assembly.set_stage(opened, settings, scratch)
        models, findings = _open_models(settings, stage)
        yield from findings
    yield from host.check_workdir(workdir, needed_bytes=_checkpoint_bytes(settings, models))
    if opened is not None and not findings:
        prompt = stage.first_prompt(models["student"])
        yield from _check_texts(models, prompt, settings)
        if _MODELS.value:
            yield from _check_scores(settings, models, prompt)
            yield from _check_customer(settings, stage)


def _open_models(
    settings: TrainSettings, stage: Stage
) -> tuple[dict[str, ModelFiles], list[Finding]]:
    models: dict[str, ModelFiles] = {}
    findings: list[Finding] = []
    named: dict[str, ModelSettings] = {"student": settings.student, "teacher": settings.teacher}
    if settings.customer is not None and not settings.customer.is_teacher:
        named["customer"] = settings.customer.model
    for name, source in named.items():
        try:
            models[name] = assembly.open_model(source, stage, name=name)
        except CheckpointError as problem:
            findings.append(error(name, str(problem)))
    return models, findings


def _checkpoint_bytes(settings: TrainSettings, models: dict[str, ModelFiles]) -> int:
    """Bytes of all checkpoints that are on disk at a time; one is written before one is removed."""
    if "student" not in models:
        return 0
    shapes = jax.tree.leaves(abstract_params(models["student"].config))
    parameters = sum(leaf.size for leaf in shapes)
    return (settings.checkpoint.keep + 1) * _MOMENTS_AND_WEIGHTS * parameters


def _check_texts(
    models: dict[str, ModelFiles], prompt: RenderedPrompt, settings: TrainSettings
) -> Iterator[Finding]:
    yield from vocabulary.check_tokenizers(models["student"], models["teacher"])
    for name, model in models.items():
        yield from vocabulary.check_rows(model, name)
        yield from vocabulary.check_stop_ids(model.tokenizer, name)
    yield vocabulary.check_prompt(len(prompt.tokens), settings.rollout.max_prompt_tokens)
    print(prompt.framed())


def _check_scores(
    settings: TrainSettings, models: dict[str, ModelFiles], prompt: RenderedPrompt
) -> Iterator[Finding]:
    meshes = assembly.make_meshes(settings.devices)
    student, teacher = models["student"], models["teacher"]
    dtype = settings.engine.compute_dtype
    params = student.load(meshes.engine, jnp.dtype(dtype))
    snapshot = WeightSnapshot(params=params, version=0)
    with closing(
        assembly.start_engine(student, snapshot, settings.engine, meshes.engine)
    ) as engine:
        probe = scoring.make_probe(engine, prompt.tokens[: settings.rollout.max_prompt_tokens])
        yield from scoring.check_engine(probe, params, student.config, dtype=dtype)
    yield from _check_scorer("self", settings, student, student, meshes, probe)
    yield from _check_scorer("teacher", settings, teacher, student, meshes, probe)


def _check_customer(settings: TrainSettings, stage: Stage) -> Iterator[Finding]:
    if settings.customer is None:
        return
    mesh = assembly.make_meshes(settings.devices).teacher
    with customer_at_work(open_customer(settings, stage), stage, mesh) as played:
        yield from host.check_customer(played.env)


def _check_scorer(
    role: str,
    settings: TrainSettings,
    teacher: ModelFiles,
    student: ModelFiles,
    meshes: Meshes,
    probe: scoring.Probe,
) -> Iterator[Finding]:
    """The student as its own teacher ("self"), or the teacher."""
    dtype = settings.scorer.compute_dtype
    params = teacher.load(meshes.teacher, jnp.dtype(dtype))
    scorer = assembly.start_scorer(teacher, params, student, settings.scorer, meshes.teacher)
    with closing(scorer):
        if role == "self":
            coarser = "bfloat16" if "bfloat16" in (dtype, settings.engine.compute_dtype) else dtype
            yield from scoring.check_self_distillation(scorer, probe, dtype=coarser)
        else:
            yield from scoring.check_scorer(
                "teacher's scores", scorer, probe, params, teacher.config, dtype=dtype
            )


if __name__ == "__main__":
    run_command(TrainSettings, main)
