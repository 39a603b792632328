/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/gpu_bundle/device_cases.h"

#define BAG_ROWS 20
#define COLUMNS 1024 /* of a layer's output */
#define TARGET 0.85  /* of elementwise operations, gathers, pooling and row optimizers */

typedef TpsDeviceWork Work;
typedef TpsDeviceCase Case;

static const TpsDeviceOps *
ops_of (const Work *work)
{
  return work->device->ops;
}

static gfloat *
a_of (const Work *work)
{
  return tps_device_floats_of (work->a);
}

static gfloat *
b_of (const Work *work)
{
  return tps_device_floats_of (work->b);
}

static gsize
rows_of (const Work *work, const Case *what)
{
  return work->n_elems / what->dim;
}

gsize
tps_device_case_get_n_ids (const TpsDeviceWork *work, const TpsDeviceCase *what)
{
  return what->n_copies > 0 ? rows_of (work, what) / what->n_copies : what->dim;
}

static gdouble
bytes_of_elems (const Work *work, const Case *what)
{
  return (gdouble) work->n_elems * what->bytes_per_elem;
}

/* -- elements -- */

static void
enqueue_copy (const Work *work, const Case *what)
{
  ops_of (work)->copy (work->stream, a_of (work), b_of (work), work->n_elems * sizeof (gfloat));
}

static void
enqueue_fill (const Work *work, const Case *what)
{
  ops_of (work)->fill (work->stream, TPS_DTYPE_FLOAT32, a_of (work), 1.5, work->n_elems);
}

static void
enqueue_cast (const Work *work, const Case *what)
{
  ops_of (work)->cast (work->stream, TPS_DTYPE_BFLOAT16, a_of (work), TPS_DTYPE_FLOAT32,
                       b_of (work), work->n_elems);
}

static void
enqueue_accumulate (const Work *work, const Case *what)
{
  ops_of (work)->accumulate (work->stream, TPS_DTYPE_FLOAT32, a_of (work), b_of (work),
                             work->n_elems);
}

static void
enqueue_scale (const Work *work, const Case *what)
{
  ops_of (work)->scale (work->stream, TPS_DTYPE_FLOAT32, a_of (work), b_of (work), 0.3,
                        work->n_elems);
}

static void
enqueue_scale_accumulate (const Work *work, const Case *what)
{
  ops_of (work)->scale_accumulate (work->stream, TPS_DTYPE_FLOAT32, a_of (work), b_of (work), 0.3,
                                   work->n_elems);
}

static void
enqueue_divide (const Work *work, const Case *what)
{
  ops_of (work)->divide (work->stream, TPS_DTYPE_FLOAT32, a_of (work), b_of (work), 3,
                         work->n_elems);
}

/* -- layers -- */

static void
enqueue_bias_add (const Work *work, const Case *what)
{
  ops_of (work)->bias_add (work->stream, a_of (work), b_of (work), rows_of (work, what), what->dim);
}

static void
enqueue_column_sum (const Work *work, const Case *what)
{
  ops_of (work)->column_sum (work->stream, a_of (work), b_of (work), rows_of (work, what),
                             what->dim);
}

static void
enqueue_relu (const Work *work, const Case *what)
{
  ops_of (work)->relu (work->stream, a_of (work), b_of (work), work->n_elems);
}

static void
enqueue_relu_backward (const Work *work, const Case *what)
{
  ops_of (work)->relu_backward (work->stream, a_of (work), b_of (work),
                                tps_device_floats_of (work->state), work->n_elems);
}

static void
enqueue_softmax (const Work *work, const Case *what)
{
  ops_of (work)->softmax (work->stream, a_of (work), b_of (work), rows_of (work, what), what->dim);
}

static void
enqueue_softmax_backward (const Work *work, const Case *what)
{
  ops_of (work)->softmax_backward (work->stream, a_of (work), b_of (work),
                                   tps_device_floats_of (work->state), rows_of (work, what),
                                   what->dim);
}

static void
enqueue_cross_entropy (const Work *work, const Case *what)
{
  ops_of (work)->cross_entropy (work->stream, NULL, a_of (work), b_of (work),
                                tps_device_ids_of (work->ids), rows_of (work, what), what->dim);
}

static void
enqueue_l1_loss (const Work *work, const Case *what)
{
  ops_of (work)->l1_loss (work->stream, NULL, a_of (work), b_of (work),
                          tps_device_floats_of (work->state), work->n_elems);
}

