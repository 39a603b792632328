/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/gpu_bundle/device_cases.h"

#include "bench/zipf/zipf.h"
#include "runtime/trainer/dense/dense.h"

#define BAG_ROWS 20
#define GRADIENT_BAG_ROWS 16 /* divides the number of rows, so every row has a gradient */
#define COLUMNS 1024         /* outputs of a layer */
#define TARGET 0.85          /* for elementwise operations, gathers, pooling and row optimizers */
#define PUSH_TARGET 0.5      /* for pushes of ids with a Zipf distribution */
#define EXPONENT 1.05

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
rows_of (const Work *work, const Case *entry)
{
  return work->n_elems / entry->dim;
}

static gdouble
bytes_of_elems (const Work *work, const Case *entry)
{
  return (gdouble) work->n_elems * entry->bytes_per_elem;
}

gsize
tps_device_case_get_n_results (const TpsDeviceWork *work, const TpsDeviceCase *entry)
{
  return entry->n_results != NULL ? entry->n_results (work, entry) : work->n_elems;
}

gsize
tps_device_case_get_n_state (const TpsDeviceWork *work, const TpsDeviceCase *entry)
{
  TpsOptimizerSpec spec = tps_optimizer_spec (entry->optimizer, 1e-4);

  if (entry->momentum != 0)
    return work->n_elems;
  if (entry->optimizer == 0)
    return 0;
  return rows_of (work, entry) * tps_optimizer_state_per_row (&spec, entry->dim);
}

/* Returns the floats of results of half precision: two halves use the memory of one float. */
static gsize
half_of_elems (const Work *work, G_GNUC_UNUSED const Case *entry)
{
  return work->n_elems / 2;
}

/* -- ids -- */

#define ODD 0x9e3779b1u /* a multiplier that spreads ids over the rows */
#define N_CLASSES 64    /* number of rows after which the ids of classes repeat */

gsize
tps_device_case_get_n_ids (gsize n_elems, const TpsDeviceCase *entry)
{
  return entry->ids == TPS_DEVICE_IDS_NONE ? 0 : n_elems / entry->dim;
}

static gsize
draw_ids (gsize n, gint64 *ids)
{
  g_autofree guint8 *is_drawn = g_new0 (guint8, n);
  gsize n_different = 0;
  TpsZipf zipf;
  TpsRng rng;

  tps_zipf_init (&zipf, (gint64) n, EXPONENT);
  tps_rng_init (&rng, 1, 0);
  for (gsize i = 0; i < n; i++)
    {
      ids[i] = (gint64) ((gsize) tps_zipf_draw (&zipf, &rng) * ODD % n);
      n_different += is_drawn[ids[i]] == 0;
      is_drawn[ids[i]] = 1;
    }
  return n_different;
}

gboolean
tps_device_case_get_id_rule (gsize n_elems, const TpsDeviceCase *entry, TpsDeviceIdRule *rule)
{
  gsize n = tps_device_case_get_n_ids (n_elems, entry);

  *rule = (TpsDeviceIdRule) { n, ODD, n / MAX (entry->n_copies, 1) };
  if (entry->ids == TPS_DEVICE_IDS_CLASSES)
    *rule = (TpsDeviceIdRule) { N_CLASSES, ODD, entry->dim };
  return entry->ids == TPS_DEVICE_IDS_SPREAD || entry->ids == TPS_DEVICE_IDS_CLASSES;
}

gsize
tps_device_case_fill_ids (gsize n_elems, const TpsDeviceCase *entry, gint64 *ids)
{
  gsize n = tps_device_case_get_n_ids (n_elems, entry);
  TpsDeviceIdRule rule;

  if (entry->ids == TPS_DEVICE_IDS_ZIPF)
    return draw_ids (n, ids);
  tps_device_case_get_id_rule (n_elems, entry, &rule);
  for (gsize i = 0; i < n; i++)
    ids[i] = (gint64) (i % rule.period * rule.factor % rule.n_different);
  return rule.n_different;
}

/* -- elements -- */

static void
enqueue_copy (const Work *work, const Case *entry)
{
  ops_of (work)->copy (work->stream, a_of (work), b_of (work), work->n_elems * sizeof (gfloat));
}

static void
enqueue_fill (const Work *work, const Case *entry)
{
  ops_of (work)->fill (work->stream, TPS_DTYPE_FLOAT32, a_of (work), 1.5, work->n_elems);
}

