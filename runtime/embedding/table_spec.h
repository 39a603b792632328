/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The specification of an embedding table: the runtime's form of the wire's TableSpec; and the
 * check of queries. */

#pragma once

#include "runtime/base/durability.h"
#include "runtime/device/backend.h"
#include "runtime/tensor/tensor.h"
#include "runtime/embedding/sharding.h"
#include "runtime/tensor/optimizer.h"

G_BEGIN_DECLS

#define TPS_TABLE_PLACE_MAX_DEVICE 31

/* The device and memory in which the rows are looked up and updated. */
typedef struct
{
  gchar device[TPS_TABLE_PLACE_MAX_DEVICE + 1]; /* "cpu", "cuda:1"; "" means not specified */
  /* The rows lie in page-locked host memory, where the device accesses them; must be FALSE for the
   * CPU. */
  gboolean is_host_memory;
} TpsTablePlace;

typedef struct
{
  gchar *name;
  gint32 dim;
  TpsDType dtype; /* of the rows */
  /* The rounding of updated rows; 0 means not specified, which is NEAREST. STOCHASTIC derives its
   * random bits from the seed of the initializer, for all kinds of initializers. */
  TpsRounding rounding;
  TpsShard shard;
  TpsInitializer initializer;
  TpsOptimizerSpec optimizer;
  TpsTablePlace place;
  TpsDurability durability; /* 0 means not specified */
  gchar *tenant; /* charged with the table's memory, or NULL for none; set by servers only */
  gint64 bytes;  /* in replies: memory of the table, including optimizer state and overhead */
} TpsTableSpec;

/* Initialises with the defaults: normal (0, 1) with seed 0, SGD with learning rate 0.01, FLOAT32,
 * the whole table. Copies the name. copy() initialises `spec` with a copy of `other`. */
void tps_table_spec_init (TpsTableSpec *spec, const gchar *name, gint64 rows, gint32 dim);
void tps_table_spec_copy (TpsTableSpec *spec, const TpsTableSpec *other);
void tps_table_spec_clear (TpsTableSpec *spec);

/* Initialises a specification from a program's form, whose zeros stand for defaults. The shard is
 * the whole table. `spec` must be cleared, even after a failure. Errors: INVALID_ARGUMENT if the
 * place is not valid. */
gboolean tps_table_spec_init_from (TpsTableSpec *spec, const TpsRemoteTable *table, GError **error);
/* Returns the program's form of a specification; the caller frees it. */
TpsRemoteTable *tps_remote_table_new (const TpsTableSpec *spec);
void tps_remote_table_free (TpsRemoteTable *table);

/* An array of specifications, whose length a peer may choose. All zero means empty. Must be cleared
 * with tps_table_specs_clear(). */
typedef struct
{
  guint n_specs;
  TpsTableSpec *specs;
} TpsTableSpecs;

/* Appends a copy of `spec`, including its texts. Errors: TPS_ERROR_RESOURCE_EXHAUSTED. */
gboolean tps_table_specs_add (TpsTableSpecs *specs, const TpsTableSpec *spec, GError **error);
void tps_table_specs_clear (TpsTableSpecs *specs);

/* Fills in the defaults and checks all fields. The number of bytes must not overflow. The device of
 * the place need not exist: "cuda" becomes "cuda:0", and an unset place stays unset. Errors:
 * INVALID_ARGUMENT, "spec.dim: …". */
gboolean tps_table_spec_resolve (TpsTableSpec *spec, GError **error);

/* Names the first field that differs between two resolved specifications, "dim: 64, not 32"; NULL
 * if they are equal. `bytes` and `tenant` are ignored, and so are place and durability if one of
 * the two specifications leaves them unspecified. The caller must free the string with g_free(). */
gchar *tps_table_spec_dup_difference (const TpsTableSpec *a, const TpsTableSpec *b);

/* Returns "NEAREST" or "STOCHASTIC"; NULL for other values. Static. */
const gchar *tps_rounding_name (TpsRounding rounding);

/* Returns "cpu", "cuda:0", or "cuda:0/host" for work on host memory. Owned by the caller. */
gchar *tps_table_place_to_string (const TpsTablePlace *place);
/* Parses the description of a place; "cuda" means "cuda:0". Returns FALSE if the text is not valid;
 * `place` does not change then. Does not check that the device exists. */
gboolean tps_table_place_parse (const gchar *text, TpsTablePlace *place);

/* Returns the number of bytes of rows and optimizer state. `spec` must be resolved. */
gsize tps_table_spec_get_bytes (const TpsTableSpec *spec);

/* Returns the rounding of updated rows. It derives the numbers of rows from their slots, as
 * tps_shard_get_numbers() does. `spec` must be resolved. */
TpsRowRounding tps_table_spec_get_rounding (const TpsTableSpec *spec);

/* The numbers of TpsInitializer. */
#define TPS_INITIALIZER_N_NUMBERS 4
extern const TpsNumberField tps_initializer_numbers[TPS_INITIALIZER_N_NUMBERS];

/* Writes the initial values of row `row` (global id) to `values` [dim] of `dtype`, each rounded
 * once. The values depend only on the initializer and the row. */
void tps_initializer_fill_row (const TpsInitializer *initializer, gint64 row, TpsDType dtype,
                               gpointer values, gsize dim);

/* Checks everything that does not depend on the table: dtypes and dimensions; offsets must ascend
 * from 0 to at most nnz, and weights are allowed only with SUM. `what` names the query in messages,
 * e.g. "queries[2]". Errors: TPS_ERROR_INVALID_ARGUMENT; the message names the value and its
 * position. Thread: any. */
gboolean tps_bag_query_check (const TpsBagQuery *query, const gchar *what, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTableSpec, tps_table_spec_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTableSpecs, tps_table_specs_clear)

G_END_DECLS
