"""Reads a training script for mistakes that cost GPU memory, without running it."""

from gpuconf.doctor.source.lint import SOURCE_CHECKS, check_script, findings_in
from gpuconf.doctor.source.text import check_script_path

__all__ = ["SOURCE_CHECKS", "check_script", "check_script_path", "findings_in"]
