"""The doctor's look at the machine."""

import dataclasses

from jopd.checks import host
from jopd.envs.scienceworld.settings import ScienceWorldSettings
from jopd.envs.webshop.settings import WebShopSettings


def test_a_workdir_that_cannot_be_written_is_an_error(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    (found,) = host.check_workdir(file / "run", needed_bytes=0)
    assert found.level == "error" and "give another --workdir" in found.text


def test_a_disk_without_room_for_the_checkpoints_is_an_error(tmp_path):
    levels = [f.level for f in host.check_workdir(tmp_path / "new" / "run", needed_bytes=10**18)]
    assert levels == ["ok", "error"]
    levels = [f.level for f in host.check_workdir(tmp_path / "new" / "run", needed_bytes=1)]
    assert levels == ["ok", "ok"]
    assert not (tmp_path / "new").exists()


def test_missing_java_is_an_error_that_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    opened, (found,) = host.check_environment(ScienceWorldSettings())
    assert opened is None
    assert found.level == "error" and "java" in found.text


def test_missing_data_is_an_error_that_names_the_file():
    settings = WebShopSettings(items_file="/nowhere/items.json", attributes_file="/nowhere/a.json")
    opened, (found,) = host.check_environment(settings)
    assert opened is None
    assert found.level == "error" and "/nowhere/" in found.text


def test_the_embedded_shop_opens_and_its_rollouts_can_be_restored():
    opened, findings = host.check_environment(WebShopSettings())
    assert opened is not None
    assert [f.level for f in findings] == ["ok", "ok"]
    (trip,) = host.check_round_trip(opened)
    assert trip.level == "ok"


def test_an_environment_that_dies_is_an_error():
    opened, _ = host.check_environment(WebShopSettings())
    assert opened is not None
    broken = dataclasses.replace(opened, make_env=_Dying)
    (trip,) = host.check_round_trip(broken)
    assert trip.level == "error" and "gone" in trip.text


class _Dying:
    async def reset(self, task):
        raise host.EnvError("gone")

    async def step(self, action):
        raise host.EnvError("gone")

    async def is_allowed(self, action):
        raise host.EnvError("gone")


def test_too_many_rollouts_for_the_cores_are_a_warning():
    assert [f.level for f in host.check_cores(10**6)] == ["warning"]
    assert [f.level for f in host.check_cores(1)] == ["ok"]
