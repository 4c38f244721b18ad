from __future__ import annotations

import os
from pathlib import Path

import httpx
import jwt
import pytest

from slurmclient import AuthenticationError, MintedToken, StaticToken, TokenFile
from tests.builders.slurmrestd_fake import FakeRestd, client_of, refusal, reply

DIAG = reply({"statistics": {}})
KEY = b"k" * 32


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def key_file(folder: Path, key: bytes = KEY) -> Path:
    path = folder / "jwt.key"
    path.write_bytes(key)
    return path


def sent(restd: FakeRestd) -> list[str]:
    return [request.headers["x-slurm-user-token"] for request in restd.requests]


def needs(good: str) -> object:
    def answer(request: httpx.Request) -> httpx.Response:
        return DIAG if request.headers["x-slurm-user-token"] == good else refusal(1007, 511)

    return answer


@pytest.mark.parametrize("text", ["abc.def.ghi", " abc.def.ghi\n", "SLURM_JWT=abc.def.ghi\n"])
def test_a_token_is_understood_as_scontrol_prints_it(text: str) -> None:
    assert StaticToken(text).token() == "abc.def.ghi"


@pytest.mark.parametrize("text", ["", " \n", "SLURM_JWT=", "a b", "a\nX-Evil: 1", "tök"])
def test_what_is_no_token_is_refused_before_it_is_sent(text: str) -> None:
    with pytest.raises(AuthenticationError, match="the token given"):
        StaticToken(text).token()


def test_no_token_shows_in_what_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("secret-1")
    file = TokenFile(path)
    minted = MintedToken(key_file(tmp_path), "slurm", clock=Clock(1000))
    assert file.token() == "secret-1"
    assert "secret" not in repr(file) + repr(StaticToken("secret-1"))
    assert minted.token() not in repr(minted)


def test_a_token_file_is_read_again_when_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    file = TokenFile(path)
    assert file.token() == "first"
    fresh = tmp_path / "fresh"
    fresh.write_text("other")
    fresh.replace(path)
    assert file.token() == "other"


def test_a_token_file_behind_a_swapped_link_is_read_again(tmp_path: Path) -> None:
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
        os.utime(tmp_path / name / "token", ns=(5, 5))
    link = tmp_path / "data"
    link.symlink_to("v1")
    file = TokenFile(link / "token")
    assert file.token() == "v1"
    (tmp_path / "next").symlink_to("v2")
    (tmp_path / "next").replace(link)
    assert file.token() == "v2"


def test_a_token_file_that_goes_away_for_a_moment_keeps_its_last_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    file = TokenFile(path)
    file.token()
    path.unlink()
    assert file.token() == "first"


def test_a_token_file_that_was_never_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError, match=r"missing.* cannot be read: No such file"):
        TokenFile(tmp_path / "missing").token()


def test_a_minted_token_says_who_and_until_when(tmp_path: Path) -> None:
    token = MintedToken(key_file(tmp_path), "slurm", lifetime_s=600, clock=Clock(1_000_000)).token()
    claims = jwt.decode(token, KEY, algorithms=["HS256"], options={"verify_exp": False, "verify_iat": False})
    assert claims == {"iat": 1_000_000, "exp": 1_000_600, "sun": "slurm"}


def test_a_minted_token_is_renewed_while_a_quarter_of_its_life_is_left(tmp_path: Path) -> None:
    clock = Clock(1_000_000)
    source = MintedToken(key_file(tmp_path), "slurm", lifetime_s=600, clock=clock)
    first = source.token()
    clock.now += 449
    assert source.token() == first
    clock.now += 1
    assert source.token() != first


def test_a_minted_token_from_the_future_is_minted_again_when_the_clock_is_set_back(tmp_path: Path) -> None:
    clock = Clock(1_000_000)
    source = MintedToken(key_file(tmp_path), "slurm", lifetime_s=600, clock=clock)
    first = source.token()
    clock.now -= 5000
    assert source.token() != first