static void
enqueue_cast (const Work *work, const Case *entry)
{
  ops_of (work)->cast (work->stream, entry->dtype, a_of (work), TPS_DTYPE_FLOAT32, b_of (work),
                       work->n_elems);
}

/* Returns gradients or rows of the dtype of the case. */
static gconstpointer
values_of (const Work *work)
{
  return tps_buffer_get_data (work->halves != NULL ? work->halves : work->b);
}

static TpsDType
dtype_of (const Case *entry)
{
  return entry->dtype != 0 ? entry->dtype : TPS_DTYPE_FLOAT32;
}

static void
enqueue_accumulate (const Work *work, const Case *entry)
{
  ops_of (work)->accumulate (work->stream, dtype_of (entry), a_of (work), values_of (work),
                             work->n_elems);
}

static void
enqueue_scale (const Work *work, const Case *entry)
{
  ops_of (work)->scale (work->stream, dtype_of (entry), a_of (work), values_of (work), 0.3,
                        work->n_elems);
}

static void
enqueue_scale_accumulate (const Work *work, const Case *entry)
{
  ops_of (work)->scale_accumulate (work->stream, dtype_of (entry), a_of (work), values_of (work),
                                   0.3, work->n_elems);
}

/* Writes averages in the dtype of the case. */
static void
enqueue_divide (const Work *work, const Case *entry)
{
  ops_of (work)->divide (work->stream, dtype_of (entry), a_of (work), b_of (work), 3,
                         work->n_elems);
}

/* -- layers -- */

static void
enqueue_bias_add (const Work *work, const Case *entry)
{
  tps_dense_ops (work->stream)
      ->bias_add (work->stream, a_of (work), b_of (work), rows_of (work, entry), entry->dim);
}

static void
enqueue_column_sum (const Work *work, const Case *entry)
{
  tps_dense_ops (work->stream)
      ->column_sum (work->stream, a_of (work), b_of (work), rows_of (work, entry), entry->dim);
}

static gsize
columns_of (G_GNUC_UNUSED const Work *work, const Case *entry)
{
  return entry->dim;
}

static void
enqueue_relu (const Work *work, const Case *entry)
{
  tps_dense_ops (work->stream)->relu (work->stream, a_of (work), b_of (work), work->n_elems);
}

static void
enqueue_relu_backward (const Work *work, const Case *entry)
{
  tps_dense_ops (work->stream)
      ->relu_backward (work->stream, a_of (work), b_of (work), tps_device_floats_of (work->state),
                       work->n_elems);
}

static void
enqueue_softmax (const Work *work, const Case *entry)
{
  tps_dense_ops (work->stream)
      ->softmax (work->stream, a_of (work), b_of (work), rows_of (work, entry), entry->dim);
}

static void
enqueue_softmax_backward (const Work *work, const Case *entry)
{
  tps_dense_ops (work->stream)
      ->softmax_backward (work->stream, a_of (work), b_of (work),
                          tps_device_floats_of (work->state), rows_of (work, entry), entry->dim);
}

/* Returns the address of the loss; NULL = the case has no loss. */
static gdouble *
loss_of (const Work *work, const Case *entry)
{
  return entry->has_loss ? (gdouble *) (gpointer) tps_buffer_get_data (work->loss) : NULL;
}

static void
enqueue_cross_entropy (const Work *work, const Case *entry)
{
  tps_dense_ops (work->stream)
      ->cross_entropy (work->stream, loss_of (work, entry), a_of (work), b_of (work),
                       tps_device_ids_of (work->ids), rows_of (work, entry), entry->dim);
}

static void
enqueue_l1_loss (const Work *work, const Case *entry)
{
  tps_dense_ops (work->stream)
      ->l1_loss (work->stream, loss_of (work, entry), a_of (work), b_of (work),
                 tps_device_floats_of (work->state), work->n_elems);
}

/* Multiplies square matrices. */
static void
enqueue_gemm (const Work *work, const Case *entry)
{
  gsize side = (gsize) 1 << (g_bit_storage (work->n_elems) - 1) / 2;
  TpsGemm gemm = { .m = side,
                   .n = side,
                   .k = side,
                   .alpha = 1,
                   .a = b_of (work),
                   .b = b_of (work),
                   .c = a_of (work) };

  tps_dense_ops (work->stream)->gemm (work->stream, &gemm);
}

