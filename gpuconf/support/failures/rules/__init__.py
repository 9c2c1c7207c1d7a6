"""The meaning of log lines as data: one YAML file per family, loaded by `rule.py`."""

from gpuconf.support.failures.rules.rule import Level, Rule, all_rules, read_rules

__all__ = ["Level", "Rule", "all_rules", "read_rules"]
