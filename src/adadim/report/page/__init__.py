"""Results as one web page: a single file without network, to send around.

`write_page` puts studies, tables and a heat map into an HTML file that holds everything it needs. What the page shows
is in `content` (a study as plain data), `blocks` (tables and heat maps) and `machine`; how it looks and behaves is in
the files page.html, page.css and *.js beside this one, which `document` puts together.
"""

from adadim.report.page.blocks import Column, HeatMap, Table
from adadim.report.page.document import html_page, write_page

__all__ = ["Column", "HeatMap", "Table", "html_page", "write_page"]