/* -- optimizers -- */

static void
enqueue_sgd (const Work *work, const Case *entry)
{
  TpsSgdFactors factors = { .learning_rate = 1e-4, .momentum = entry->momentum };

  tps_dense_ops (work->stream)
      ->sgd (work->stream, &factors, a_of (work), b_of (work),
             entry->momentum != 0 ? tps_device_floats_of (work->state) : NULL, work->n_elems);
}

/* Updates rows by `gradients`, at most `*n_used` of them; `n_used` NULL = all. */
static void
update_rows (const Work *work, const Case *entry, const gint64 *indices, const gfloat *gradients,
             const gint64 *n_used)
{
  TpsOptimizerSpec spec = tps_optimizer_spec (entry->optimizer, 1e-4);
  TpsRowUpdate update = {
    .indices = indices,
    .n_rows = rows_of (work, entry),
    .dim = entry->dim,
    .values = a_of (work),
    .state = tps_device_floats_of (work->state),
    .gradients = gradients,
    .n_used = n_used,
    .dtype = dtype_of (entry),
    .rounding = { .is_stochastic = entry->is_stochastic, .seed = 1, .stride = 1 },
  };

  tps_optimizer_spec_resolve (&spec, "optimizer", NULL);
  ops_of (work)->update_rows (work->stream, &spec, 1, &update);
}

/* Updates all rows, in the order of the ids if the case has ids. */
static void
enqueue_update (const Work *work, const Case *entry)
{
  const gint64 *ids = entry->ids != TPS_DEVICE_IDS_NONE ? tps_device_ids_of (work->ids) : NULL;

  update_rows (work, entry, ids, b_of (work), NULL);
}

/* Counts the elements and, if the case has ids, one id for each row. */
static gdouble
bytes_update (const Work *work, const Case *entry)
{
  return bytes_of_elems (work, entry)
         + (gdouble) tps_device_case_get_n_ids (work->n_elems, entry) * sizeof (gint64);
}

/* Also counts the state of row-wise Adagrad: one float for each row is read and written. */
static gdouble
bytes_rowwise (const Work *work, const Case *entry)
{
  return bytes_update (work, entry) + (gdouble) rows_of (work, entry) * 2 * sizeof (gfloat);
}

/* -- embeddings -- */

static TpsBags
bags_of (const Work *work, const Case *entry, gsize bag_rows)
{
  gsize n_bags = rows_of (work, entry) / bag_rows;

  return (TpsBags) {
    .rows = (gint64) rows_of (work, entry),
    .dim = (gint64) entry->dim,
    .indices = tps_device_ids_of (work->ids),
    .n_indices = n_bags * bag_rows,
    .n_bags = n_bags,
    .pooling = TPS_POOLING_SUM,
  };
}

static gdouble
bytes_of_bags (const Work *work, const Case *entry, gsize bag_rows)
{
  TpsBags bags = bags_of (work, entry, bag_rows);
  gdouble row_bytes = (gdouble) entry->dim * tps_dtype_size (dtype_of (entry));

  return (gdouble) bags.n_indices * (row_bytes + sizeof (gint64))
         + (gdouble) bags.n_bags * entry->dim * sizeof (gfloat);
}

static gdouble
bytes_gather (const Work *work, const Case *entry)
{
  return bytes_of_bags (work, entry, 1);
}

static gdouble
bytes_pool (const Work *work, const Case *entry)
{
  return bytes_of_bags (work, entry, BAG_ROWS);
}

static gsize
n_pooled (const Work *work, const Case *entry)
{
  return rows_of (work, entry) / BAG_ROWS * entry->dim;
}

static gdouble
bytes_pool_gradient (const Work *work, const Case *entry)
{
  return bytes_of_bags (work, entry, GRADIENT_BAG_ROWS);
}

/* Pools rows of the dtype of the case. */
static void
pool (const Work *work, const Case *entry, const TpsBags *bags)
{
  ops_of (work)->embedding_pool (work->stream, bags, dtype_of (entry), values_of (work),
                                 a_of (work));
}

static void
enqueue_gather (const Work *work, const Case *entry)
{
  TpsBags bags = bags_of (work, entry, 1);

  pool (work, entry, &bags);
}

