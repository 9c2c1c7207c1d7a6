"""Checks a training script for mistakes that cost GPU memory, without running it."""

from gpuconf.commands.doctor.source.files import scripts_in
from gpuconf.commands.doctor.source.lint import SOURCE_CHECKS, check_script, findings_in, in_one

__all__ = ["SOURCE_CHECKS", "check_script", "findings_in", "in_one", "scripts_in"]
