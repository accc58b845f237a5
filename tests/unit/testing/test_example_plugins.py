"""The plugins of docs/plugins.md keep the rules."""

from __future__ import annotations

from kubesched.profile.plugin_loading import load_plugin
from kubesched.testing import check_plugin
from tests.unit.cli.running import EXAMPLE_PLUGINS


def test_both_forms_of_spare_gpu() -> None:
    one_node = load_plugin(f"{EXAMPLE_PLUGINS}/spare_gpu.py:SpareGpu")
    columns = load_plugin(f"{EXAMPLE_PLUGINS}/spare_gpu_columns.py:SpareGpu")
    assert check_plugin(one_node.factory, columns.factory).score_range == (0, 100)


def test_not_on_spot() -> None:
    plugin = load_plugin(f"{EXAMPLE_PLUGINS}/not_on_spot.py:NotOnSpot")
    every_pod = check_plugin(plugin.factory)
    important_pods = check_plugin(plugin.factory, args={"priorityMin": 1})
    assert 0 < important_pods.rejected_count < every_pod.rejected_count