static void
enqueue_pool (const Work *work, const Case *entry)
{
  TpsBags bags = bags_of (work, entry, BAG_ROWS);

  pool (work, entry, &bags);
}

static gint64 *
n_found_of (const Work *work, const Case *entry)
{
  return tps_device_ids_of (work->found_ids) + rows_of (work, entry);
}

static void
enqueue_backward_rows (const Work *work, const Case *entry)
{
  TpsBags bags = bags_of (work, entry, GRADIENT_BAG_ROWS);

  ops_of (work)->embedding_backward_rows (work->stream, &bags, b_of (work),
                                          tps_device_ids_of (work->found_ids), a_of (work),
                                          n_found_of (work, entry));
}

static void
coalesce (const Work *work, const Case *entry, gfloat *sums)
{
  ops_of (work)->coalesce_rows (work->stream, TPS_DTYPE_FLOAT32, tps_device_ids_of (work->ids),
                                (gint64) rows_of (work, entry), b_of (work), rows_of (work, entry),
                                entry->dim, tps_device_ids_of (work->found_ids), sums,
                                n_found_of (work, entry));
}

static void
enqueue_coalesce (const Work *work, const Case *entry)
{
  coalesce (work, entry, a_of (work));
}

static gsize
n_coalesced (const Work *work, const Case *entry)
{
  return work->n_different_ids * entry->dim;
}

/* Counts the input rows and the different output rows, each with its id. */
static gdouble
bytes_coalesce (const Work *work, const Case *entry)
{
  gdouble row_bytes = (gdouble) entry->dim * sizeof (gfloat) + sizeof (gint64);

  return (gdouble) (rows_of (work, entry) + work->n_different_ids) * row_bytes;
}

/* Runs the work of a push to a table: adds the gradients of equal ids, and updates the rows. The
 * sums are in the second half of the state; of the first half, the optimizer uses one float for
 * each row. */
static void
enqueue_push (const Work *work, const Case *entry)
{
  gfloat *sums = tps_device_floats_of (work->state) + work->n_elems;

  coalesce (work, entry, sums);
  update_rows (work, entry, tps_device_ids_of (work->found_ids), sums, n_found_of (work, entry));
}

/* Counts the gradients with their ids, and the values and states of the different rows, which are
 * read and written. The sums are intermediate results and do not count. */
static gdouble
bytes_push (const Work *work, const Case *entry)
{
  gdouble row_bytes = (gdouble) entry->dim * sizeof (gfloat);

  return (gdouble) rows_of (work, entry) * (row_bytes + sizeof (gint64))
         + (gdouble) work->n_different_ids * 2 * (row_bytes + sizeof (gfloat));
}

/* -- the list of cases -- */

#define ELEMENTS(label, columns, n_bytes, ...)                                                     \
  {                                                                                                \
    .name = label, .dim = columns, .bytes = bytes_of_elems, .bytes_per_elem = n_bytes, __VA_ARGS__ \
  }
#define TARGETED(label, n_bytes, ...) ELEMENTS (label, 1, n_bytes, .to_reach = TARGET, __VA_ARGS__)
#define HALVES(label, n_bytes, kind, function) \
  TARGETED (label, n_bytes, .dtype = kind, .enqueue = function)
#define TO_HALVES(label, n_bytes, kind, function) \
  TARGETED (label, n_bytes, .dtype = kind, .enqueue = function, .n_results = half_of_elems)
#define UPDATE(label, columns, n_bytes, kind, spread, count)                                 \
  {                                                                                          \
    .name = label, .dim = columns, .bytes = count, .bytes_per_elem = n_bytes, .ids = spread, \
    .enqueue = enqueue_update, .to_reach = TARGET, .optimizer = kind                         \
  }
#define HALF_ROWS(label, n_bytes, type, kind, count, ...)                                \
  {                                                                                      \
    .name = label, .dim = 64, .bytes = count, .bytes_per_elem = n_bytes,                 \
    .ids = TPS_DEVICE_IDS_SPREAD, .enqueue = enqueue_update, .to_reach = TARGET,         \
    .optimizer = kind, .dtype = type, .has_half_rows = TRUE, .n_results = half_of_elems, \
    __VA_ARGS__                                                                          \
  }
