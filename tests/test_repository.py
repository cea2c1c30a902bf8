"""What the files around the packages promise: installation, contracts, documents."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import yanami_dataset

ROOT = Path(__file__).parent.parent
HEAVY = (
    "PIL",
    "aiohttp",
    "datasets",
    "evaluate",
    "huggingface_hub",
    "jinja2",
    "matplotlib",
    "numpy",
    "pandas",
    "pyarrow",
    "scipy",
    "torch",
)


def run(command, *, cwd=ROOT, code=0):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def setup_cfg():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def lines(text):
    return [line for line in text.strip().splitlines() if line and not line.startswith("#")]


def project(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


@pytest.fixture(scope="module")
def readme():
    return (ROOT / "README.md").read_text(encoding="utf-8")


# Installation


@pytest.mark.parametrize("extra", [None, "dev", "evaluate", "judge"])
def test_constraints_hold_everything_that_make_installs(extra):
    config = setup_cfg()
    wanted = config["options"]["install_requires"] if extra is None else config["options.extras_require"][extra]
    pinned = {project(line) for line in lines((ROOT / "constraints.txt").read_text())}
    assert {project(line) for line in lines(wanted)} <= pinned


def test_constraints_are_versions_and_nothing_of_one_machine():
    for line in lines((ROOT / "constraints.txt").read_text()):
        assert re.fullmatch(r"[\w.-]+==[\w.]+", line)


def test_setup_lists_every_package():
    found = {
        ".".join(file.parent.relative_to(ROOT).parts)
        for package in ("yanami_dataset", "yanami_metric")
        for file in (ROOT / package).rglob("__init__.py")
    }
    listed = set(lines(setup_cfg()["options"]["packages"]))
    assert found == {name for name in listed if (ROOT / name.replace(".", "/")).is_dir()}


def test_one_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert setup_cfg()["metadata"]["version"] == "attr: yanami_dataset.__version__"
    assert citation["version"] == yanami_dataset.__version__
    assert yanami_dataset.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_citation_is_that_of_the_paper():
    paper = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["preferred-citation"]
    assert paper["title"].startswith("YANAMI: ")
    assert paper["url"].endswith("2611.05280")
    assert str(paper["date-published"]) == "2026-11-03"
    assert len(paper["authors"]) == 13
    assert all(set(author) == {"given-names", "family-names"} for author in paper["authors"])


# What starting costs


@pytest.mark.parametrize(
    "code",
    [
        "import yanami_dataset, yanami_dataset.schema, yanami_metric",
        "import yanami_metric.cli",
        "from typer.testing import CliRunner; from yanami_metric.cli import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0",
    ],
)
def test_nothing_heavy_is_imported_before_a_command_runs(code):
    code += f"\nimport sys; print(*sorted(sys.modules.keys() & set({HEAVY!r})))"
    assert run([sys.executable, "-c", code]).stdout.split() == []


# The arrows. Each contract is kept by the code (make quality), and broken by one import that it is there to forbid.


@pytest.mark.parametrize(
    ("contract", "module", "statement"),
    [
        ("data", "yanami_dataset/show.py", "import yanami_metric.records"),
        ("stages", "yanami_metric/rollout.py", "import yanami_metric.judging"),
        ("stages", "yanami_metric/report.py", "import yanami_metric.score"),
        ("pure", "yanami_metric/tally.py", "import torch"),
        ("pure", "yanami_metric/results.py", "import aiohttp"),
        ("no-io", "yanami_metric/score.py", "import yanami_metric.run_folder"),
        ("command", "yanami_metric/api.py", "import yanami_metric.cli.console"),
        ("pixel", "yanami_metric/judges/pixel/extract.py", "import yanami_dataset.mini.probes"),
        ("palette", "yanami_dataset/mini/palette.py", "import yanami_dataset.mini.scene"),
        ("evaluate", "yanami_metric/judging.py", "import evaluate"),
    ],
)
def test_contracts_can_fail(contract, module, statement, tmp_path):
    for package in ("yanami_dataset", "yanami_metric"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo", "--contract", contract]
    run(command, cwd=tmp_path)
    with (tmp_path / module).open("a") as file:
        file.write(f"\n{statement}\n")
    broken = run(command, cwd=tmp_path, code=1)
    assert "1 broken" in broken.stdout


def test_every_contract_has_a_test_that_it_can_fail():
    contracts = {name.removeprefix("importlinter:contract:") for name in setup_cfg().sections() if ":" in name}
    [parameters] = [mark.args[1] for mark in test_contracts_can_fail.pytestmark if mark.name == "parametrize"]
    assert contracts == {contract for contract, _, _ in parameters}


# The README


def blocks(text, language):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for name, block in found if name == language]


def shell_lines(text):
    lines = [line for block in blocks(text, "") for line in block.splitlines()]
    return [line for line in lines if line.startswith(("yanami ", "make "))]


def test_commands_of_the_readme_exist(readme):
    from typer.main import get_command

    from yanami_metric.cli import app

    found = [line for line in shell_lines(readme) if line.startswith("yanami ")]
    assert len(found) >= 8
    for line in found:
        command, words = get_command(app), shlex.split(line)[1:]
        while words and words[0] in getattr(command, "commands", {}):
            command, words = command.commands[words[0]], words[1:]
        assert not getattr(command, "commands", None), line
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


def test_make_targets_of_the_readme_exist(readme):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {shlex.split(line, comments=True)[1] for line in shell_lines(readme) if line.startswith("make ")}
    assert {"eval", "test"} <= named <= targets


def test_python_of_the_readme_is_python_and_imports_what_there_is(readme):
    found = blocks(readme, "python")
    assert len(found) >= 4
    for block in found:
        compile(block, "README.md", "exec")
    imports = [line for block in found for line in block.splitlines() if line.startswith("from yanami")]
    assert len(imports) >= 3
    run([sys.executable, "-c", "\n".join(imports)])


def test_the_model_of_the_readme_is_a_model(readme):
    from yanami_metric.models import check_model

    [block] = [block for block in blocks(readme, "python") if "class " in block]
    names = {}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102 - our own README
    assert check_model(names["Painter"](steps=30), "Painter").steps == 30


def test_links_between_the_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *(ROOT / "examples").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


# The examples


@pytest.mark.parametrize(("name", "drawn"), [("with-targets", 4), ("without-targets", 0)])
def test_example_dialogues_import_and_are_complete(name, drawn):
    from yanami_dataset.images import check_images
    from yanami_dataset.importers.messages import read
    from yanami_dataset.schema import DIMENSIONS

    [dialogue] = read(ROOT / "examples" / "photos" / f"dialogues-{name}.jsonl")
    check_images(dialogue)
    assert sum(slot.index is not None for slot in dialogue.slots) == drawn
    assert len(dialogue.generation_turns) >= 2
    assert sorted(question.dimension for question in dialogue.questions) == sorted(DIMENSIONS)
    assert all(question.answer in question.choices for question in dialogue.questions)
    assert {check.kind for check in dialogue.checks} == {"atomic", "capability"}
    assert all(info.license for info in dialogue.image_info)


def test_every_example_photograph_has_a_licence():
    photos = ROOT / "examples" / "photos"
    licences = (photos / "LICENCES.md").read_text(encoding="utf-8")
    images = list((photos / "images").iterdir())
    assert images
    for image in images:
        assert f"`{image.name}`" in licences
        assert image.stat().st_size < 80_000
