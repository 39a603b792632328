/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The figures of a server over an interval: the sums of the samples of its event stream
 * (plugin/http/API.md), and the /status at the end of the interval. Members that are missing or
 * have an unexpected type count as zero, because the server may be older or newer than this
 * program. Thread: one at a time. */

#pragma once

#include <json-glib/json-glib.h>

G_BEGIN_DECLS

#define TPS_FIGURES_MAX_NAMES 4096 /* methods, and tables, of an interval; others are left out */

typedef struct
{
  gchar *name;
  gint64 calls, failures;
  gdouble p50_ms, p99_ms; /* maxima over the samples of the interval; negative = unknown */
} TpsMethodFigures;

typedef struct
{
  gchar *name;
  gint64 lookups, lookup_rows, pushes, push_rows;
} TpsTableFigures;

typedef struct
{
  gdouble seconds; /* duration of all samples */
  guint n_samples;
  gint64 calls, failures, received_bytes, sent_bytes;
  GPtrArray *methods; /* of TpsMethodFigures; after tps_figures_end(), the busiest first */
  GPtrArray *tables;  /* of TpsTableFigures; after tps_figures_end(), the busiest first */
  JsonObject *sample; /* the newest sample; NULL = none */
  JsonObject *status; /* the newest reply of /status; NULL = none */
} TpsFigures;

/* Creates empty figures, owned by the caller. */
TpsFigures *tps_figures_new (void);
void tps_figures_free (TpsFigures *figures);

/* Begins an interval: resets the counts. The newest sample and status stay. */
void tps_figures_begin (TpsFigures *figures);

/* Adds the data of an event "sample". Ignores a text that is not a JSON object. */
void tps_figures_add_sample (TpsFigures *figures, const gchar *json);

/* Replaces the status by a reply of /status. Ignores a text that is not a JSON object. */
void tps_figures_set_status (TpsFigures *figures, const gchar *json);

/* Ends an interval: sorts methods and tables, the busiest first. */
void tps_figures_end (TpsFigures *figures);

/* Returns the figures as one line of JSON, with rates per second. The caller owns it. */
gchar *tps_figures_to_json (const TpsFigures *figures);

/* ---- members of objects, which may be NULL --------------------------------------------------- */

/* Returns a member that is a number; 0 if the member is missing or not a number. */
gdouble tps_json_number (JsonObject *object, const gchar *name);
/* Returns a member that is a string, borrowed; "" if the member is missing or not a string. */
const gchar *tps_json_text (JsonObject *object, const gchar *name);
/* Return a member that is an object or an array, borrowed; NULL if the member is missing or has a
 * different type. */
JsonObject *tps_json_object (JsonObject *object, const gchar *name);
JsonArray *tps_json_array (JsonObject *object, const gchar *name);
/* Returns an element that is an object, borrowed; NULL if the element is not an object. `array`
 * must not be NULL, and `index` must be below its length. */
JsonObject *tps_json_element (JsonArray *array, guint index);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsFigures, tps_figures_free)

G_END_DECLS
