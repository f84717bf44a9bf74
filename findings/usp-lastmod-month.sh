#!/usr/bin/env bash
# ultimate-sitemap-parser 1.8.1 (PyPI) completes a `lastmod` without a day with the date of today.
#
# `lastmod` in a sitemap is a date in the W3C profile of ISO 8601 (sitemaps.org), which may be a year or a year and a
# month. The parser passes such a date to dateutil, which takes missing parts from the current date. The result
# depends on the day on which the crawler runs. A crawler that compares `last_modified` between two runs visits
# unchanged pages again every day.
#
# Seen with ultimate-sitemap-parser 1.8.1 and dateutil 2.9.0.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q 'ultimate-sitemap-parser==1.8.1' 'python-dateutil==2.9.0.post0' 'freezegun==1.5.5'
venv/bin/python - <<'PYTHON'
from freezegun import freeze_time
from usp.tree import sitemap_from_str

SITEMAP = """<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc>https://example.com/day</loc><lastmod>2024-05-03</lastmod></url>
<url><loc>https://example.com/month</loc><lastmod>2024-05</lastmod></url>
<url><loc>https://example.com/year</loc><lastmod>2024</lastmod></url>
</urlset>
"""
found = {}
for today in ("2026-02-10", "2026-11-30"):
    with freeze_time(today):
        pages = sitemap_from_str(SITEMAP).all_pages()
        found[today] = [page.last_modified.date().isoformat() for page in pages]
    print(f"on {today}: 2024-05-03, 2024-05, 2024 = {', '.join(found[today])}")
assert found == {
    "2026-02-10": ["2024-05-03", "2024-05-10", "2024-02-10"],
    "2026-11-30": ["2024-05-03", "2024-05-30", "2024-11-30"],
}, found
PYTHON
echo "seen: the day and month of incomplete dates are those of the run"
