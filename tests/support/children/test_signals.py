"""Signals that would end us, and what runs before they do."""

from __future__ import annotations

from pathlib import Path

from tests.programs.processes import run_python


def test_a_signal_ends_the_block_at_once(tmp_path: Path) -> None:
    """Nothing behind it runs but what cleans up; the exit code is a shell's."""
    program = """
        import signal
        from gpuconf.support.children.signals import ended_in_order
        try:
            with ended_in_order():
                try:
                    signal.raise_signal(signal.SIGTERM)
                    print("not ended")
                finally:
                    print("cleaned up")
        except SystemExit as end:
            print(end.code)
    """
    assert run_python(program, tmp_path) == "cleaned up\n143\n"