/* The CPU must compute the whole result, because each row has other random bits. */
#define STOCHASTIC .is_stochastic = TRUE, .growth = TPS_DEVICE_GROWS_FREELY
#define ROWS(label, columns, ...)                                            \
  {                                                                          \
    .name = label, .dim = columns, .ids = TPS_DEVICE_IDS_SPREAD, __VA_ARGS__ \
  }
#define SKEWED(label, columns, ...)                                                               \
  {                                                                                               \
    .name = label, .dim = columns, .ids = TPS_DEVICE_IDS_ZIPF, .growth = TPS_DEVICE_GROWS_FREELY, \
    __VA_ARGS__                                                                                   \
  }
#define GATHER .bytes = bytes_gather, .enqueue = enqueue_gather, .to_reach = TARGET
#define POOL .bytes = bytes_pool, .enqueue = enqueue_pool, .n_results = n_pooled, .to_reach = TARGET

static const Case cases[] = {
  ELEMENTS ("copy", 1, 8, .enqueue = enqueue_copy),
  TARGETED ("accumulate", 12, .enqueue = enqueue_accumulate),
  HALVES ("accumulate float16", 10, TPS_DTYPE_FLOAT16, enqueue_accumulate),
  HALVES ("accumulate bfloat16", 10, TPS_DTYPE_BFLOAT16, enqueue_accumulate),
  TARGETED ("sgd", 12, .enqueue = enqueue_sgd),
  UPDATE ("row-wise adagrad, dim 64", 64, 12, TPS_OPTIMIZER_ROWWISE_ADAGRAD, TPS_DEVICE_IDS_SPREAD,
          bytes_rowwise),
  UPDATE ("row-wise adagrad, dim 128", 128, 12, TPS_OPTIMIZER_ROWWISE_ADAGRAD,
          TPS_DEVICE_IDS_SPREAD, bytes_rowwise),
  UPDATE ("adagrad of rows, dim 64", 64, 20, TPS_OPTIMIZER_ADAGRAD, TPS_DEVICE_IDS_SPREAD,
          bytes_update),
  UPDATE ("adam of rows, dim 64", 64, 28, TPS_OPTIMIZER_ADAM, TPS_DEVICE_IDS_SPREAD, bytes_update),
  UPDATE ("ftrl of rows, dim 64", 64, 28, TPS_OPTIMIZER_FTRL, TPS_DEVICE_IDS_SPREAD, bytes_update),
  HALF_ROWS ("row-wise adagrad, float16", 8, TPS_DTYPE_FLOAT16, TPS_OPTIMIZER_ROWWISE_ADAGRAD,
             bytes_rowwise),
  HALF_ROWS ("row-wise adagrad, bfloat16", 8, TPS_DTYPE_BFLOAT16, TPS_OPTIMIZER_ROWWISE_ADAGRAD,
             bytes_rowwise),
  HALF_ROWS ("row-wise, bf16 stochastic", 8, TPS_DTYPE_BFLOAT16, TPS_OPTIMIZER_ROWWISE_ADAGRAD,
             bytes_rowwise, STOCHASTIC),
  HALF_ROWS ("adam of rows, bfloat16", 24, TPS_DTYPE_BFLOAT16, TPS_OPTIMIZER_ADAM, bytes_update),
  HALF_ROWS ("adam, f16 stochastic", 24, TPS_DTYPE_FLOAT16, TPS_OPTIMIZER_ADAM, bytes_update,
             STOCHASTIC),
  ROWS ("gather, dim 64", 64, GATHER),
  ROWS ("gather, dim 128", 128, GATHER),
  SKEWED ("gather, dim 64, zipf", 64, GATHER),
  ROWS ("gather bfloat16, dim 64", 64, GATHER, .dtype = TPS_DTYPE_BFLOAT16),
  ROWS ("pool of 20, dim 64", 64, POOL),
  ROWS ("pool of 20, dim 128", 128, POOL),
  ROWS ("pool of 20, bfloat16", 64, POOL, .dtype = TPS_DTYPE_BFLOAT16),
  SKEWED ("pool of 20, dim 64, zipf", 64, POOL),
  ROWS ("pool's gradient, dim 64", 64, .bytes = bytes_pool_gradient,
        .enqueue = enqueue_backward_rows, .finds_ids = TRUE),
  ROWS ("coalesce 4 to 1, dim 64", 64, .n_copies = 4, .bytes = bytes_coalesce,
        .enqueue = enqueue_coalesce, .n_results = n_coalesced, .finds_ids = TRUE),
  SKEWED ("push, dim 64, zipf", 64, .bytes = bytes_push, .enqueue = enqueue_push,
          .to_reach = PUSH_TARGET, .optimizer = TPS_OPTIMIZER_ROWWISE_ADAGRAD, .finds_ids = TRUE),
  TARGETED ("fill", 4, .enqueue = enqueue_fill),
  TO_HALVES ("cast to float16", 6, TPS_DTYPE_FLOAT16, enqueue_cast),
  TO_HALVES ("cast to bfloat16", 6, TPS_DTYPE_BFLOAT16, enqueue_cast),
  TARGETED ("scale", 8, .enqueue = enqueue_scale),
  HALVES ("scale float16", 6, TPS_DTYPE_FLOAT16, enqueue_scale),
  HALVES ("scale bfloat16", 6, TPS_DTYPE_BFLOAT16, enqueue_scale),
  TARGETED ("scale and accumulate", 12, .enqueue = enqueue_scale_accumulate),
  HALVES ("scale and add bfloat16", 10, TPS_DTYPE_BFLOAT16, enqueue_scale_accumulate),
  TARGETED ("divide", 8, .enqueue = enqueue_divide),
  TO_HALVES ("divide to float16", 6, TPS_DTYPE_FLOAT16, enqueue_divide),
  TO_HALVES ("divide to bfloat16", 6, TPS_DTYPE_BFLOAT16, enqueue_divide),
  TARGETED ("sgd, momentum", 20, .enqueue = enqueue_sgd, .momentum = 0.9),
  UPDATE ("adagrad", 64, 20, TPS_OPTIMIZER_ADAGRAD, TPS_DEVICE_IDS_NONE, bytes_update),
  UPDATE ("adam", 64, 28, TPS_OPTIMIZER_ADAM, TPS_DEVICE_IDS_NONE, bytes_update),
  UPDATE ("ftrl", 64, 28, TPS_OPTIMIZER_FTRL, TPS_DEVICE_IDS_NONE, bytes_update),
  ELEMENTS ("add bias", COLUMNS, 8, .enqueue = enqueue_bias_add, .to_reach = TARGET),
  ELEMENTS ("sum of columns", COLUMNS, 4, .enqueue = enqueue_column_sum, .n_results = columns_of,
            .growth = TPS_DEVICE_GROWS_AS_SUM),
  TARGETED ("relu", 8, .enqueue = enqueue_relu),
  TARGETED ("relu's gradient", 12, .enqueue = enqueue_relu_backward),
  ELEMENTS ("softmax", COLUMNS, 8, .enqueue = enqueue_softmax, .tolerance = 1e-4),
  ELEMENTS ("softmax's gradient", COLUMNS, 12, .enqueue = enqueue_softmax_backward,
            .tolerance = 1e-3),
  ELEMENTS ("cross-entropy", COLUMNS, 8, .enqueue = enqueue_cross_entropy, .tolerance = 1e-3,
            .ids = TPS_DEVICE_IDS_CLASSES, .growth = TPS_DEVICE_GROWS_AS_MEAN),
  ELEMENTS ("cross-entropy with loss", COLUMNS, 8, .enqueue = enqueue_cross_entropy,
            .tolerance = 1e-3, .ids = TPS_DEVICE_IDS_CLASSES, .growth = TPS_DEVICE_GROWS_AS_MEAN,
            .has_loss = TRUE),
  ELEMENTS ("l1 loss", 1, 12, .enqueue = enqueue_l1_loss, .growth = TPS_DEVICE_GROWS_AS_MEAN),
  ELEMENTS ("l1 with loss", 1, 12, .enqueue = enqueue_l1_loss, .growth = TPS_DEVICE_GROWS_AS_MEAN,
            .has_loss = TRUE),
  ELEMENTS ("product of matrices", 1, 12, .enqueue = enqueue_gemm, .tolerance = 1e-4,
            .growth = TPS_DEVICE_GROWS_TOO_FAST),
};

const TpsDeviceCase *
tps_device_cases_get (guint *n_cases)
{
  if (n_cases != NULL)
    *n_cases = G_N_ELEMENTS (cases);
  return cases;
}
