"""yanami_metric: rollout, judge, score, report."""
