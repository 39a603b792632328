/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Scrapes /metrics of a server repeatedly, as Prometheus does. A scraper has its own thread. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsScraper TpsScraper;

/* Starts a scraper. `url` is the address of the server, such as "http://127.0.0.1:8080". `token`
 * must belong to a principal that may read metrics. Both are copied. `interval_ms` is the time
 * between the starts of two scrapes. The caller owns the result. */
TpsScraper *tps_scraper_start (const gchar *url, const gchar *token, gint interval_ms);

/* Waits until the running scrape has ended, and frees the scraper. Appends the duration of each
 * scrape in milliseconds to `ms` (of gdouble). `*n_series` receives the number of series of the
 * last scrape: its lines without comments. Errors: those of the first scrape that failed. */
gboolean tps_scraper_stop (TpsScraper *scraper, GArray *ms, guint *n_series, GError **error);

G_END_DECLS
