"""PodTopologySpread: spreads matching pods evenly over zones, hosts or any other node label."""
