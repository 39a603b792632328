/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The JSON output of every benchmark (schema 1): versions, host, flags, figures with raw samples,
 * peers, ratios. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* `samples` are of gdouble and borrowed. */
typedef struct
{
  gchar *name;
  const gchar *unit;
  GArray *samples;
} TpsBenchFigure;

typedef struct
{
  gchar *name;
  gdouble ours;
  gdouble peer;
  const gchar *better; /* "higher" for ratios of rates, ours / peer; "lower" for ratios of times */
} TpsBenchRatio;

/* A system that did the work: ours, or a peer. */
typedef struct
{
  gchar *name;
  gchar *version;
  GArray *figures; /* of TpsBenchFigure */
} TpsBenchSystem;

typedef struct
{
  const gchar *benchmark; /* "parameter_server" */
  GPtrArray *flags;       /* of "name=value", borrowed */
  TpsBenchSystem ours;    /* name and version are unused */
  GArray *peers;          /* of TpsBenchSystem */
  GArray *ratios;         /* of TpsBenchRatio */
  GPtrArray *facts;       /* names and values in turn: results other than figures */
} TpsBenchOutput;

void tps_bench_output_init (TpsBenchOutput *output, const gchar *benchmark, GPtrArray *flags);
void tps_bench_output_clear (TpsBenchOutput *output);

/* Adds a peer and returns it, for figures; valid until the next peer is added. */
TpsBenchSystem *tps_bench_output_add_peer (TpsBenchOutput *output, const gchar *name,
                                           const gchar *version);

/* Adds a figure. Takes a reference to `samples`. */
void tps_bench_system_add_figure (TpsBenchSystem *system, const gchar *name, const gchar *unit,
                                  GArray *samples);

void tps_bench_output_add_ratio (TpsBenchOutput *output, const gchar *name, gdouble ours,
                                 gdouble peer, const gchar *better);

/* Adds a result that is not a figure. */
void tps_bench_output_add_fact (TpsBenchOutput *output, const gchar *name, const gchar *value);

/* Writes the whole file or nothing. Errors: those of the file system, naming the path. */
gboolean tps_bench_output_write_json (const TpsBenchOutput *output, const gchar *path,
                                      GError **error);

/* Returns "AMD EPYC 7B13, 2 cores, 23.4 GiB, Linux 6.1.0"; owned by the caller. */
gchar *tps_bench_describe_host (void);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsBenchOutput, tps_bench_output_clear)

G_END_DECLS