@pytest.mark.parametrize("prepare", ["missing", "empty"])
def test_a_key_that_cannot_be_used_is_named(tmp_path: Path, prepare: str) -> None:
    path = tmp_path / "jwt.key" if prepare == "missing" else key_file(tmp_path, b"")
    with pytest.raises(AuthenticationError, match=r"key file .*jwt\.key"):
        MintedToken(path, "slurm", clock=Clock(0)).token()


def test_a_token_without_life_or_user_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lifetime_s=3"):
        MintedToken(key_file(tmp_path), "slurm", lifetime_s=3)
    with pytest.raises(ValueError, match="user=''"):
        MintedToken(key_file(tmp_path), "")


async def test_a_refused_token_is_read_again_and_the_request_repeated_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    stamp = path.stat()

    def rotate(request: httpx.Request) -> httpx.Response:
        # Same inode, size and time: only the refusal makes the client look again.
        path.write_text("new")
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        return refusal(1007, 511)

    restd = FakeRestd().on("GET", "diag", rotate, DIAG)
    async with client_of(restd, token=TokenFile(path)) as slurm:
        await slurm.verify_token()
    assert sent(restd) == ["old", "new"]


async def test_a_request_that_makes_a_job_is_repeated_too_since_a_refused_token_made_none(tmp_path: Path) -> None:
    clock = Clock(1000)
    source = MintedToken(key_file(tmp_path), "slurm", clock=clock)

    def refuse_and_tick(request: httpx.Request) -> httpx.Response:
        clock.now += 1
        return refusal(1007, 511)

    restd = FakeRestd().on("DELETE", "jobs", refuse_and_tick, reply({"status": []}))
    async with client_of(restd, token=source) as slurm:
        await slurm.cancel(1)
    assert len(set(sent(restd))) == 2


async def test_a_token_refused_twice_is_given_up(tmp_path: Path) -> None:
    clock = Clock(1000)

    def refuse_and_tick(request: httpx.Request) -> httpx.Response:
        clock.now += 1
        return refusal(1007, 511)

    restd = FakeRestd().on("GET", "diag", refuse_and_tick)
    async with client_of(restd, token=MintedToken(key_file(tmp_path), "slurm", clock=clock)) as slurm:
        with pytest.raises(AuthenticationError) as caught:
            await slurm.verify_token()
    assert len(restd.requests) == 2
    assert (caught.value.http_status, caught.value.slurm_errno) == (511, 1007)


async def test_a_token_that_cannot_be_renewed_is_sent_once() -> None:
    restd = FakeRestd().on("GET", "diag", refusal(1007, 511))
    async with client_of(restd) as slurm:
        with pytest.raises(AuthenticationError):
            await slurm.verify_token()
    assert sent(restd) == ["token-1"]


async def test_a_request_without_token_header_is_an_authentication_error() -> None:
    restd = FakeRestd().on("GET", "diag", httpx.Response(401, text="Authentication failure"))
    async with client_of(restd) as slurm:
        with pytest.raises(AuthenticationError, match="Authentication failure"):
            await slurm.diag()


async def test_the_user_to_act_as_goes_into_a_header_and_a_call_may_name_another() -> None:
    restd = FakeRestd().on("GET", "diag", DIAG)
    async with client_of(restd, user="slurm") as slurm:
        await slurm.diag()
        await slurm.diag(as_user="alice")
    assert [request.headers["x-slurm-user-name"] for request in restd.requests] == ["slurm", "alice"]
    assert all("authorization" not in request.headers for request in restd.requests)


async def test_without_a_user_no_header_is_sent() -> None:
    restd = FakeRestd().on("GET", "diag", DIAG)
    async with client_of(restd) as slurm:
        await slurm.diag()
    assert "x-slurm-user-name" not in restd.requests[0].headers


@pytest.mark.parametrize("user", ["", "a b", "a\r\nX: 1", "jürgen"])
async def test_a_user_that_would_break_the_header_is_refused(user: str) -> None:
    async with client_of(FakeRestd()) as slurm:
        with pytest.raises(ValueError, match="Slurm user"):
            await slurm.diag(as_user=user)
