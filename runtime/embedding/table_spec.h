/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What an embedding table is: the runtime's side of the wire's TableSpec. */

#pragma once

#include "runtime/base/durability.h"
#include "runtime/tensor/dtype.h"
#include "runtime/embedding/sharding.h"
#include "runtime/tensor/optimizer.h"

G_BEGIN_DECLS

/* The numbers are those of the wire. */
typedef enum
{
  TPS_INITIALIZER_ZEROS = 1,
  TPS_INITIALIZER_UNIFORM = 2,
  TPS_INITIALIZER_NORMAL = 3,
} TpsInitializerKind;

/* NAN = not said. */
typedef struct
{
  TpsInitializerKind kind;
  gdouble low, high;   /* UNIFORM: default 0, 1. NORMAL: bounds, default none */
  gdouble mean, stdev; /* NORMAL: default 0, 1 */
  gint64 seed;
} TpsInitializer;

#define TPS_TABLE_PLACE_MAX_DEVICE 31

/* Where the rows are looked up and updated. */
typedef struct
{
  gchar device[TPS_TABLE_PLACE_MAX_DEVICE + 1]; /* "cpu", "cuda:1"; "" = not said */
  /* The rows lie in the host's memory, page-locked, and the device works on them there; not with
   * the CPU. */
  gboolean is_host_memory;
} TpsTablePlace;

typedef struct
{
  gchar *name;
  gint32 dim;
  TpsDType dtype; /* of the rows */
  TpsShard shard;
  TpsInitializer initializer;
  TpsOptimizerSpec optimizer;
  TpsTablePlace place;
  TpsDurability durability; /* 0 = not said */
  gchar *tenant; /* whose budget is charged with the table; NULL = nobody's. A server sets it */
  gint64 bytes; /* in answers: memory held, with optimizer state and what the table takes besides */
} TpsTableSpec;

/* normal (0, 1) of seed 0, SGD with learning rate 0.01, FLOAT32, whole; a copy of the name. */
void tps_table_spec_init (TpsTableSpec *spec, const gchar *name, gint64 rows, gint32 dim);
void tps_table_spec_copy (TpsTableSpec *spec, const TpsTableSpec *other);
void tps_table_spec_clear (TpsTableSpec *spec);

/* Fills in defaults, checks everything (name, dim > 0, dtype, initializer, optimizer; that the
 * memory can be counted; that the place makes sense, but not whether there is such a device: "cuda"
 * becomes "cuda:0", what is not said stays so). Errors: TPS_ERROR_INVALID_ARGUMENT, "spec.dim:
 * …". */
gboolean tps_table_spec_resolve (TpsTableSpec *spec, GError **error);

/* Of resolved ones; `bytes` and `tenant` do not count, nor does a place or a durability that one of
 * them does not say. */
gboolean tps_table_spec_equal (const TpsTableSpec *a, const TpsTableSpec *b);

/* Names the first field that differs between resolved ones, "dim: 64, not 32"; NULL when they are
 * equal. g_free(). */
gchar *tps_table_spec_dup_difference (const TpsTableSpec *a, const TpsTableSpec *b);

/* "cpu", "cuda:0", or "cuda:0/host" for a device that works on the host's memory; owned by the
 * caller. */
gchar *tps_table_place_to_string (const TpsTablePlace *place);
/* The same backwards; "cuda" is "cuda:0". FALSE: it is none of these. Whether there is such a
 * device is not asked. */
gboolean tps_table_place_parse (const gchar *text, TpsTablePlace *place);

/* Rows and optimizer state; of a resolved one. */
gsize tps_table_spec_get_bytes (const TpsTableSpec *spec);

/* The first values of row `row` (global id), rounded once to `dtype`; they depend on seed and row
 * alone. `values`
 * [dim] of `dtype`. */
void tps_initializer_fill_row (const TpsInitializer *initializer, gint64 row, TpsDType dtype,
                               gpointer values, gsize dim);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTableSpec, tps_table_spec_clear)

G_END_DECLS
