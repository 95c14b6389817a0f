import json

import pytest

from jopd.runtime.run_directory import RunDirectoryError, claim

CONFIG = {"optimizer": {"learning_rate": 1e-6}, "runtime": {"num_updates": 3}}


def test_a_new_directory_holds_the_resolved_config(tmp_path):
    claim(tmp_path / "run", CONFIG, command="train", resume="no").close()
    stored = json.loads((tmp_path / "run" / "config.json").read_text())
    assert stored == {"command": "train", **CONFIG}


def test_an_existing_run_is_never_overwritten(tmp_path):
    claim(tmp_path, CONFIG, command="train", resume="no").close()
    with pytest.raises(RunDirectoryError, match="--resume=auto"):
        claim(tmp_path, CONFIG, command="train", resume="no")


def test_resume_refuses_another_config_and_names_what_changed(tmp_path):
    claim(tmp_path, CONFIG, command="train", resume="no").close()
    other = {"optimizer": {"learning_rate": 1e-5}, "runtime": {"num_updates": 3}}
    with pytest.raises(RunDirectoryError, match=r"optimizer\.learning_rate: 1e-06 then, 1e-05 now"):
        claim(tmp_path, other, command="train", resume="auto")
    with pytest.raises(RunDirectoryError, match="command: 'train' then, 'sft' now"):
        claim(tmp_path, CONFIG, command="sft", resume="auto")


def test_resume_may_train_longer(tmp_path):
    claim(tmp_path, CONFIG, command="train", resume="no").close()
    longer = CONFIG | {"runtime": {"num_updates": 9}}
    claim(tmp_path, longer, command="train", resume="auto").close()


def test_a_directory_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(RunDirectoryError, match="not empty"):
        claim(tmp_path, CONFIG, command="train", resume="auto")


def test_two_processes_cannot_use_one_directory(tmp_path):
    first = claim(tmp_path, CONFIG, command="train", resume="no")
    with pytest.raises(RunDirectoryError, match="in use"):
        claim(tmp_path, CONFIG, command="train", resume="auto")
    first.close()
    claim(tmp_path, CONFIG, command="train", resume="auto").close()
