/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Scrapes /metrics of a server again and again, on a thread of its own, as Prometheus does. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsScraper TpsScraper;

/* `url`: "http://127.0.0.1:8080"; `token`: of a principal that may read metrics. Both are copied.
 * `interval_ms`: between the starts of two scrapes. */
TpsScraper *tps_scraper_start (const gchar *url, const gchar *token, gint interval_ms);

/* Waits for the end of the scrape that runs, and frees. Appends the duration of each scrape in
 * milliseconds to `ms` (of gdouble); `n_series` gets the number of lines of the last one that are
 * no comments. Errors: a scrape that failed. */
gboolean tps_scraper_stop (TpsScraper *scraper, GArray *ms, guint *n_series, GError **error);

G_END_DECLS
