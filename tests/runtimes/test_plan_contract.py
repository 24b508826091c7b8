"""What every adapter promises before anything is started: options, secrets, homes, commands.

What is particular to a product is a row in `products`; what only one product does is tested in its
own folder.
"""

import os
import re
from pathlib import Path

import msgspec
import pytest

from bridle.core.errors import (
    NotInstalled,
    UnsupportedOption,
    WrongUse,
)
from bridle.core.options import ALWAYS_SUPPORTED, ModelServer, Provider, ResolvedModel
from bridle.runtimes.contract import Adapter
from bridle.runtimes.plan import RunPlan
from bridle.runtimes.registry import available_runtimes, get_adapter
from bridle.runtimes.routing import PROXIES
from bridle.testing.bench import AgentBench
from tests.runtimes.products import (
    GATEWAY_KEY,
    PRODUCTS,
    SAMPLES,
    SERVER,
    SOURCE,
    Product,
    WrongUseCase,
    each_product,
    fields,
)

on_servers = pytest.mark.parametrize(
    "product", [each for each in PRODUCTS if "model_server" not in each.refuses], ids=str
)
with_gateways = pytest.mark.parametrize(
    "product", [each for each in PRODUCTS if each.gateway is not None], ids=str
)
GATEWAY = Provider(base_url="http://127.0.0.1:2/v1", auth_token_env="GATEWAY")


def left_of_runs(bench: AgentBench) -> list[Path]:
    """Private folders of runs in the bench's home."""
    folder = bench.home / ".local" / "state" / "bridle" / "run"
    return list(folder.iterdir()) if folder.exists() else []


def words(plan: RunPlan) -> str:
    return "\n".join(plan.spec.argv)


def check_private(folder: str) -> None:
    """Nobody else can enter the folder, nor read a file in it."""
    assert os.stat(folder).st_mode & 0o077 == 0
    for root, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(root, name)
            assert os.path.islink(path) or os.stat(path).st_mode & 0o077 == 0, path


def refused(bench: AgentBench, adapter: Adapter, use: WrongUseCase) -> None:
    """Prepare a run that must be refused; says which one was not."""
    bench.prepare(adapter, permission_mode="ask", **use.options)
    pytest.fail(f"not refused: {use}")


def test_every_registered_adapter_has_a_row() -> None:
    assert {each.name for each in PRODUCTS} == {*available_runtimes(), "preset"}


@each_product
def test_every_option_is_honoured_or_refused_by_name(
    product: Product, agent_bench: AgentBench
) -> None:
    adapter = product.on(agent_bench)
    dialect, _, _ = adapter.dialect(product.version or None)
    honoured = adapter.features_of(dialect).options | ALWAYS_SUPPORTED
    assert fields() - honoured == product.refuses
    for option in sorted(product.refuses):
        given = {option: SAMPLES[option]}
        with pytest.raises(UnsupportedOption) as refusal:
            product.plan(agent_bench, adapter, **given)
        assert (refusal.value.option, refusal.value.runtime) == (option, adapter.id)
        ignoring = product.plan(agent_bench, adapter, ignore_unsupported=True, **given)
        assert ignoring.ignored_options == (option,)


@each_product
def test_wrong_use_is_refused_and_leaves_nothing(product: Product, agent_bench: AgentBench) -> None:
    adapter = product.on(agent_bench)
    serves = product.moves_home and "model_server" not in product.refuses
    for use in product.wrong_uses():
        if serves and not use.options.keys() & {"model", "model_server", "provider", "resume"}:
            # Private files are made for it before some options are looked at.
            use = msgspec.structs.replace(use, options={"model_server": SERVER, **use.options})
        with pytest.raises(use.error) as refusal:
            refused(agent_bench, adapter, use)
        said = f"{refusal.value}\n{refusal.value.hint}"
        assert re.search(use.words, said), (use, said)
        assert left_of_runs(agent_bench) == [], use


@pytest.mark.parametrize(
    "product", [each for each in PRODUCTS if "provider_options" not in each.refuses], ids=str
)
def test_the_nearest_provider_option_is_named(product: Product, agent_bench: AgentBench) -> None:
    misspelt, meant = product.nearest
    with pytest.raises(WrongUse, match=f"no provider option '{misspelt}'") as refusal:
        product.plan(agent_bench, product.on(agent_bench), provider_options={misspelt: 1})
    assert meant in refusal.value.hint


@pytest.mark.parametrize(
    "product", [each for each in PRODUCTS if each.install or each.name == "preset"], ids=str
)
def test_a_missing_cli_says_how_to_install_it(product: Product, agent_bench: AgentBench) -> None:
    adapter = product.adapter()
    adapter.use_binary(str(agent_bench.root / "absent"))
    with pytest.raises(NotInstalled) as refusal:
        product.plan(agent_bench, adapter)
    assert product.install_words in refusal.value.hint
    report = adapter.is_available(agent_bench.env)
    assert not report.available
    assert product.install_words in report.hints[0]


@pytest.mark.parametrize("name", sorted(available_runtimes()))
def test_every_dialect_has_its_capture(name: str) -> None:
    folder = "acp" if name.endswith("-acp") else name
    for dialect in get_adapter(name).dialects:
        assert dialect.seen
        assert (SOURCE / folder / "testdata" / dialect.capture).is_file(), dialect


