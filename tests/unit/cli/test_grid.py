from kubesched.cli.grid import Grid, fitted

WHY = "node(s) didn't find available persistent volumes to bind (VolumeBinding)"


def test_a_table_that_fits_stays_as_it_is() -> None:
    grid = Grid("", ("node", "copies"), (("a", "12"), ("bcd", "3")), (0,))
    assert fitted(grid, 15) == ["  node  copies", "  a         12", "  bcd        3"]


def test_a_long_text_at_the_end_is_broken_below_itself() -> None:
    grid = Grid("", ("node", "n", "why"), (("a", "1", WHY), ("b", "2", "short")), (0, 2))
    assert fitted(grid, 50) == [
        "  node  n  why",
        "  a     1  node(s) didn't find available",
        "           persistent volumes to bind",
        "           (VolumeBinding)",
        "  b     2  short",
    ]


def test_numbers_stand_in_parts_each_with_the_first_column() -> None:
    grid = Grid("", ("zone", "cpu", "memory", "gpu"), (("east", "10%", "20%", "30%"),), (0,))
    assert fitted(grid, 20) == [
        "  zone  cpu  memory",
        "  east  10%     20%",
        "",
        "  zone  gpu",
        "  east  30%",
    ]


def test_what_cannot_fit_is_printed_all_the_same() -> None:
    grid = Grid("", ("zone", "requested"), (("a-very-long-name", "100%"),), (0,))
    assert fitted(grid, 10) == ["  zone              requested", "  a-very-long-name       100%"]
