"""The configuration is read strictly, everything wrong with it is said at once, and nothing secret is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs.generate.configuration import SMALLEST, render
from extender.config.derive import translation_policy
from extender.config.faults import ConfigError
from extender.config.listeners import unreachable
from extender.config.load import Overrides, from_environment, from_settings, load, parse, settable, variable
from extender.config.peers.sunk import SUNK_FLAGS, from_flags
from extender.config.schema_keys import CONFIGURATION, keys
from extender.config.values import BindAddress
from extender.domain.policy.site import (
    MissingRequests,
    MissingSize,
)
from tests.builders.configurations import HEAD, SLURM, faults, read


def test_the_smallest_document_of_the_reference_page_is_enough() -> None:
    configuration = parse(SMALLEST, "example")
    assert configuration.slurm.addresses == ("http://slurmrestd.slurm.svc:6820",)
    assert configuration.scheduler.name == "slurm"


def test_everything_listens_on_the_loopback_interface_unless_configured_otherwise() -> None:
    configuration = read()
    binds = [configuration.http.bind, configuration.observability.health_bind, configuration.observability.metrics_bind]
    assert {bind.host for bind in binds} == {"127.0.0.1"}
    assert configuration.hooks.bind is None


def test_every_fault_is_said_at_once_with_its_line() -> None:
    said = faults("slurm:\n  tokenFile: /t\n  killWait: soon\n  connections: 99\nhook: {}\n")
    assert said == (
        'c.yaml, line 5: slurm.killWait: "soon" is no duration; it must be a duration such as 500ms, 30s, 1m30s or 2h, '
        "or a number of seconds",
        "c.yaml, line 6: slurm.connections: 99 is out of bounds: it must be at most 8",
        "c.yaml, line 7: hook: unknown key; did you mean hooks?",
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (SLURM + "polling: {min_interval: 1s}", "polling.min_interval: unknown key; did you mean minInterval?"),
        (SLURM + "scope: {zzz: 1}", "scope.zzz: unknown key; the keys here are namespaces, readPods"),
        (SLURM + "scheduler: {name: 5}", "scheduler.name: 5 is not text (put it in quotes); it must be text"),
        (SLURM + "scheduler: {otherProfiles: [a, slurm]}", "otherProfiles lists slurm, which is scheduler.name"),
        (SLURM + "scheduler: {name: ''}", 'scheduler.name: "" is empty: remove it, or set a value'),
        (
            SLURM + "jobs: {allow: [uid]}",
            'jobs.allow[0]: "uid" is not allowed; it must be one of user-id, group-id, priority',
        ),
        (SLURM + "jobs: {sunkTimeoutUnit: hours}", '"hours" is not allowed; it must be one of minutes, seconds'),
        (SLURM + "jobs: {defaults: {partition: 'a b'}}", "must be names separated by commas"),
        (SLURM + "jobs: {gres: [{resource: gpu, gres: gpu}]}", "'gpu' is not an extended resource"),
        (SLURM + "jobs: {gres: [{resource: a.io/*, gres: 'gpu:40'}]}", "with a letter in the type"),
        (
            SLURM + "jobs: {gres: [{resource: nvidia.com/*, gres: none}, {resource: nvidia.com/gpu, gres: gpu}]}",
            "'nvidia.com/gpu' is never reached, 'nvidia.com/*' stands before it",
        ),
        (SLURM + "jobs: {gres: [{resource: a.io/x, gres: x, multiplier: 0}]}", "multiplier"),
        (SLURM + "jobs: {gpuTypes: {L4: 'a b'}}", "L4: 'a b' is no GRES type"),
        (SLURM + "http: {bind: 8080}", "http.bind: 8080 is no address to listen at; it must be host:port"),
        (SLURM + "http: {tls: {certificateFile: /c}}", "http.tls.keyFile: missing; it is required: text"),
        (SLURM + "hooks: 5", "hooks: 5 is not allowed; it must be a map with the keys bind"),
        (SLURM + "hooks: {wait: 30s}", "hooks.wait is 30 s and slurm.killWait 30 s"),
        ("slurm: {token: a, connections: '5'}", 'slurm.connections: "5" is not allowed; it must be a whole number'),
        ("slurm: {token: a, connections: 5.5}", "slurm.connections: 5.5 is not allowed"),
        (
            "slurm: {token: a, sendUserSignal: 'yes'}",
            'slurm.sendUserSignal: "yes" is not allowed; it must be true or false',
        ),
        ("slurm: {token: a, sendUserSignal: 1}", "slurm.sendUserSignal: 1 is not allowed"),
        (SLURM + "hooks: {url: 'http://h'}", "hooks.url is set without hooks.bind"),
        (SLURM + "hooks: {bind: ':1', key: a, keyFile: b}", "at most one of them"),
        (
            SLURM + "hooks: {bind: '127.0.0.1:8080', tls: {certificateFile: a, keyFile: b}}",
            "both must have the same tls",
        ),
        (SLURM + "polling: {minInterval: 2s}", "polling: minInterval is longer than maxInterval"),
        (SLURM + "retry: {maxBackoff: 500ms}", "retry: initialBackoff is longer than maxBackoff"),
        (SLURM + "scope: {namespaces: [a, a]}", "namespaces lists a more than once"),
        (SLURM + "scope: {readPods: namespaces}", "readPods is namespaces, and namespaces is not set"),
        (
            SLURM + "scope: {namespaces: [a], readPods: namespaces}\nforeignPods: {mode: jobs}",
            "foreignPods.mode is jobs: most foreign Pods are in namespaces that are not read",
        ),
        (
            SLURM
            + "scope: {namespaces: [a], readPods: namespaces}\nnodes: {slurmdPods: {labels: {a: b}, namespace: c}}",
            "nodes.slurmdPods.namespace is c: it must be one of scope.namespaces",
        ),
        (
            SLURM + "nodes: {slurmdPods: {labels: {a: b}}}",
            "nodes.slurmdPods.namespace",
        ),
        (
            SLURM + "scope: {namespaces: [a, b, c], readPods: namespaces}\nkubernetes: {connections: 4}",
            "scope.namespaces has 3 of them: each is a watch of its own, and kubernetes.connections allows 2",
        ),
        (
            SLURM + "gangs: {largest: 1025}",
            "http.connections is 2048 and gangs.largest 1025: http.connections must be at least 2050",
        ),
        (
            SLURM + "http: {connections: 63}\ngangs: {largest: 32}",
            "http.connections is 63 and gangs.largest 32: http.connections must be at least 64",
        ),
        ("slurm: {}", "slurm: none given: exactly one of token, tokenFile and jwtKeyFile"),
        ("slurm: {token: a, jwtKeyFile: b}", "slurm: token and jwtKeyFile given: exactly one"),
        (
            "slurm: {token: a, timeouts: {read: 3s}}",
            "slurm.timeouts.read: 3.0 is out of bounds: it must be at least 25 s",
        ),
        ("slurm: {token: a, addresses: []}", "slurm.addresses: [] is empty"),
        ("slurm: {token: a, addresses: ['h:6820']}", "it must be http://host:port, https://host:port or unix:///path"),
        ("slurm: {token: a, tls: {keyFile: k}}", "keyFile is given without certificateFile"),
        (
            "slurm: {token: a, users: [{name: a, uid: 1, gid: 1}, {name: a, uid: 2, gid: 2}]}",
            "users names a more than once",
        ),
        (
            "slurm: {token: a, groups: [{name: a, gid: 1}, {name: a, gid: 2}]}",
            "groups names a more than once: one entry for each group",
        ),
        (
            SLURM + "jobs: {defaults: {userId: carol}, namespaceDefaults: {ml: {userId: '7', groupId: wheel}}}",
            "jobs.defaults.userId is 'carol': it must be a number, or a name from slurm.users; "
            "jobs.namespaceDefaults.ml.groupId is 'wheel': it must be a number, or a name from slurm.groups",
        ),
        ("", "slurm: missing; it is required"),
        (SLURM + SLURM, "c.yaml, line 4: the key 'slurm' stands twice, first in line 3"),
        (SLURM + "scope: {namespaces: [a}", "c.yaml, line 4: "),
        (SLURM + "limits: {refreshRate: .inf}", "a number is infinite"),
        (SLURM + "? [a]\n: b", "a key must be text"),
        (SLURM + "---\n" + SLURM, "c.yaml, line 4: "),
        (SLURM + "scope: &a {namespaces: *a}", "nested too deeply"),
    ],
)
def test_a_fault_names_the_place_and_what_is_allowed(body: str, said: str) -> None:
    assert said in "\n".join(faults(body))


def test_an_item_that_is_wrong_does_not_make_its_list_too_short() -> None:
    assert len(faults("slurm: {token: a, addresses: ['ftp://x']}")) == 1


def test_other_versions_and_kinds_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"apiVersion: \"v1\" is not allowed; it must be slurm-extender\.io/v1alpha1"):
        parse("apiVersion: v1\nkind: ExtenderConfiguration\n" + SLURM, "c.yaml")
    with pytest.raises(ConfigError, match="kind: missing; it is required: ExtenderConfiguration"):
        parse("apiVersion: slurm-extender.io/v1alpha1\n" + SLURM, "c.yaml")


@pytest.mark.parametrize("text", ["", "[]", "5", "null"])
def test_a_document_that_is_no_map_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="it must be a map with apiVersion, kind and slurm"):
        parse(text, "c.yaml")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read: No such file or directory"):
        load(tmp_path / "nowhere.yaml")
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="latin: cannot be read"):
        load(tmp_path / "latin")


@settings(deadline=None)
@given(st.text(alphabet="ab: -\n\t{}[],&*!|>#\"'\\%@?\x00\x1f\x85\xe9\ufeff\ud800", max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    with pytest.raises(ConfigError):
        parse(text, "c.yaml")


def test_secrets_are_in_no_dump_repr_or_fault() -> None:
    configuration = read("slurm: {token: hush}\nhooks: {bind: ':1', key: hush}\n")
    shown = [repr(configuration), str(configuration), configuration.model_dump_json(), str(configuration.model_dump())]
    assert all("hush" not in text for text in shown)
    assert configuration.slurm.token is not None
    assert configuration.slurm.token.get_secret_value() == "hush"
    assert "987654" not in "\n".join(faults("slurm: {token: 987654}"))
    assert "hush" not in "\n".join(faults("slurm: {token: hush, tokenFile: x}"))
    assert "hush" not in "\n".join(faults("slurm: {token: hush, adresses: x}"))


def test_the_dump_is_a_document_that_can_be_read_again() -> None:
    configuration = read(
        SLURM + "jobs: {defaults: {partition: gpu}, allow: [priority]}\nlimits: {historyRetention: 1m30s}\n"
    )
    again = parse(configuration.model_dump_json(), "dump.json")
    assert again == configuration


def test_variables_go_before_the_file_and_flags_before_variables() -> None:
    environ = {"SLURM_EXTENDER__SLURM__KILL_WAIT": "40s", "SLURM_EXTENDER__MASS_DELETION_GUARD__MIN_COUNT": "9"}
    body = "slurm: {tokenFile: /t, killWait: 20s}\n"
    assert read(body, environ=environ).slurm.kill_wait == 40
    assert read(body, environ=environ).mass_deletion_guard.min_count == 9
    assert read(body, environ=environ, flags={"slurm-kill-wait": "50s"}).slurm.kill_wait == 50
    assert read(body, environ=environ, settings=("slurm.killWait=70",)).slurm.kill_wait == 70


def test_a_fault_in_a_variable_or_flag_names_it() -> None:
    assert faults(environ={"SLURM_EXTENDER__HTTP__MAX_REQUEST_BYTES": "5"}) == (
        "environment SLURM_EXTENDER__HTTP__MAX_REQUEST_BYTES: http.maxRequestBytes: 5 is out of bounds: it must be "
        "at least 65536",
    )
    assert faults(environ={"SLURM_EXTENDER__SLURM__KILLWAIT": "5s"}) == (
        "environment SLURM_EXTENDER__SLURM__KILLWAIT: no such key; did you mean SLURM_EXTENDER__SLURM__KILL_WAIT?",
    )
    assert faults(flags={"hooks-api-bind-address": "8000"})[0].startswith(
        '--hooks-api-bind-address: hooks.bind: "8000"'
    )
    assert faults(settings=("slurm.kilWait=1",)) == ("--set slurm.kilWait: unknown key; did you mean slurm.killWait?",)
    assert faults(settings=("slurm=1",)) == ("--set slurm: it holds keys itself, and cannot be set at once",)
    assert "it must read key=value" in faults(settings=("slurm.killWait",))[0]


def test_variables_of_kubernetes_and_of_the_placeholder_script_are_not_passed_on() -> None:
    foreign = {"SLURM_EXTENDER_SERVICE_HOST": "10.0.0.1", "SLURM_EXTENDER_PORT": "tcp://x", "SLURM_EXTENDER_TOKEN": "t"}
    assert from_environment(foreign) == Overrides()


def test_lists_maps_and_null_can_be_set_from_text() -> None:
    configuration = read(
        settings=("jobs.allow=[priority]", "jobs.gpuTypes={L4: l4}", "observability.debugBind=null", "slurm.user=007")
    )
    assert [str(key) for key in configuration.jobs.allow] == ["priority"]
    assert configuration.jobs.gpu_types == {"L4": "l4"}
    assert configuration.observability.debug_bind is None
    assert configuration.slurm.user == "007"


def test_every_value_has_a_variable_of_its_own() -> None:
    names = [variable(key) for key in settable()]
    assert len(set(names)) == len(names) > 50


def test_the_flags_of_sunk_suffice_without_a_file() -> None:
    flags = {
        "health-probe-bind-address": ":8081", "metrics-bind-address": ":8080", "hooks-api-bind-address": ":8000",
        "zap-log-level": "debug", "components": "scheduler", "slurm-auth-token": "t", "slurm-api-base": "slurm:6820",
        "slurm-kill-wait": "45s", "watch-namespace": "ml", "scheduler-name": "tenant-slurm",
    }  # fmt: skip
    assert set(flags) == {flag.name for flag in SUNK_FLAGS}
    configuration = load(None, from_flags(flags))
    assert configuration.http.bind == BindAddress("127.0.0.1", 8082)  # 8080 is taken by the flags
    assert configuration.observability.health_bind == BindAddress("", 8081)
    assert configuration.observability.metrics_bind == BindAddress("", 8080)
    assert configuration.hooks.bind == BindAddress("", 8000)
    assert configuration.observability.log_level == "debug"
    assert configuration.slurm.addresses == ("http://slurm:6820",)
    assert configuration.slurm.kill_wait == 45
    assert configuration.scope.namespaces == ("ml",)
    assert configuration.scheduler.name == "tenant-slurm"


def test_an_address_that_is_given_for_the_scheduling_routes_stays(tmp_path: Path) -> None:
    flags = from_flags({"metrics-bind-address": ":8080"})
    given = from_settings(("http.bind=127.0.0.1:9000",))
    for overrides in (given + flags, flags + given):
        assert parse(HEAD + SLURM, "c.yaml", overrides).http.bind.port == 9000
    assert parse(f"{HEAD}{SLURM}http: {{bind: ':9001'}}\n", "c.yaml", flags).http.bind.port == 9001
    assert parse(HEAD + SLURM, "c.yaml", from_flags({"metrics-bind-address": ":8084"})).http.bind.port == 8080


@pytest.mark.parametrize("text", ["slurm-controller:6817", "http://slurm-controller:6817/", "[::1]:6817"])
def test_the_port_of_slurmctld_is_not_taken_for_slurmrestd_s(text: str) -> None:
    [fault] = faults(flags={"slurm-api-base": text})
    assert fault.startswith(
        f"--slurm-api-base: '{text}' is slurmctld's own port; it must be the address of a slurmrestd"
    )


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (
            "http: {bind: ':8080'}\nobservability: {metricsBind: '127.0.0.1:8080'}",
            "http.bind is :8080 and observability",
        ),
        ("hooks: {bind: '0.0.0.0:8081'}", "hooks.bind is 0.0.0.0:8081 and observability.healthBind is 127.0.0.1:8081"),
        ("hooks: {bind: 'localhost:8083'}", "hooks.bind is localhost:8083 and observability.debugBind"),
    ],
)
def test_two_listeners_on_one_port_are_found(body: str, fault: str) -> None:
    [said] = faults(f"{SLURM}{body}\n")
    assert fault in said
    assert "one of them must have another port" in said


def test_one_port_may_be_used_on_two_addresses_of_the_machine_and_one_address_for_two_purposes() -> None:
    read(f"{SLURM}http: {{bind: '10.0.0.1:8080'}}\nhooks: {{bind: '10.0.0.2:8080'}}\n")
    read(f"{SLURM}http: {{bind: ':8080'}}\nobservability: {{healthBind: ':8080', metricsBind: ':8080'}}\n")


@pytest.mark.parametrize("largest", [2, 1024, 2**16 - 1])
def test_twice_as_many_connections_as_the_largest_gang_has_pods_are_enough(largest: int) -> None:
    number = max(16, 2 * largest)
    config = parse(f"{HEAD}{SLURM}http: {{connections: {number}}}\ngangs: {{largest: {largest}}}", "c.yaml")
    assert config.http.connections == number


def test_listeners_that_no_other_pod_reaches_are_known() -> None:
    assert [one.key for one in unreachable(read().listeners)] == [
        *("http.bind", "observability.healthBind", "observability.metricsBind"),
    ]
    reached = "http: {bind: ':8080'}\nobservability: {healthBind: ':8081', metricsBind: '[::]:8082'}\n"
    assert not unreachable(read(SLURM + reached).listeners)
    assert [one.key for one in unreachable(read(f"{SLURM}{reached}hooks: {{bind: '[::1]:8000'}}\n").listeners)] == [
        "hooks.bind"
    ]


def test_other_components_of_sunk_and_unknown_levels_are_refused() -> None:
    said = faults(flags={"components": "syncer,scheduler", "zap-log-level": "loud"})
    assert said[0].startswith("--zap-log-level: 'loud' is no level; it must be one of debug")
    assert (
        said[1]
        == "--components: 'syncer,scheduler': this program is the scheduler component alone; it must be scheduler"
    )


@pytest.mark.parametrize(("zap", "ours"), [("warn", "warning"), ("panic", "error"), ("5", "debug"), ("info", "info")])
def test_levels_of_zap_are_understood(zap: str, ours: str) -> None:
    assert read(flags={"zap-log-level": zap}).observability.log_level == ours


def test_the_reference_page_is_up_to_date() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"
    again = "run: python -m docs.generate.configuration > docs/reference/configuration.md"
    assert page.read_text() == render(), again


def test_every_key_says_what_it_means_and_what_is_allowed() -> None:
    assert [key.dotted for key in keys().values() if not key.group and not (key.description and key.allowed)] == []


def test_the_schema_is_json_and_refuses_unknown_keys() -> None:
    schema = json.loads(json.dumps(CONFIGURATION.json_schema))
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["apiVersion", "kind", "slurm"]


@pytest.mark.parametrize(
    "body",
    [
        "slurm: {token: a, addresses: ['https://me:secret-word@h:6820']}",
        SLURM + "observability: {tracesEndpoint: 'http://me:secret-word@h:4318'}",
        SLURM + "hooks: {bind: ':1', url: 'http://me:secret-word@h'}",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_shown(body: str) -> None:
    [said] = faults(body)
    assert "holds a user or a password" in said
    assert "secret-word" not in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("refuse", MissingRequests.REFUSE),
        ("whole-node", MissingRequests.WHOLE_NODE),
        ("{cpu: 500m, memory: 1Gi}", MissingSize(1, 1024)),
        ("{cpu: 2, memory: 512Mi}", MissingSize(2, 512)),
    ],
)
def test_missing_requests_are_a_word_or_amounts(text: str, expected: object) -> None:
    configuration = read(f"{SLURM}jobs: {{missingRequests: {text}}}\n")
    assert configuration.jobs.missing_requests == expected
    assert translation_policy(configuration).missing_requests == expected
    shown = json.dumps(configuration.jobs.model_dump(mode="json")["missingRequests"])
    assert read(f"{SLURM}jobs: {{missingRequests: {shown}}}\n").jobs.missing_requests == expected
    assert read(settings=(f"jobs.missingRequests={text}",)).jobs.missing_requests == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("some", '"some" is not allowed; it must be refuse, whole-node, or a map'),
        ("{cpu: 1}", "it must be refuse, whole-node, or a map with the keys cpu and memory"),
        ("{cpu: 0, memory: 1Gi}", "cpu must be a Kubernetes quantity of CPUs above 0"),
        ("{cpu: 1, memory: much}", "memory must be a Kubernetes quantity of bytes above 0"),
    ],
)
def test_other_missing_requests_are_refused(text: str, said: str) -> None:
    [fault] = faults(f"{SLURM}jobs: {{missingRequests: {text}}}\n")
    assert said in fault
