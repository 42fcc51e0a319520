"""The browser that the doctor's page is tried in, for the demo's page, too."""

from tests.doctor.report.test_html_browser import browser as browser
