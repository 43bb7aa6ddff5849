"""Prose of docstrings and pages: short sentences in docstrings, no diaries in pages."""

import ast
import re
from pathlib import Path

import heddle
import heddle_sim
import heddle_verif
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [Path(package.__file__).parent for package in (heddle, heddle_sim, heddle_verif)]
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
MOST = 25           # words of a sentence
# Changelog and decisions may say how it was; the page of the coverage is printed by a run.
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if "decisions" not in path.parts and "upstream" not in path.parts)
DRAWN = ("─", "│", "====", "----", "|")
DIARY = (r"^\|[^\n]*\| *before *(?=\|)[^\n]*\| *after *\|",
         r"\b(?:rows?|tables?|lines?) above\b", r"\bearlier tree\b", r"\b20\d\d-\d\d-\d\d\b",
         r"\b(?:January|February|August|September|October|November|December) 20\d\d\b",
         r"\bas\s+before\b", r"\bnot\s+tried\b", r"\bis\s+not\s+(?:there|known)\b")


def sentences(text):
    """Sentences of the paragraphs that are neither drawings nor tables nor commands nor entries of ports and parameters."""
    for paragraph in re.split(r"\n\s*\n", text):
        if not any(mark in paragraph for mark in DRAWN) and not re.search(r"^ *heddle ", paragraph, re.MULTILINE):
            for sentence in re.split(r"(?<=[.:;?])\s+", " ".join(paragraph.split())):
                if " : " not in sentence:
                    yield sentence


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_sentences_are_short(package):
    long = []
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, DOCUMENTED):
                long += [(path.name, sentence) for sentence in sentences(ast.get_docstring(node) or "") if len(sentence.split()) > MOST]
    assert not long


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_are_no_diaries(page):
    for pattern in DIARY:
        assert not re.search(pattern, page.read_text(), re.MULTILINE), pattern


def test_a_diary_is_found():
    assert re.search(DIARY[0], "| change | LUT4 before | before | after |", re.MULTILINE)
    for text in ("8 cycles as before", "`large` was not\ntried", "a register, which is not there", "is not known"):
        assert any(re.search(pattern, text) for pattern in DIARY), text
    assert [len(sentence.split()) for sentence in sentences("One. Two words: three more words.\n\n a ─> b")] == [1, 2, 3]
