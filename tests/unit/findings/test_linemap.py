"""A diff is read as a map of lines, from the old file to the new one."""

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.findings.linemap import FileMap, LineMap, parse_diff

DIFF = """diff --git a/src/a.py b/src/a.py
index 1..2 100644
--- a/src/a.py
+++ b/src/a.py
@@ -3,0 +4,2 @@ def f():
+new
+new
@@ -6,2 +8 @@ def f():
-old
-old
+changed
@@ -10 +10,0 @@
-gone
"""


@pytest.mark.parametrize(
    ("line", "now", "traced"),
    [(1, 1, 1), (3, 3, 3), (4, 6, 6), (5, 7, 7), (6, None, 8), (7, None, 8), (8, 9, 9), (10, None, 11), (11, 11, 11)],
)
def test_a_line_goes_where_the_diff_says(line: int, now: int | None, traced: int) -> None:
    """Insertions push lines down, deletions pull them up, and a changed line is traced to its position."""
    lines = parse_diff(DIFF)
    assert lines.line("src/a.py", line) == now
    assert lines.trace("src/a.py", line) == (traced, 0.0 if now is None else 1.0)


REPLACED = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,4 +1,2 @@\n-1\n-2\n-3\n-4\n+x\n+y\n@@ -9,2 +7,4 @@\n-9\n-10\n"
REPLACED += "+a\n+b\n+c\n+d\n"


@pytest.mark.parametrize(("line", "traced"), [(1, 1), (2, 2), (3, 2), (4, 2), (5, 3), (9, 7), (10, 8), (11, 11)])
def test_a_line_without_any_likeness_is_traced_by_position(line: int, traced: int) -> None:
    """The first of the new lines for the first of the old ones, and the last for all that have none."""
    assert parse_diff(REPLACED).trace("a", line)[0] == traced


EDITED = """diff --git a/a b/a
--- a/a
+++ b/a
@@ -10,3 +10,5 @@
-for (int j = 0; j < fields[i].length; j++) {
-    if (fields[i][j] == field) {
-        total += 1;
+// every field
+for (final int element : fields) {
+    if (element == field) {
+        log(element);
+        total += 2;
@@ -30,1 +32,0 @@
-    moved(this_line, elsewhere);
@@ -60,0 +62,1 @@
+moved(this_line,  elsewhere);
"""


@pytest.mark.parametrize(("line", "traced"), [(10, 11), (11, 12), (12, 14)])
def test_an_edited_line_is_traced_to_the_most_similar_one(line: int, traced: int) -> None:
    """Of all lines that replaced a block, each goes to the one that shares most of its words."""
    found, alike = parse_diff(EDITED).trace("a", line)
    assert found == traced
    assert 0.3 < alike < 1


def test_a_deleted_file_leads_nowhere_even_if_its_code_is_in_a_new_one() -> None:
    """Only a rename that git reports is followed: code in another file is recognised by its text, not by a diff."""
    lines = parse_diff(
        "diff --git a/src/f.c b/src/f.c\n--- a/src/f.c\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-value = 1\n-other = 2\n"
        "diff --git a/lib/f.c b/lib/f.c\n--- /dev/null\n+++ b/lib/f.c\n@@ -0,0 +1,2 @@\n+value = 1\n+other = 2\n"
    )
    assert (lines.path("src/f.c"), lines.line("src/f.c", 1), lines.trace("src/f.c", 2)) == ("", None, (2, 0.0))


def test_a_file_that_is_not_named_is_as_it_was() -> None:
    """A diff names every file that differs, and an empty map is that of a commit to itself."""
    for lines in (parse_diff(DIFF), parse_diff(""), LineMap()):
        assert (lines.path("b.py"), lines.line("b.py", 7), lines.trace("b.py", 7)) == ("b.py", 7, (7, 1.0))


def test_renamed_deleted_and_new_files_are_told_apart() -> None:
    """A renamed file has its new name, a deleted one none, and a new one is no old one."""
    lines = parse_diff(
        "diff --git a/old.py b/new.py\nsimilarity index 90%\nrename from old.py\nrename to new.py\n"
        "diff --git a/gone.py b/gone.py\ndeleted file mode 100644\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "diff --git a/fresh.py b/fresh.py\nnew file mode 100644\n--- /dev/null\n+++ b/fresh.py\n"
        "@@ -0,0 +1,2 @@\n+x\n+y\n"
    )
    assert (lines.path("old.py"), lines.line("old.py", 4)) == ("new.py", 4)
    assert (lines.path("gone.py"), lines.line("gone.py", 1), lines.trace("gone.py", 5)) == ("", None, (5, 0.0))
    assert set(lines.files) == {"old.py", "gone.py"}