@pytest.mark.parametrize("product", [each for each in PRODUCTS if each.install], ids=str)
def test_a_version_is_known_without_a_start_and_an_unseen_one_is_said_aloud(
    product: Product, agent_bench: AgentBench
) -> None:
    assert product.install is not None
    adapter = product.on(agent_bench)
    found = adapter.find()
    assert found is not None
    assert found.version == product.version
    dialect, seen, warning = adapter.dialect(found.version)
    assert (seen, warning) == (True, "")
    assert product.version in dialect.seen
    report = adapter.is_available(agent_bench.env)
    assert (report.version, report.version_seen) == (product.version, True)
    assert "tested" not in str(product.plan(agent_bench, adapter).warnings)
    assert adapter.dialect(None)[1] is False
    adapter.use_binary(product.install(agent_bench.root / "newer", product.unseen))
    plan = product.plan(agent_bench, adapter, product.unseen_needs)
    assert "never tested" in str(plan.warnings)


@on_servers
def test_a_model_server_gets_a_private_home_and_nothing_of_the_users(
    product: Product, agent_bench: AgentBench
) -> None:
    adapter = product.on(agent_bench)
    proxies = dict.fromkeys(PROXIES, "http://proxy")
    before = agent_bench.files()
    plan = product.plan(
        agent_bench, adapter, {**product.key_variables, **proxies}, model_server=SERVER
    )
    assert SERVER.api_key in plan.secrets
    assert SERVER.api_key not in words(plan)
    assert not set(product.key_variables.values()) & set(plan.spec.env.values())
    if product.moves_home:
        direct = "127.0.0.1" in plan.spec.env.get("NO_PROXY", "")
        assert direct or not {*PROXIES} & plan.spec.env.keys()
        assert plan.private_dirs
    for folder in plan.private_dirs:
        check_private(folder)
    after = agent_bench.files()
    assert {name: after[name] for name in before} == before


@with_gateways
def test_a_providers_key_is_in_no_argument(product: Product, agent_bench: AgentBench) -> None:
    adapter = product.on(agent_bench)
    assert product.gateway is not None
    environ = {"GATEWAY": GATEWAY_KEY}
    plan = product.plan(agent_bench, adapter, environ, provider=GATEWAY, **product.gateway)
    assert plan.secrets == (GATEWAY_KEY,)
    assert GATEWAY_KEY not in words(plan)
    for folder in plan.private_dirs:
        check_private(folder)
    if product.gateway_variable is None:
        written = [path.read_bytes() for path in Path(plan.private_dirs[0]).rglob("*.json")]
        assert any(GATEWAY_KEY.encode() in text for text in written)
    else:
        assert plan.spec.env[product.gateway_variable] == GATEWAY_KEY


@each_product
def test_variables_of_a_resolved_model_are_passed_on(
    product: Product, agent_bench: AgentBench
) -> None:
    if "provider" in product.refuses:
        return
    adapter = product.on(agent_bench)
    bare = adapter.build_env(ResolvedModel(model="m", env={"A": "b"}))
    assert bare == {**product.build_env, "A": "b"}
    os.environ["GATEWAY"] = GATEWAY_KEY
    model = {"model": "m", **(product.gateway or {})}["model"]
    routed = adapter.build_env(ResolvedModel(model=model, env={"A": "b"}, provider=GATEWAY))
    assert routed["A"] == "b"
    assert routed.keys() > bare.keys(), "nothing leads it to the provider"


@pytest.mark.parametrize("product", [each for each in PRODUCTS if each.account], ids=str)
@pytest.mark.parametrize("server", [None, SERVER], ids=["own", "served"])
def test_an_account_takes_the_place_of_the_home(
    product: Product, server: ModelServer | None, agent_bench: AgentBench
) -> None:
    if server is not None and not product.account_when_served:
        return
    adapter = product.on(agent_bench)
    account = agent_bench.root / "account"
    account.mkdir()
    plan = product.plan(agent_bench, adapter, account_dir=str(account), model_server=server)
    got = {name: plan.spec.env.get(name) for name in product.account}
    assert got == {n: str(account / part).rstrip("/") for n, part in product.account.items()}
    assert str(account) not in plan.private_dirs, "it is kept"
    kept = {path: path.read_bytes() for path in account.rglob("*") if path.is_file()}
    said = b"".join(kept.values())
    assert SERVER.api_key.encode() not in said
    assert b"127.0.0.1" not in said
    if server is not None:
        other = ModelServer(url="http://127.0.0.1:9", api_key="another-key")
        product.plan(agent_bench, adapter, account_dir=str(account), model_server=other)
        assert {path: path.read_bytes() for path in kept} == kept


@pytest.mark.parametrize("product", [each for each in PRODUCTS if each.print_command], ids=str)
def test_the_print_command_is_an_argv(product: Product, agent_bench: AgentBench) -> None:
    adapter = product.on(agent_bench)
    assert product.print_command is not None
    prompt, model, expected = product.print_command
    assert tuple(adapter.build_print_command(prompt, model)[1:]) == expected


@each_product
def test_a_login_is_looked_for_and_never_read(product: Product, agent_bench: AgentBench) -> None:
    adapter = product.adapter()
    for number, (variables, files, expected) in enumerate(product.credentials):
        home = agent_bench.root / f"home-{number}"
        for name, text in files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        assert adapter.credentials({"HOME": str(home), **variables}) == expected, (variables, files)
