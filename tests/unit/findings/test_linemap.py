"""A diff is read as a map of lines, forward and back."""

import difflib

import pytest
from hypothesis import given
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


def test_a_moved_line_is_traced_within_its_file() -> None:
    """What was deleted here and written there is the same line, with other spacing too."""
    assert parse_diff(EDITED).trace("a", 30) == (62, 1.0)


def test_texts_are_kept_only_for_the_files_that_are_asked_about() -> None:
    """Without their text, changed lines are traced by position: a large diff need not be held in memory."""
    assert parse_diff(EDITED, keep=["b"]).trace("a", 30) == (33, 0.0)
    assert parse_diff(EDITED, keep=["a"]) == parse_diff(EDITED)


def test_a_file_that_moved_and_changed_a_lot_is_followed_by_its_name() -> None:
    """Git sees a deleted and a new file; one name and some common lines make them one."""
    old = [f"-line number {number}" for number in range(1, 9)]
    new = [
        "+// license",
        *(f"+line  number {number}" for number in (1, 2, 3)),
        *(f"+new {number}" for number in range(40)),
    ]
    diff = ["diff --git a/src/f.c b/src/f.c", "--- a/src/f.c", "+++ /dev/null", "@@ -1,8 +0,0 @@", *old]
    diff += ["diff --git a/lib/f.c b/lib/f.c", "--- /dev/null", "+++ b/lib/f.c", f"@@ -0,0 +1,{len(new)} @@", *new]
    lines = parse_diff("\n".join(diff))
    assert (lines.path("src/f.c"), lines.origin("lib/f.c")) == ("lib/f.c", "src/f.c")
    assert [lines.line("src/f.c", line) for line in (1, 3, 4)] == [2, 4, None]


def merged(*, licence: bool = False) -> LineMap:
    """The map of a file that was deleted while its code, or just its licence, was written into files of other names."""
    code = [f"/* line {line} of the licence */" if licence else f"value_{line} = compute({line})" for line in range(6)]
    gone = "".join(f"-{line}\n" for line in code)
    written = "".join(f"+{line}\n" for line in (*code[:2], "value_2 = compute(2, 2)", *code[3:]))
    files = ["a.py", "b.py", "c.py"] if licence else ["test/copy.py", "a.py"]
    diff = f"diff --git a/old.py b/old.py\n--- a/old.py\n+++ /dev/null\n@@ -1,6 +0,0 @@\n{gone}"
    for name in files:
        diff += f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -40,0 +41,6 @@\n{written}"
    return parse_diff(diff, {"old.py"})


def test_a_deleted_file_is_followed_into_the_one_that_has_its_code() -> None:
    """Its lines are where they were written, in a file of another name that existed before and is not a test."""
    lines = merged()
    assert (lines.path("old.py"), lines.trace("old.py", 2), lines.trace("old.py", 6)) == ("a.py", (42, 1.0), (46, 1.0))
    at, similarity = lines.trace("old.py", 3)
    assert (at, 0.5 < similarity < 1) == (43, True)
    assert lines.origin("a.py") == "a.py"


def test_what_is_in_every_file_leads_nowhere() -> None:
    """A licence that is written into several files does not make one of them the deleted one."""
    assert merged(licence=True).path("old.py") == ""


def test_a_file_that_is_not_named_is_as_it_was() -> None:
    """Silence of a diff means equality."""
    assert parse_diff(DIFF).line("src/b.py", 7) == 7
    assert parse_diff(DIFF).path("src/b.py") == "src/b.py"
    assert parse_diff("").unchanged("src/b.py", 1, 9)


def test_renamed_deleted_and_new_files_are_told_apart() -> None:
    """A renamed file has its new name, a deleted one none, and a new one no origin."""
    lines = parse_diff(
        "diff --git a/old.py b/new.py\nsimilarity index 90%\nrename from old.py\nrename to new.py\n"
        "diff --git a/gone.py b/gone.py\ndeleted file mode 100644\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "diff --git a/fresh.py b/fresh.py\nnew file mode 100644\n--- /dev/null\n+++ b/fresh.py\n"
        "@@ -0,0 +1,2 @@\n+x\n+y\n"
    )
    assert (lines.path("old.py"), lines.line("old.py", 4), lines.origin("new.py")) == ("new.py", 4, "old.py")
    assert (lines.path("gone.py"), lines.line("gone.py", 1), lines.trace("gone.py", 5)) == ("", None, (5, 0.0))
    assert (lines.origin("fresh.py"), lines.unchanged("fresh.py", 1, 2)) == ("", False)
    assert sorted(lines.written()) == [("fresh.py", 1), ("fresh.py", 2)]