/* Multiplies square matrices. */
static void
enqueue_gemm (const Work *work, const Case *what)
{
  gsize side = (gsize) 1 << (g_bit_storage (work->n_elems) - 1) / 2;
  TpsGemm gemm = { .m = side,
                   .n = side,
                   .k = side,
                   .alpha = 1,
                   .a = b_of (work),
                   .b = b_of (work),
                   .c = a_of (work) };

  ops_of (work)->gemm (work->stream, &gemm);
}

/* -- optimizers -- */

static void
enqueue_sgd (const Work *work, const Case *what)
{
  TpsSgdFactors factors = { .learning_rate = 1e-4, .momentum = what->momentum };

  ops_of (work)->sgd (work->stream, &factors, a_of (work), b_of (work),
                      what->momentum != 0 ? tps_device_floats_of (work->state) : NULL,
                      work->n_elems);
}

/* Updates all rows in the order of `indices`; NULL: in sequence. */
static void
update_rows (const Work *work, const Case *what, const gint64 *indices)
{
  TpsOptimizerSpec spec = tps_optimizer_spec (what->optimizer, 1e-4);
  TpsRowUpdate update = {
    .indices = indices,
    .n_rows = rows_of (work, what),
    .dim = what->dim,
    .values = a_of (work),
    .state = tps_device_floats_of (work->state),
    .gradients = b_of (work),
  };

  tps_optimizer_spec_resolve (&spec, "optimizer", NULL);
  ops_of (work)->update_rows (work->stream, &spec, 1, &update);
}

static void
enqueue_update (const Work *work, const Case *what)
{
  update_rows (work, what, NULL);
}

static void
enqueue_rowwise (const Work *work, const Case *what)
{
  update_rows (work, what, tps_device_ids_of (work->ids));
}

static gdouble
bytes_rowwise (const Work *work, const Case *what)
{
  return (gdouble) work->n_elems * 12 + (gdouble) rows_of (work, what) * (8 + 8);
}

/* -- embeddings -- */

static TpsBags
bags_of (const Work *work, const Case *what, gsize bag_rows)
{
  gsize n_bags = rows_of (work, what) / bag_rows;

  return (TpsBags) {
    .rows = (gint64) rows_of (work, what),
    .dim = (gint64) what->dim,
    .indices = tps_device_ids_of (work->ids),
    .n_indices = n_bags * bag_rows,
    .n_bags = n_bags,
    .pooling = TPS_POOLING_SUM,
  };
}

static gdouble
bytes_of_bags (const Work *work, const Case *what, gsize bag_rows)
{
  TpsBags bags = bags_of (work, what, bag_rows);
  gdouble row_bytes = (gdouble) what->dim * sizeof (gfloat);

  return (gdouble) bags.n_indices * (row_bytes + sizeof (gint64))
         + (gdouble) bags.n_bags * row_bytes;
}

static gdouble
bytes_gather (const Work *work, const Case *what)
{
  return bytes_of_bags (work, what, 1);
}

static gdouble
bytes_pool (const Work *work, const Case *what)
{
  return bytes_of_bags (work, what, BAG_ROWS);
}

static void
pool (const Work *work, const TpsBags *bags)
{
  ops_of (work)->embedding_pool (work->stream, bags, b_of (work), a_of (work), NULL);
}

static void
enqueue_gather (const Work *work, const Case *what)
{
  TpsBags bags = bags_of (work, what, 1);

  pool (work, &bags);
}

static void
enqueue_pool (const Work *work, const Case *what)
{
  TpsBags bags = bags_of (work, what, BAG_ROWS);

  pool (work, &bags);
}

/* The last of `found_ids`, which the rows do not use. */
static gint64 *
n_found_of (const Work *work)
{
  return tps_device_ids_of (work->found_ids) + work->n_elems - 1;
}

static void
enqueue_backward_rows (const Work *work, const Case *what)
{
  TpsBags bags = bags_of (work, what, BAG_ROWS);

  ops_of (work)->embedding_backward_rows (work->stream, &bags, b_of (work), NULL,
                                          tps_device_ids_of (work->found_ids), a_of (work),
                                          n_found_of (work));
}

static void
enqueue_coalesce (const Work *work, const Case *what)
{
  ops_of (work)->coalesce_rows (work->stream, TPS_DTYPE_FLOAT32, tps_device_ids_of (work->ids),
                                b_of (work), rows_of (work, what), what->dim,
                                tps_device_ids_of (work->found_ids), a_of (work),
                                n_found_of (work));
}

/* Counts the input rows and the unique output rows, each with its id. */
static gdouble
bytes_coalesce (const Work *work, const Case *what)
{
  gdouble row_bytes = (gdouble) what->dim * sizeof (gfloat) + sizeof (gint64);

  return (gdouble) (rows_of (work, what) + tps_device_case_get_n_ids (work, what)) * row_bytes;
}

