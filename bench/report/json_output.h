/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The JSON that every benchmark writes (schema 1): versions, host, flags, figures with raw samples,
 * peers, ratios. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* `samples` are of gdouble and borrowed by the writer. */
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
  const gchar *better; /* "higher": ours/peer of rates; "lower": of times */
} TpsBenchRatio;

/* One system that did the work: ours, or a peer. */
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
  TpsBenchSystem ours;    /* name and version are not used */
  GArray *peers;          /* of TpsBenchSystem */
  GArray *ratios;         /* of TpsBenchRatio */
  GPtrArray *facts;       /* names and values in turn: results that are no figures */
} TpsBenchOutput;

void tps_bench_output_init (TpsBenchOutput *output, const gchar *benchmark, GPtrArray *flags);
void tps_bench_output_clear (TpsBenchOutput *output);

/* A peer to add figures to; valid until the next one is added. */
TpsBenchSystem *tps_bench_output_add_peer (TpsBenchOutput *output, const gchar *name,
                                           const gchar *version);

/* Takes a reference of `samples`. */
void tps_bench_system_add_figure (TpsBenchSystem *system, const gchar *name, const gchar *unit,
                                  GArray *samples);

void tps_bench_output_add_ratio (TpsBenchOutput *output, const gchar *name, gdouble ours,
                                 gdouble peer, const gchar *better);

/* A result that is no figure. */
void tps_bench_output_add_fact (TpsBenchOutput *output, const gchar *name, const gchar *value);

/* Writes the whole file or nothing. Errors: what the file system says, naming the path. */
gboolean tps_bench_output_write_json (const TpsBenchOutput *output, const gchar *path,
                                      GError **error);

/* "AMD EPYC 7B13, 2 cores, 23.4 GiB, Linux 6.1.0"; owned. */
gchar *tps_bench_describe_host (void);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsBenchOutput, tps_bench_output_clear)

G_END_DECLS
