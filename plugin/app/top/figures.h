/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The figures of a server over an interval, added up from the samples of its event stream
 * (plugin/http/API.md), with the /status at its end. Members that are missing or of another
 * type count as zero: a server may be newer or older. Thread: one at a time.
 */

#pragma once

#include <json-glib/json-glib.h>

G_BEGIN_DECLS

#define TPS_FIGURES_MAX_NAMES 4096 /* methods or tables of an interval; others are left out */

typedef struct
{
  gchar *name;
  gint64 calls, failures;
  gdouble p50_ms, p99_ms; /* of the slowest sample of the interval; negative = not known */
} TpsMethodFigures;

typedef struct
{
  gchar *name;
  gint64 lookups, lookup_rows, pushes, push_rows;
} TpsTableFigures;

typedef struct
{
  gdouble seconds; /* that the samples cover */
  guint n_samples;
  gint64 calls, failures, received_bytes, sent_bytes;
  GPtrArray *methods; /* of TpsMethodFigures, the busiest first after _end() */
  GPtrArray *tables;  /* of TpsTableFigures, the same */
  JsonObject *sample; /* the newest; NULL = none */
  JsonObject *status; /* the newest answer of /status; NULL = none */
} TpsFigures;

/* Creates empty figures, owned by the caller. */
TpsFigures *tps_figures_new (void);
void tps_figures_free (TpsFigures *figures);

/* Forgets the counts; the newest sample and status stay. */
void tps_figures_begin (TpsFigures *figures);

/* Adds the data of an event "sample"; text that is no JSON object is ignored. */
void tps_figures_add_sample (TpsFigures *figures, const gchar *json);

/* The same for an answer of /status. */
void tps_figures_set_status (TpsFigures *figures, const gchar *json);

/* Orders methods and tables. */
void tps_figures_end (TpsFigures *figures);

/* One line of JSON, rates in a second: owned by the caller. */
gchar *tps_figures_to_json (const TpsFigures *figures);

/* ---- members of objects; NULL objects are fine ----------------------------------------------- */

/* 0 for a member that is missing or no number. */
gdouble tps_json_number (JsonObject *object, const gchar *name);
/* "" for one that is missing or no text. Borrowed. */
const gchar *tps_json_text (JsonObject *object, const gchar *name);
/* NULL for one that is missing or of another type. Borrowed. */
JsonObject *tps_json_object (JsonObject *object, const gchar *name);
JsonArray *tps_json_array (JsonObject *object, const gchar *name);
/* NULL for an element that is no object. Borrowed. */
JsonObject *tps_json_element (JsonArray *array, guint index);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsFigures, tps_figures_free)

G_END_DECLS
