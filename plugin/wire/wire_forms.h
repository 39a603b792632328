/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Values whose form in C differs from their form in thrift/. A `Form` has the fields of the wire:
 * the generated descriptors read into it and write from it, and the functions below convert it.
 * Private to this folder. */

#pragma once

#include "plugin/wire/descriptor.h"
#include "runtime/embedding/table_spec.h"
#include "runtime/tensor/tensor.h"

/* The generated tables of fields. */
extern const TpsField tps_gradient_fields[], tps_metric_summary_fields[], tps_model_fields[];
extern const TpsField tps_service_error_fields[], tps_shared_slice_fields[];
extern const TpsField tps_sparse_tensor_fields[], tps_table_spec_fields[], tps_tensor_fields[];

/* ---- Tensor, SparseTensor, Gradient: tensor_codec.c ------------------------------------------ */

/* A Tensor as received, unchecked. */
typedef struct
{
  TpsShape shape; /* must be first: its two fields are written from a TpsShape */
  TpsBytesView data;
  TpsSharedSlice shared;
} TpsTensorForm;

typedef struct
{
  TpsTensor indices;
  TpsTensor values;
  TpsShape shape; /* n_dims and dims only */
} TpsSparseForm;

extern const TpsValueKind tps_kind_tensor_data;

gboolean tps_read_shared_slice (TpsReader *in, const TpsFieldPath *path, gpointer object,
                                GError **error);
gboolean tps_read_tensor (TpsReader *in, const TpsFieldPath *path, gpointer tensor, GError **error);
void tps_write_tensor (TpsWriter *out, gconstpointer tensor);
gboolean tps_read_sparse_tensor (TpsReader *in, const TpsFieldPath *path, gpointer data,
                                 GError **error);
void tps_write_sparse_tensor (TpsWriter *out, gconstpointer gradient);
gboolean tps_read_gradient (TpsReader *in, const TpsFieldPath *path, gpointer gradient,
                            GError **error);
void tps_write_gradient (TpsWriter *out, gconstpointer gradient);

/* ---- BagQuery, BagGradient: bag_arguments.c -------------------------------------------------- */

/* A tensor of a query. It is read into `tensor`, and written from `view`. */
typedef struct
{
  TpsTensor tensor;
  const TpsTensorView *view;
} TpsBagTensor;

typedef struct
{
  gchar *table;
  TpsBagTensor indices, offsets, weights;
  TpsPooling pooling;
} TpsBagQueryForm;

typedef struct
{
  TpsBagQueryForm query; /* must be first: read_bags() reads a BagQuery into this form */
  TpsBagTensor gradient;
} TpsBagGradientForm;

typedef struct TpsBagTensorType TpsBagTensorType;
extern const TpsBagTensorType tps_bag_indices_type, tps_bag_offsets_type;
extern const TpsBagTensorType tps_bag_weights_type, tps_bag_gradient_type;

extern const TpsValueKind tps_kind_bag_tensor;    /* TpsBagTensor. Of a TpsBagTensorType */
extern const TpsValueKind tps_kind_bag_queries;   /* the whole TpsLookupBagsArguments */
extern const TpsValueKind tps_kind_bag_gradients; /* the whole TpsApplyBagGradientsArguments */

/* ---- ServiceError: wire_failure.c ------------------------------------------------------------ */

extern const TpsValueKind tps_kind_foreign_text;
gboolean tps_read_service_error (TpsReader *in, const TpsFieldPath *path, gpointer failure,
                                 GError **error);

/* ---- all others: wire_forms.c ---------------------------------------------------------------- */

/* A TableSpec, in which the fields of the shard are fields of the spec. */
typedef struct
{
  TpsTableSpec spec;
  gboolean has_first_row;
  gint64 first_row;
  gboolean has_shard_index;
  gint32 shard_index;
  gboolean has_shard_count;
  gint32 shard_count;
  gboolean has_shard_rows;
  gint64 shard_rows;
  gint64 rows;
} TpsTableSpecForm;

extern const TpsValueKind tps_kind_device; /* the name in a TpsTablePlace */
gboolean tps_read_table_spec (TpsReader *in, const TpsFieldPath *path, gpointer target,
                              GError **error);
void tps_write_table_spec (TpsWriter *out, gconstpointer source);

gboolean tps_read_model (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error);
void tps_write_model (TpsWriter *out, gconstpointer source);

extern const TpsValueKind tps_kind_samples; /* the whole TpsMetricSummary */
gboolean tps_read_metric_summary (TpsReader *in, const TpsFieldPath *path, gpointer object,
                                  GError **error);
void tps_metric_summary_free_value (gpointer summary);