def test_a_diff_inside_a_file_is_text() -> None:
    """A hostile line that looks like a heading renames nothing: hunks are counted, not read."""
    lines = parse_diff(
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,3 +1,2 @@\n--- a/other\n-diff --git a/x b/y\n-rename from a\n"
        "+++ b/stolen\n+@@ -9,9 +9,9 @@\n"
    )
    assert dict(lines.files).keys() == {"a"}
    assert lines.path("a") == "a"
    assert lines.line("a", 4) == 3


def test_context_lines_and_a_missing_last_newline_are_no_changes() -> None:
    """A diff with context gives the same map as one without."""
    lines = parse_diff(
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,4 +1,4 @@\n one\n-two\n+2\n three\n-four\n"
        "\\ No newline at end of file\n+4\n\\ No newline at end of file\n"
    )
    assert [lines.line("a", line) for line in (1, 2, 3, 4)] == [1, None, 3, None]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ('"b/tab\\there"', "tab\there"),
        ('"b/quote\\"d"', 'quote"d'),
        ('"b/oct\\001al"', "oct\x01al"),
        ('"b/del\\177ete"', "del\x7fete"),
        ("b/with space\t", "with space"),
        ("b/naïve", "naïve"),
    ],
)
def test_names_are_read_as_git_writes_them(written: str, name: str) -> None:
    """Quotes, escapes and the tab after a name with spaces are git's, not the file's."""
    assert list(parse_diff(f"diff --git x y\n--- /dev/null\n+++ {written}\n@@ -0,0 +1 @@\n+x\n").origins) == [name]


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
    assert (set(lines.files), set(lines.origins)) == ({"one"}, {"one", "three"})
    assert lines.origin("three") == ""


def test_a_diff_that_breaks_off_is_read_as_far_as_it_goes() -> None:
    """Nobody reads beyond its end."""
    lines = parse_diff("diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -3,9 +3,9 @@\n-x\n+y")
    assert [lines.line("a", line) for line in (2, 3, 4)] == [2, None, 4]


def test_a_missing_newline_is_no_line() -> None:
    """What stands between a change and the next line is not counted as one."""
    lines = parse_diff(
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,3 @@\n one\n-two\n\\ No newline\n+2\n+3\n\\ No newline\n"
    )
    assert list(lines.written()) == [("a", 2), ("a", 3)]
    assert lines.line("a", 2) is None


def test_lines_with_something_between_them_are_not_unchanged() -> None:
    """The ends of a range may be old when what is between them is not."""
    lines = parse_diff("diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -5 +5 @@\n-x\n+y\n")
    assert lines.unchanged("a", 1, 4)
    assert lines.unchanged("a", 6, 9)
    assert not lines.unchanged("a", 4, 6)
    assert not lines.unchanged("a", 5, 5)


@given(
    st.lists(st.sampled_from("abcde"), max_size=12), st.lists(st.sampled_from("abcde"), max_size=12), st.integers(0, 3)
)
def test_a_line_that_is_mapped_has_the_same_text(old: list[str], new: list[str], context: int) -> None:
    """Whatever the edit and however much context: forward and back agree, and equal texts meet."""
    diff = difflib.unified_diff(old, new, "a/f", "b/f", lineterm="", n=context)
    lines = parse_diff("\n".join(["diff --git a/f b/f", *diff]))
    kept = {line: now for line in range(1, len(old) + 1) if (now := lines.line("f", line)) is not None}
    assert all(old[line - 1] == new[now - 1] for line, now in kept.items())
    assert list(kept.values()) == sorted(set(kept.values()))
    assert len(kept) + len(list(lines.written())) == len(new)
    assert all(lines.unchanged("f", now, now) for now in kept.values())


def test_an_empty_map_changes_nothing() -> None:
    """The map of a commit to itself."""
    assert (LineMap().line("a", 3), LineMap().trace("a", 3), LineMap().path("a")) == (3, (3, 1.0), "a")
