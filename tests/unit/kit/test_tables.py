from kubesched.kit.text import Grid, fitted

REASON = "node(s) didn't find available persistent volumes to bind (VolumeBinding)"


def test_a_table_that_fits_is_unchanged() -> None:
    grid = Grid(("node", "copies"), (("a", "12"), ("bcd", "3")), (0,))
    assert fitted(grid, 15) == ["  node  copies", "  a         12", "  bcd        3"]


def test_a_long_text_in_the_last_column_is_wrapped() -> None:
    grid = Grid(("node", "n", "why"), (("a", "1", REASON), ("b", "2", "short")), (0, 2))
    assert fitted(grid, 50) == [
        "  node  n  why",
        "  a     1  node(s) didn't find available",
        "           persistent volumes to bind",
        "           (VolumeBinding)",
        "  b     2  short",
    ]


def test_columns_of_numbers_are_split_and_repeat_the_first_column() -> None:
    grid = Grid(("zone", "cpu", "memory", "gpu"), (("east", "10%", "20%", "30%"),), (0,))
    assert fitted(grid, 20) == [
        "  zone  cpu  memory",
        "  east  10%     20%",
        "",
        "  zone  gpu",
        "  east  30%",
    ]


def test_a_part_omits_rows_without_values() -> None:
    rows = (("cpu", "10%", "10%", ""), ("memory", "20%", "25%", "+5"))
    grid = Grid(("", "one", "other", "difference"), rows, (0,))
    assert fitted(grid, 22) == [
        "          one  other",
        "  cpu     10%    10%",
        "  memory  20%    25%",
        "",
        "          difference",
        "  memory          +5",
    ]


def test_long_names_are_folded_after_separators() -> None:
    rows = (("monitoring/prometheus-0", "ip-10-0-10-123.compute", "x"), ("a/b", "n", ""))
    grid = Grid(("pod", "node", ""), rows, (0, 1, 2))
    assert fitted(grid, 40) == [
        "  pod             node",
        "  monitoring/     ip-10-0-10-123.  x",
        "    prometheus-0    compute",
        "  a/b             n",
    ]


def test_a_name_without_separators_is_folded_at_the_end_of_the_line() -> None:
    grid = Grid(("node", "pods"), (("abcdefghijklmnopqrstuvwxyz", "3"),), (0,))
    assert fitted(grid, 26) == [
        "  node              pods",
        "  abcdefghijklmnop     3",
        "    qrstuvwxyz",
    ]


def test_a_part_with_one_column_of_numbers_has_its_names_folded() -> None:
    grid = Grid(("zone", "cpu", "gpu"), (("eu-central-1-quite-long", "10%", "20%"),), (0,))
    assert fitted(grid, 21) == [
        "  zone           cpu",
        "  eu-central-1-  10%",
        "    quite-long",
        "",
        "  zone           gpu",
        "  eu-central-1-  20%",
        "    quite-long",
    ]


def test_a_table_that_cannot_fit_is_printed_unchanged() -> None:
    grid = Grid(("zone", "requested"), (("a-very-long-name", "100%"),), (0,))
    assert fitted(grid, 10) == ["  zone              requested", "  a-very-long-name       100%"]