/* -- the list of cases -- */

#define ELEMENTS(label, columns, n_bytes, ...)                                                     \
  {                                                                                                \
    .name = label, .dim = columns, .bytes = bytes_of_elems, .bytes_per_elem = n_bytes, __VA_ARGS__ \
  }

static const Case cases[] = {
  ELEMENTS ("copy", 1, 8, .enqueue = enqueue_copy),
  ELEMENTS ("accumulate", 1, 12, .enqueue = enqueue_accumulate, .to_reach = TARGET),
  ELEMENTS ("sgd", 1, 12, .enqueue = enqueue_sgd, .to_reach = TARGET),
  { "row-wise adagrad, dim 64", 64, 1, bytes_rowwise, enqueue_rowwise, .to_reach = TARGET,
    .optimizer = TPS_OPTIMIZER_ROWWISE_ADAGRAD },
  { "row-wise adagrad, dim 128", 128, 1, bytes_rowwise, enqueue_rowwise, .to_reach = TARGET,
    .optimizer = TPS_OPTIMIZER_ROWWISE_ADAGRAD },
  { "gather, dim 64", 64, 1, bytes_gather, enqueue_gather, .to_reach = TARGET },
  { "gather, dim 128", 128, 1, bytes_gather, enqueue_gather, .to_reach = TARGET },
  { "pool of 20, dim 64", 64, 1, bytes_pool, enqueue_pool, .to_reach = TARGET },
  { "pool of 20, dim 128", 128, 1, bytes_pool, enqueue_pool, .to_reach = TARGET },
  { "pool's gradient, dim 64", 64, 1, bytes_pool, enqueue_backward_rows },
  { "coalesce 4 to 1, dim 64", 64, 4, bytes_coalesce, enqueue_coalesce },
  ELEMENTS ("fill", 1, 4, .enqueue = enqueue_fill, .to_reach = TARGET),
  ELEMENTS ("cast to bfloat16", 1, 6, .enqueue = enqueue_cast, .to_reach = TARGET),
  ELEMENTS ("scale", 1, 8, .enqueue = enqueue_scale, .to_reach = TARGET),
  ELEMENTS ("scale and accumulate", 1, 12, .enqueue = enqueue_scale_accumulate, .to_reach = TARGET),
  ELEMENTS ("divide", 1, 8, .enqueue = enqueue_divide, .to_reach = TARGET),
  ELEMENTS ("sgd, momentum", 1, 20, .enqueue = enqueue_sgd, .momentum = 0.9, .to_reach = TARGET),
  ELEMENTS ("adagrad", 64, 20, .enqueue = enqueue_update, .optimizer = TPS_OPTIMIZER_ADAGRAD,
            .to_reach = TARGET),
  ELEMENTS ("adam", 64, 28, .enqueue = enqueue_update, .optimizer = TPS_OPTIMIZER_ADAM,
            .to_reach = TARGET),
  ELEMENTS ("ftrl", 64, 28, .enqueue = enqueue_update, .optimizer = TPS_OPTIMIZER_FTRL,
            .to_reach = TARGET),
  ELEMENTS ("add bias", COLUMNS, 8, .enqueue = enqueue_bias_add, .to_reach = TARGET),
  ELEMENTS ("sum of columns", COLUMNS, 4, .enqueue = enqueue_column_sum),
  ELEMENTS ("relu", 1, 8, .enqueue = enqueue_relu, .to_reach = TARGET),
  ELEMENTS ("relu's gradient", 1, 12, .enqueue = enqueue_relu_backward, .to_reach = TARGET),
  ELEMENTS ("softmax", COLUMNS, 8, .enqueue = enqueue_softmax, .tolerance = 1e-4),
  ELEMENTS ("softmax's gradient", COLUMNS, 12, .enqueue = enqueue_softmax_backward,
            .tolerance = 1e-3),
  ELEMENTS ("cross-entropy", COLUMNS, 8, .enqueue = enqueue_cross_entropy, .tolerance = 1e-3),
  ELEMENTS ("l1 loss", 1, 12, .enqueue = enqueue_l1_loss),
  ELEMENTS ("product of matrices", 1, 12, .enqueue = enqueue_gemm, .tolerance = 1e-4),
};

const TpsDeviceCase *
tps_device_cases_get (guint *n_cases)
{
  if (n_cases != NULL)
    *n_cases = G_N_ELEMENTS (cases);
  return cases;
}