def test_a_diff_inside_a_file_is_text() -> None:
    """A hostile line that looks like a heading renames nothing: hunks are counted, not read."""
    lines = parse_diff(
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,3 +1,2 @@\n--- a/other\n-diff --git a/x b/y\n-rename from a\n"
        "+++ b/stolen\n+@@ -9,9 +9,9 @@\n"
    )
    assert dict(lines.files).keys() == {"a"}
    assert lines.path("a") == "a"
    assert lines.line("a", 4) == 3


def test_a_missing_last_newline_is_no_change() -> None:
    """What git says of it is no line of either file."""
    lines = parse_diff(
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -2 +2,2 @@ one\n-two\n+2\n+3\n@@ -4 +5 @@\n-four\n"
        "\\ No newline at end of file\n+4\n\\ No newline at end of file\n"
    )
    assert [lines.line("a", line) for line in (1, 2, 3, 4, 5)] == [1, None, 4, None, 6]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ('"a/tab\\there"', "tab\there"),
        ('"a/quote\\"d"', 'quote"d'),
        ('"a/oct\\001al"', "oct\x01al"),
        ('"a/del\\177ete"', "del\x7fete"),
        ("a/with space\t", "with space"),
        ("a/naïve", "naïve"),
    ],
)
def test_names_are_read_as_git_writes_them(written: str, name: str) -> None:
    """Quotes, escapes and the tab after a name with spaces are git's, not the file's."""
    assert list(parse_diff(f"diff --git x y\n--- {written}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n").files) == [name]


@pytest.mark.parametrize("name", ["a  name with spaces", " leading", '"', '""', '"quoted', "tab\tinside"])
def test_a_renamed_file_may_be_called_anything(name: str) -> None:
    """Spaces, and quotes that git did not write, belong to the name."""
    lines = parse_diff(f"diff --git x y\nrename from {name}\nrename to b c\n")
    expected = "" if name == '""' else name
    assert dict(lines.files) == ({expected: FileMap("b c")} if expected else {})


def test_files_of_a_diff_do_not_lend_each_other_their_names() -> None:
    """A file without names, as one whose mode alone changed, is not the one before it, nor any other."""
    lines = parse_diff(
        "diff --git a/one b/one\n--- a/one\n+++ b/one\n@@ -1 +1 @@\n-x\n+y\n"
        "diff --git a/two b/two\nold mode 100644\nnew mode 100755\n"
        "diff --git a/three b/three\n--- /dev/null\n+++ b/three\n@@ -0,0 +1 @@\n+x\n"
    )
    assert set(lines.files) == {"one"}


def test_a_diff_that_breaks_off_is_read_as_far_as_it_goes() -> None:
    """Nobody reads beyond its end."""
    lines = parse_diff("diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -3,9 +3,9 @@\n-x\n+y")
    assert [lines.line("a", line) for line in (2, 3, 4)] == [2, None, 4]


@settings(max_examples=50)
@given(st.lists(st.sampled_from("abcde"), max_size=12), st.lists(st.sampled_from("abcde"), max_size=12))
def test_a_line_that_is_mapped_has_the_same_text(old: list[str], new: list[str]) -> None:
    """Whatever the edit, equal texts meet, in order, and no two lines become one."""
    diff = list(difflib.unified_diff(old, new, "a/f", "b/f", lineterm="", n=0))
    lines = parse_diff("\n".join(["diff --git a/f b/f", *diff]))
    kept = {line: now for line in range(1, len(old) + 1) if (now := lines.line("f", line)) is not None}
    assert all(old[line - 1] == new[now - 1] for line, now in kept.items())
    assert list(kept.values()) == sorted(set(kept.values()))
    assert all(lines.trace("f", line) == (now, 1.0) for line, now in kept.items())
    assert len(kept) == len(old) - sum(line.startswith("-") for line in diff[2:])
