"""An address where no Ray listens is found out at once: Ray itself tries it for many minutes."""

from __future__ import annotations

import socket

import pytest

from gpuconf.errors import GpuconfError
from gpuconf.holdings.scheduler_names import NotAskedError, ray_names
from gpuconf.nodes.over_ray import ask_nodes
from gpuconf.ray_address import silence_of


@pytest.fixture
def silent() -> str:
    """A port of this machine that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("form", ["{}", "ray://{}", "http://{}/"])
def test_what_listens_and_what_does_not(form: str, silent: str) -> None:
    """In each form that Ray takes."""
    assert silence_of(form.format(silent)) == "Connection refused"
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert silence_of(form.format(f"127.0.0.1:{server.getsockname()[1]}")) is None


@pytest.mark.parametrize("address", ["", "auto", "local", "head", "head:", ":6379", "head:port"])
def test_what_is_no_address_is_for_ray_to_judge(address: str) -> None:
    assert silence_of(address) is None


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "a..b:6379", "no-such-host.invalid:6379"])
def test_what_cannot_be_an_address_is_silent(address: str) -> None:
    """With a reason, and never a traceback."""
    assert silence_of(address)


def test_the_commands_say_so_before_they_ask_ray(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gpuconf ps --ray` and `gpuconf ray doctor`, by RAY_ADDRESS and by --address."""
    monkeypatch.setenv("RAY_ADDRESS", silent)
    with pytest.raises(NotAskedError, match=f"Ray cannot be asked at {silent}: Connection refused"):
        ray_names({})
    for address in ("auto", silent):
        with pytest.raises(GpuconfError, match=f"no Ray cluster answers at {silent}: Connection"):
            ask_nodes(address, [], 1, print)
