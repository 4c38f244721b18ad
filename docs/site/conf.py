"""Settings of Sphinx for the site. Nothing that a reader's browser would fetch from elsewhere is switched on."""

from extender import __version__

project = "slurm-extender"
author = "the authors of slurm-extender"
version = release = __version__
root_doc = "index"
extensions = ["myst_parser"]
highlight_language = "text"
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"slurm-extender {release}"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
