"""Results as one web page: a single file without network, to send around.

`write_page` puts studies, tables and a heat map into an HTML file that holds everything it needs. `document` has what
the page shows; how it looks and behaves is in the files page.html, page.css and *.js beside this one.
"""

from adadim.report.page.document import Column, HeatMap, Table, html_page, write_page

__all__ = ["Column", "HeatMap", "Table", "html_page", "write_page"]
