"""All benchmarks, each in a process of its own, and a table of what they say.

python -m benchmarks [--tunix_python=PYTHON] [--only=learner,decoding] [--json=FILE]

With the interpreter of an environment that has google-tunix, the same work is done by tunix too and
the ratios are printed beside the targets. Ratios of CPU-seconds of one run count; the machine's
speed and its other work do not.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

Figures = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A figure of ours over another's.

    Attributes:
      name: what is compared.
      ours: part and figure of jopd.
      theirs: part and figure of tunix, or of jopd without the means that is measured.
      target: what the ratio shall be.
    """

    name: str
    ours: tuple[str, str]
    theirs: tuple[str, str]
    target: str


PARTS = {
    "learner": ["benchmarks.learner"],
    "learner_bf16": ["benchmarks.learner", "bfloat16"],
    "scoring": ["benchmarks.scoring"],
    "decoding": ["benchmarks.decoding"],
    "selection": ["benchmarks.selection"],
    "orchestrator": ["benchmarks.orchestrator"],
}
TUNIX_PARTS = ("learner", "scoring", "decoding")
RATIOS = (
    Ratio(
        name="learner, tokens per CPU-second",
        ours=("learner", "tokens_per_cpu_s"),
        theirs=("tunix learner", "tokens_per_cpu_s"),
        target=">= 9",
    ),
    Ratio(
        name="learner in bfloat16",
        ours=("learner_bf16", "tokens_per_cpu_s"),
        theirs=("tunix learner", "tokens_per_cpu_s"),
        target=">= 9",
    ),
    Ratio(
        name="learner, peak memory",
        ours=("learner", "peak_memory_gb"),
        theirs=("tunix learner", "peak_memory_gb"),
        target="<= 0.6",
    ),
    Ratio(
        name="scoring, tokens per CPU-second",
        ours=("scoring", "tokens_per_cpu_s/float32"),
        theirs=("tunix scoring", "tokens_per_cpu_s"),
        target=">= 6",
    ),
    Ratio(
        name="decoding at temperature 1, tokens per CPU-second",
        ours=("decoding", "float32_sampled_tokens_per_cpu_s"),
        theirs=("tunix decoding", "tokens_per_cpu_s"),
        target=">= 2.5",
    ),
    Ratio(
        name="ten turns, prompt tokens computed without and with reuse",
        ours=("decoding", "rollout_no_reuse_prefilled_tokens"),
        theirs=("decoding", "rollout_reuse_prefilled_tokens"),
        target=">= 5",
    ),
    Ratio(
        name="ten turns scored, CPU without and with reuse",
        ours=("scoring", "growing_from_scratch_cpu_s"),
        theirs=("scoring", "growing_incremental_cpu_s"),
        target=">= 4",
    ),
)


def main() -> None:
    """Runs everything and prints the tables."""
    parser = argparse.ArgumentParser(description="All benchmarks, and a table of what they say.")
    parser.add_argument("--tunix_python", help="interpreter of an environment with google-tunix")
    parser.add_argument("--only", default=",".join(PARTS), help="the parts to run, by commas")
    parser.add_argument("--json", type=Path, help="where all figures go")
    flags = parser.parse_args()
    wanted = flags.only.split(",")
    if unknown := set(wanted) - PARTS.keys():
        parser.error(f"there are the parts {', '.join(PARTS)}, not {', '.join(unknown)}")
    figures: dict[str, Figures] = {}
    for name in wanted:
        figures[name] = run(name, [sys.executable, "-m", *PARTS[name]])
    if flags.tunix_python:
        for part in (part for part in TUNIX_PARTS if part in wanted):
            name = f"tunix {part}"
            command = [flags.tunix_python, "-m", "benchmarks.tunix_baseline", part]
            figures[name] = run(name, command)
    if flags.json:
        flags.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(table(figures))


def run(name: str, command: list[str]) -> Figures:
    """Runs one part; its figures are the JSON at the end of its output."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, timeout=3600
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    figures = json.loads(done.stdout[done.stdout.rindex("{") :])
    for figure, value in figures.items():
        print(f"  {figure:44} {value:,.4g}", file=sys.stderr, flush=True)
    return figures


def table(figures: dict[str, Figures]) -> str:
    """The ratios whose two figures are there, as Markdown."""
    lines = ["| what | ours | beside | ratio | target |", "|---|---|---|---|---|"]
    for ratio in RATIOS:
        if figures.keys() >= {ratio.ours[0], ratio.theirs[0]}:
            ours, theirs = (figures[part][figure] for part, figure in (ratio.ours, ratio.theirs))
            cells = (ratio.name, f"{ours:,.4g}", f"{theirs:,.4g}", f"{ours / theirs:.2f}")
            lines.append(f"| {' | '.join(cells)} | {ratio.target} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
