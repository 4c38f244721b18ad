"""No name, sentence or message has a word that the style guide forbids, but in files that are listed with a bound.

`docs/style-words.txt` names the words, `docs/style-exempt.txt` the files that still have some, and how many at most.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import pytest

from docs.site.sources import pages
from extender.cli.program import main as service
from extender.domain.wellknown import Reason
from kubectl_slurm.program import main as plugin

TOP = Path(__file__).parents[3]
WORDS, EXEMPT = TOP / "docs" / "style-words.txt", TOP / "docs" / "style-exempt.txt"
PACKAGES = ("extender", "slurmclient", "kubectl_slurm", "simulator", "lab", "tests/builders")
BEGINNINGS = ("docstrings", "functions")
"""Sections about the first words of a text."""
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Rule:
    pattern: re.Pattern[str]
    instead: str
    unless: re.Pattern[str] | None = None

    def hits(self, text: str) -> list[str]:
        allowed = [one.span() for one in self.unless.finditer(text)] if self.unless is not None else []
        return [
            one[0]
            for one in self.pattern.finditer(text)
            if not any(start <= one.start() and one.end() <= end for start, end in allowed)
        ]


@cache
def rules() -> dict[str, tuple[Rule, ...]]:
    """The rules of each section."""
    found: dict[str, list[Rule]] = {}
    section = ""
    for line in WORDS.read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            found[section] = []
        elif line and not line.startswith("#"):
            words, _, rest = line.partition(" => ")
            instead, _, unless = rest.partition(" unless ")
            shape = rf"^(?:{words})" if section in BEGINNINGS else rf"(?<![\w-])(?:{words})(?![\w-])"
            context = re.compile(unless, re.IGNORECASE) if unless else None
            found[section].append(Rule(re.compile(shape, re.IGNORECASE), instead, context))
    return {section: tuple(all_of) for section, all_of in found.items()}


@dataclass(frozen=True)
class Hit:
    where: str
    words: str
    instead: str


@cache
def any_words() -> re.Pattern[str]:
    """One expression for all rules of prose: most texts match none."""
    return re.compile("|".join(rule.pattern.pattern for rule in rules()["prose"]), re.IGNORECASE)


def prose(where: str, text: str) -> Iterator[Hit]:
    """What is wrong in a text for readers; names between backticks are not read."""
    plain = re.sub(r"\s+", " ", re.sub(r"``?[^`\n]*``?", "``", text))
    if any_words().search(plain):
        for rule in rules()["prose"]:
            for words in rule.hits(plain):
                yield Hit(where, words, rule.instead)


def beginning(where: str, docstring: str, section: str) -> list[Hit]:
    """What is wrong in the first words of a docstring; a function keeps the rules of both sections."""
    sections = BEGINNINGS if section == "functions" else (section,)
    return [
        Hit(where, words, rule.instead) for name in sections for rule in rules()[name] for words in rule.hits(docstring)
    ]


def parts(name: str) -> set[str]:
    return {one.lower() for one in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def names(where: str, found: set[str], *, tests: bool = False) -> Iterator[Hit]:
    for name in sorted(found):
        for rule in (*rules()["names"], *(rules()["tests"] if tests else ())):
            judged = rule.unless.sub("_", name) if rule.unless is not None else name
            for part in sorted(parts(judged)):
                if rule.pattern.fullmatch(part):
                    yield Hit(where, name, rule.instead)


def classes(where: str, node: ast.AST) -> Iterator[Hit]:
    if isinstance(node, ast.ClassDef):
        for rule in rules()["classes"]:
            if rule.pattern.fullmatch(node.name.lstrip("_")):
                yield Hit(where, node.name, rule.instead)


def texts(source: str) -> Iterator[str]:
    """Strings and comments; those that follow one another are one text."""
    together: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            together.append(token.string.lstrip("# "))
        elif token.type == tokenize.STRING:
            together.append(re.sub(r"^\w*(?:\"\"\"|'''|\"|')|(?:\"\"\"|'''|\"|')$", "", token.string))
        elif token.type not in {tokenize.NL, tokenize.INDENT, tokenize.DEDENT}:
            yield "".join(together) if token.type != tokenize.NEWLINE else " ".join(together)
            together = []
    yield " ".join(together)


def python(path: Path) -> list[Hit]:
    """Every hit in one file of Python."""
    source, where = path.read_text(encoding="utf-8"), str(path.relative_to(TOP))
    tree = ast.parse(source)
    hits = [hit for text in texts(source) for hit in prose(where, text)]
    defined: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            text = ast.get_docstring(node) or ""
            hits += beginning(where, text, "docstrings" if isinstance(node, ast.ClassDef | ast.Module) else "functions")
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            defined.add(node.name)
            hits += classes(where, node)
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            defined.add(node.id if isinstance(node, ast.Name) else node.attr)
    return [*hits, *names(where, defined)]


@cache
def found() -> dict[str, list[Hit]]:
    """The hits of every file that has any."""
    by_file = {}
    for package in PACKAGES:
        for path in sorted((TOP / package).rglob("*.py")):
            if hits := python(path):
                by_file[str(path.relative_to(TOP))] = hits
    for page in map(str, pages(TOP)):
        if hits := list(prose(page, FENCED.sub("", (TOP / page).read_text(encoding="utf-8")))):
            by_file[page] = hits
    return by_file


@cache
def exempt() -> dict[str, int]:
    """How many hits a file may have; the others may have none."""
    lines = [line for line in EXEMPT.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    bounds = {name: int(count) for name, count in (line.split() for line in lines)}
    assert len(bounds) == len(lines), "a file is listed twice"
    return bounds


def helps(name: str, command: click.Command) -> Iterator[tuple[str, str]]:
    """The help of a command and of all below it, as they are printed."""
    # click remembers the first names of a command's help option in the command itself.
    with click.Context(command, info_name=name, help_option_names=["-h", "--help"]) as context:
        yield name, command.get_help(context)
        if isinstance(command, click.Group):
            for sub in command.list_commands(context):
                below = command.get_command(context, sub)
                assert below is not None
                yield from helps(f"{name} {sub}", below)


def test_no_file_says_what_the_style_guide_forbids_more_often_than_it_may() -> None:
    beyond = [
        f"{hit.where}: {hit.words!r}; write instead: {hit.instead}"
        for where, hits in found().items()
        if len(hits) > exempt().get(where, 0)
        for hit in hits
    ]
    assert beyond == [], "\n".join(beyond)


def test_a_file_without_such_words_is_no_longer_exempt() -> None:
    clean = sorted(exempt().keys() - found().keys())
    assert clean == [], f"take them off {EXEMPT.relative_to(TOP)}"


def test_functions_of_tests_lab_and_bench_have_none_of_the_words_in_their_names() -> None:
    hits = [
        f"{hit.where}: {hit.words}; write instead: {hit.instead}"
        for package in ("tests", "lab", "bench")
        for path in sorted((TOP / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for hit in names(f"{path.relative_to(TOP)}:{node.lineno}", {node.name}, tests=True)
    ]
    assert hits == [], "\n".join(hits)


def test_events_and_the_help_of_commands_use_none_of_the_words() -> None:
    """What the commands print is judged as it is printed, and without an exception."""
    said = [("Event", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", reason.value)) for reason in Reason]
    said += [*helps("slurm-extender", service), *helps("kubectl slurm", plugin)]
    hits = [f"{hit.where}: {hit.words!r}; write instead: {hit.instead}" for one in said for hit in prose(*one)]
    assert hits == [], "\n".join(hits)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The fault is mended.", ["mended"]),
        ("It may take up to 15 s.", []),
        ("The Pod is taken up anew.", ["anew", "taken up"]),
        ("`told` is a field.", []),
    ],
)
def test_words_count_outside_of_names_and_of_allowed_contexts(text: str, words: list[str]) -> None:
    assert [hit.words for hit in prose("here", text)] == words


def test_the_parts_of_a_name_are_read_one_by_one() -> None:
    found = {"_tell_all", "GuestMark", "cover", "tellurium"}
    assert [hit.words for hit in names("here", found)] == ["GuestMark", "_tell_all"]


def test_a_name_may_have_a_word_in_an_allowed_context_alone() -> None:
    found = {"MassDeletionGuard", "_mass_deletion_guard", "WriteGuard", "guarded", "mass_deletion_guard_of_guards"}
    assert [hit.words for hit in names("here", found)] == ["WriteGuard", "guarded", "mass_deletion_guard_of_guards"]


@pytest.mark.parametrize(
    ("docstring", "words"),
    [
        ("The job exists.", ["The"]),
        ("Answers when the Pod is gone.", ["Answers"]),
        ("Seconds between two steps.", ["Seconds"]),
        ("`namespace/name`.", ["`"]),
        ("Slurm created no job.", ["Slurm"]),
        ("PATCH all of it at once.", []),
        ("Recorded.", ["Recorded"]),
        ("POST the Binding.", []),
        ("Pass the answer on.", []),
        ("Proceed, since the end was observed.", []),
        ("Return the job.", []),
    ],
)
def test_the_docstring_of_a_function_begins_with_a_verb(docstring: str, words: list[str]) -> None:
    assert [hit.words for hit in beginning("here", docstring, "functions")] == words


@pytest.mark.parametrize(("source", "found"), [("class _Wires: ...", ["_Wires"]), ("class WiresToNodes: ...", [])])
def test_a_class_has_none_of_the_names_that_said_nothing(source: str, found: list[str]) -> None:
    assert [hit.words for hit in classes("here", ast.parse(source).body[0])] == found
