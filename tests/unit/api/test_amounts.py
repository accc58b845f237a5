"""Amounts as users write them; long ones are rounded to the safe side."""

import pytest

from kubesched.api.amounts import amount

KI, MI, GI = 1 << 10, 1 << 20, 1 << 30


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 300, "300m"),
        ("cpu", 2000, "2"),
        ("memory", 300 * MI, "300Mi"),
        ("memory", 3 * GI // 2, "1.5Gi"),
        ("memory", 8_160_437_863, "7.6Gi"),
        ("memory", 16_320_875_725, "15.2Gi"),
        ("memory", 100, "100"),
        ("memory", 0, "0"),
        ("memory", -3 * GI // 2, "-1.5Gi"),
        ("hugepages-2Mi", 4 * MI, "4Mi"),
        ("ephemeral-storage", 20 * GI, "20Gi"),
        ("nvidia.com/gpu", 2048, "2048"),
    ],
)
def test_short_amounts_are_exact(resource: str, value: int, text: str, up: bool) -> None:
    assert amount(resource, value, up=up) == text


@pytest.mark.parametrize(
    ("value", "down", "up"),
    [
        pytest.param(7_925_956 * KI, "7.55Gi", "7.56Gi", id="a node's memory"),
        pytest.param(GI + 1, "1Gi", "1.01Gi", id="a byte more"),
        pytest.param(GI - 1, "1023.99Mi", "1024Mi", id="a byte less"),
        pytest.param(-GI - 1, "-1.01Gi", "-1Gi", id="below nothing"),
    ],
)
def test_long_amounts_are_rounded_to_the_safe_side(value: int, down: str, up: str) -> None:
    assert (amount("memory", value), amount("memory", value, up=True)) == (down, up)
