"""`gpuconf doctor --report FILE.html`: one self-contained page, to attach to a bug report."""

from gpuconf.doctor.page.view import page_text
from gpuconf.doctor.page.writing import check_page_path, write_page

__all__ = ["check_page_path", "page_text", "write_page"]
