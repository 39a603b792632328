/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The JSON output (schema 1): versions, host, flags, figures with raw samples, peers, ratios. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The samples of one figure. */
typedef struct
{
  gchar *name;       /* owned */
  const gchar *unit; /* static */
  GArray *samples;   /* of gdouble; a reference */
} TpsBenchFigure;

/* A comparison of one of our figures with a figure of a peer. `name` is owned. */
typedef struct
{
  gchar *name;
  gdouble ours;
  gdouble peer;
  const gchar *better; /* "higher" for ratios of rates, "lower" for ratios of times; static */
} TpsBenchRatio;

/* A system that did the work: ours, or a peer. */
typedef struct
{
  gchar *name;
  gchar *version;
  GArray *figures; /* of TpsBenchFigure */
} TpsBenchSystem;

/* The content of the JSON file. */
typedef struct
{
  const gchar *benchmark; /* "parameter_server"; borrowed */
  GPtrArray *flags;       /* of "name=value"; borrowed */
  TpsBenchSystem ours;    /* name and version are unused */
  GArray *peers;          /* of TpsBenchSystem */
  GArray *ratios;         /* of TpsBenchRatio */
  GPtrArray *facts;       /* names and values alternately: results that are not figures */
} TpsBenchOutput;

/* Initialises and clears the output. `benchmark` and `flags` are borrowed and must outlive it. */
void tps_bench_output_init (TpsBenchOutput *output, const gchar *benchmark, GPtrArray *flags);
void tps_bench_output_clear (TpsBenchOutput *output);

/* Adds a peer, which is valid until the next one is added, for figures. Strings are copied. */
TpsBenchSystem *tps_bench_output_add_peer (TpsBenchOutput *output, const gchar *name,
                                           const gchar *version);

/* Adds a figure. `name` is copied, `unit` static, and a reference to `samples` taken. */
void tps_bench_system_add_figure (TpsBenchSystem *system, const gchar *name, const gchar *unit,
                                  GArray *samples);

/* Adds the ratio `ours` / `peer`. `name` is copied, `better` is static. */
void tps_bench_output_add_ratio (TpsBenchOutput *output, const gchar *name, gdouble ours,
                                 gdouble peer, const gchar *better);

/* Adds a result that is not a figure. Both strings are copied. */
void tps_bench_output_add_fact (TpsBenchOutput *output, const gchar *name, const gchar *value);

/* Writes the file completely or not at all. Errors: those of json_generator_to_file(). */
gboolean tps_bench_output_write_json (const TpsBenchOutput *output, const gchar *path,
                                      GError **error);

/* Returns "AMD EPYC 7B13, 2 cores, 23.4 GiB, Linux 6.1.0". The caller owns the result. */
gchar *tps_bench_describe_host (void);

/* Returns the available memory of this machine in bytes; G_MAXUINT64 if unknown. */
guint64 tps_bench_get_available_bytes (void);

/* Returns a percentile (`percent` is 0 to 100) of `values`, an array of gdouble in any order.
 * Interpolates linearly between the two nearest values, as numpy.percentile does. Returns NAN if
 * there are no values. Thread: any. */
gdouble tps_percentile (const GArray *values, gdouble percent);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsBenchOutput, tps_bench_output_clear)

G_END_DECLS
