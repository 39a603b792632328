/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compares the operations of a device with copies within the device. The rate of an operation is
 * the number of bytes that it must move, divided by the time between two events. The rate of copies
 * is measured before and after each operation.
 *
 *   device_ops --device=cuda:0 [--mib=1024] [--rounds=30] [--skip=0] [--only=NAME] [--smoke]
 *   device_ops --list
 *
 * If there is not enough memory, the arrays have half the size or less. Before the measurement, the
 * results of CHECK_ELEMS elements are compared with those of the CPU. (//tests/cuda:huge_arrays
 * checks results of large arrays.)
 *
 * An operation that fails terminates the program, because a failed device fails at every later
 * operation. With --skip, another process continues after that operation.
 *
 * Exit status: 0; 1 a result is wrong or the device fails; 2 bad flags; 3 no such device. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/zipf/zipf.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/device/backend.h"
#include "runtime/trainer/dense/dense.h"

#define PERIOD ((gsize) 1 << 11)      /* of the floats of arrays, which the device repeats */
#define CHECK_ELEMS ((gsize) 1 << 18) /* elements of the check */
#define MAX_ROUNDS 1000
#define WARM_UP_NS G_GINT64_CONSTANT (100000000)
#define LOSS_TOLERANCE 1e-6 /* relative: the order of additions and expf() differ */

#define BAG_ROWS 20
#define GRADIENT_BAG_ROWS 16 /* divides the number of rows, so every row has a gradient */
#define COLUMNS 1024         /* outputs of a layer */
#define N_CLASSES 64         /* number of rows after which classes repeat */
#define TARGET 0.85          /* for elementwise operations, gathers, pooling and row optimizers */
#define PUSH_TARGET 0.5      /* for pushes of ids with a Zipf distribution */
#define EXPONENT 1.05

/* The arrays of a case in memory of its device, and their memory. Thread: one for each struct. */
typedef struct
{
  TpsDevice *device;
  const TpsDeviceOps *ops;
  const TpsDenseOps *dense;
  TpsStream *stream;
  gsize n_elems;         /* a power of two: multiplication by an odd factor permutes the rows */
  gfloat *a, *b;         /* [n_elems] each, values above 0; results are in `a` */
  gfloat *state;         /* [2 * n_elems], values above 0 */
  gpointer halves;       /* [n_elems], `b` in the dtype of the case; NULL for FLOAT32 */
  gint64 *ids;           /* [rows] */
  gint64 *found_ids;     /* [rows + 1]; the last element is the number of ids found */
  gdouble *loss;         /* [1] */
  gsize n_different_ids; /* number of different values in `ids` */
  TpsBuffer *buffers[8];
  guint n_buffers;
} Work;

/* The ids of a case. */
typedef enum
{
  IDS_NONE,
  IDS_SPREAD,  /* each of n_elems / dim ids occurs once */
  IDS_ZIPF,    /* ids of n_elems / dim rows with a Zipf distribution, permuted */
  IDS_CLASSES, /* classes below `dim` */
} Ids;

/* A measured operation. */
typedef struct Case Case;
struct Case
{
  const gchar *name;
  gsize dim;                                              /* floats of a row */
  gsize bag_rows;                                         /* of lookups and their gradients */
  gdouble (*bytes) (const Work *work, const Case *entry); /* minimum number of bytes to move */
  void (*enqueue) (const Work *work, const Case *entry);  /* runs the operation */
  gdouble to_reach;       /* required fraction of the rate of the copy; 0 = none */
  gdouble tolerance;      /* relative; 0 = the bits must be equal to those of the CPU */
  gdouble bytes_per_elem; /* for bytes_of_elems(): all elements cost the same */
  gdouble momentum;       /* of SGD */
  Ids ids;
  TpsDType dtype;         /* of gradients, averages or rows of tables; 0 = FLOAT32 */
  gboolean has_half_rows; /* the first half of the memory of `a` contains rows of the dtype */
  gboolean is_stochastic; /* updated rows are rounded stochastically */
  gboolean finds_ids;     /* writes the different ids, and their number, to `found_ids` */
  gboolean has_loss;      /* writes `loss` */
  TpsOptimizerKind optimizer;
};

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

/* -- elements -- */

static void
enqueue_copy (const Work *work, const Case *entry)
{
  work->ops->copy (work->stream, work->a, work->b, work->n_elems * sizeof (gfloat));
}

static void
enqueue_fill (const Work *work, const Case *entry)
{
  work->ops->fill (work->stream, TPS_DTYPE_FLOAT32, work->a, 1.5, work->n_elems);
}

static void
enqueue_cast (const Work *work, const Case *entry)
{
  work->ops->cast (work->stream, entry->dtype, work->a, TPS_DTYPE_FLOAT32, work->b, work->n_elems);
}

/* Returns gradients or rows of the dtype of the case. */
static gconstpointer
values_of (const Work *work)
{
  return work->halves != NULL ? work->halves : work->b;
}

static TpsDType
dtype_of (const Case *entry)
{
  return entry->dtype != 0 ? entry->dtype : TPS_DTYPE_FLOAT32;
}

static void
enqueue_accumulate (const Work *work, const Case *entry)
{
  work->ops->accumulate (work->stream, dtype_of (entry), work->a, values_of (work), work->n_elems);
}

static void
enqueue_scale (const Work *work, const Case *entry)
{
  work->ops->scale (work->stream, dtype_of (entry), work->a, values_of (work), 0.3, work->n_elems);
}

static void
enqueue_scale_accumulate (const Work *work, const Case *entry)
{
  work->ops->scale_accumulate (work->stream, dtype_of (entry), work->a, values_of (work), 0.3,
                               work->n_elems);
}

/* Writes averages in the dtype of the case. */
static void
enqueue_divide (const Work *work, const Case *entry)
{
  work->ops->divide (work->stream, dtype_of (entry), work->a, work->b, 3, work->n_elems);
}

/* -- layers -- */

static void
enqueue_bias_add (const Work *work, const Case *entry)
{
  work->dense->bias_add (work->stream, work->a, work->b, rows_of (work, entry), entry->dim);
}

static void
enqueue_column_sum (const Work *work, const Case *entry)
{
  work->dense->column_sum (work->stream, work->a, work->b, rows_of (work, entry), entry->dim);
}

static void
enqueue_relu (const Work *work, const Case *entry)
{
  work->dense->relu (work->stream, work->a, work->b, work->n_elems);
}

static void
enqueue_relu_backward (const Work *work, const Case *entry)
{
  work->dense->relu_backward (work->stream, work->a, work->b, work->state, work->n_elems);
}

static void
enqueue_softmax (const Work *work, const Case *entry)
{
  work->dense->softmax (work->stream, work->a, work->b, rows_of (work, entry), entry->dim);
}

static void
enqueue_softmax_backward (const Work *work, const Case *entry)
{
  work->dense->softmax_backward (work->stream, work->a, work->b, work->state, rows_of (work, entry),
                                 entry->dim);
}

static void
enqueue_cross_entropy (const Work *work, const Case *entry)
{
  work->dense->cross_entropy (work->stream, entry->has_loss ? work->loss : NULL, work->a, work->b,
                              work->ids, rows_of (work, entry), entry->dim);
}

static void
enqueue_l1_loss (const Work *work, const Case *entry)
{
  work->dense->l1_loss (work->stream, entry->has_loss ? work->loss : NULL, work->a, work->b,
                        work->state, work->n_elems);
}

/* Multiplies square matrices. */
static void
enqueue_gemm (const Work *work, const Case *entry)
{
  gsize side = (gsize) 1 << (g_bit_storage (work->n_elems) - 1) / 2;
  TpsGemm gemm = {
    .m = side, .n = side, .k = side, .alpha = 1, .a = work->b, .b = work->b, .c = work->a
  };

  work->dense->gemm (work->stream, &gemm);
}

/* -- optimizers -- */

static void
enqueue_sgd (const Work *work, const Case *entry)
{
  TpsSgdFactors factors = { .learning_rate = 1e-4, .momentum = entry->momentum };

  work->dense->sgd (work->stream, &factors, work->a, work->b,
                    entry->momentum != 0 ? work->state : NULL, work->n_elems);
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
    .values = work->a,
    .state = work->state,
    .gradients = gradients,
    .n_used = n_used,
    .dtype = dtype_of (entry),
    .rounding = { .is_stochastic = entry->is_stochastic, .seed = 1, .stride = 1 },
  };

  tps_optimizer_spec_resolve (&spec, "optimizer", NULL);
  work->ops->update_rows (work->stream, &spec, 1, &update);
}

/* Updates all rows, in the order of the ids if the case has ids. */
static void
enqueue_update (const Work *work, const Case *entry)
{
  update_rows (work, entry, entry->ids != IDS_NONE ? work->ids : NULL, work->b, NULL);
}

/* Counts the elements and, if the case has ids, one id for each row. */
static gdouble
bytes_update (const Work *work, const Case *entry)
{
  return bytes_of_elems (work, entry)
         + (entry->ids != IDS_NONE ? (gdouble) rows_of (work, entry) * sizeof (gint64) : 0);
}

/* Also counts the state of row-wise Adagrad: one float for each row is read and written. */
static gdouble
bytes_rowwise (const Work *work, const Case *entry)
{
  return bytes_update (work, entry) + (gdouble) rows_of (work, entry) * 2 * sizeof (gfloat);
}

/* -- embeddings -- */

static TpsBags
bags_of (const Work *work, const Case *entry)
{
  gsize n_bags = rows_of (work, entry) / entry->bag_rows;

  return (TpsBags) {
    .rows = (gint64) rows_of (work, entry),
    .dim = (gint64) entry->dim,
    .indices = work->ids,
    .n_indices = n_bags * entry->bag_rows,
    .n_bags = n_bags,
    .pooling = TPS_POOLING_SUM,
  };
}

static gdouble
bytes_of_bags (const Work *work, const Case *entry)
{
  TpsBags bags = bags_of (work, entry);
  gdouble row_bytes = (gdouble) entry->dim * tps_dtype_size (dtype_of (entry));

  return (gdouble) bags.n_indices * (row_bytes + sizeof (gint64))
         + (gdouble) bags.n_bags * entry->dim * sizeof (gfloat);
}

/* Pools rows of the dtype of the case. */
static void
enqueue_pool (const Work *work, const Case *entry)
{
  TpsBags bags = bags_of (work, entry);

  work->ops->embedding_pool (work->stream, &bags, dtype_of (entry), values_of (work), work->a);
}

static gint64 *
n_found_of (const Work *work, const Case *entry)
{
  return work->found_ids + rows_of (work, entry);
}

static void
sum_bags (const Work *work, const Case *entry, gfloat *sums)
{
  TpsBags bags = bags_of (work, entry);

  work->ops->embedding_backward_rows (work->stream, &bags, work->b, work->found_ids, sums,
                                      n_found_of (work, entry));
}

static void
enqueue_backward_rows (const Work *work, const Case *entry)
{
  sum_bags (work, entry, work->a);
}

/* Runs the work of a push to a table: adds the gradients of equal ids, and updates the rows. The
 * sums are in the second half of the state; of the first half, the optimizer uses one float for
 * each row. */
static void
enqueue_push (const Work *work, const Case *entry)
{
  gfloat *sums = work->state + work->n_elems;

  sum_bags (work, entry, sums);
  update_rows (work, entry, work->found_ids, sums, n_found_of (work, entry));
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
#define UPDATE(label, columns, n_bytes, kind, spread, count)                                 \
  {                                                                                          \
    .name = label, .dim = columns, .bytes = count, .bytes_per_elem = n_bytes, .ids = spread, \
    .enqueue = enqueue_update, .to_reach = TARGET, .optimizer = kind                         \
  }
#define HALF_ROWS(label, n_bytes, type, kind, count, ...)                                   \
  {                                                                                         \
    .name = label, .dim = 64, .bytes = count, .bytes_per_elem = n_bytes, .ids = IDS_SPREAD, \
    .enqueue = enqueue_update, .to_reach = TARGET, .optimizer = kind, .dtype = type,        \
    .has_half_rows = TRUE, __VA_ARGS__                                                      \
  }
#define ROWS(label, columns, ...)                                 \
  {                                                               \
    .name = label, .dim = columns, .ids = IDS_SPREAD, __VA_ARGS__ \
  }
#define SKEWED(label, columns, ...)                             \
  {                                                             \
    .name = label, .dim = columns, .ids = IDS_ZIPF, __VA_ARGS__ \
  }
#define BAGS(length) \
  .bytes = bytes_of_bags, .enqueue = enqueue_pool, .to_reach = TARGET, .bag_rows = length

static const Case cases[] = {
  ELEMENTS ("copy", 1, 8, .enqueue = enqueue_copy),
  TARGETED ("accumulate", 12, .enqueue = enqueue_accumulate),
  HALVES ("accumulate float16", 10, TPS_DTYPE_FLOAT16, enqueue_accumulate),
  HALVES ("accumulate bfloat16", 10, TPS_DTYPE_BFLOAT16, enqueue_accumulate),
  TARGETED ("sgd", 12, .enqueue = enqueue_sgd),
  UPDATE ("row-wise adagrad, dim 64", 64, 12, TPS_OPTIMIZER_ROWWISE_ADAGRAD, IDS_SPREAD,
          bytes_rowwise),
  UPDATE ("row-wise adagrad, dim 128", 128, 12, TPS_OPTIMIZER_ROWWISE_ADAGRAD, IDS_SPREAD,
          bytes_rowwise),
  UPDATE ("adagrad of rows, dim 64", 64, 20, TPS_OPTIMIZER_ADAGRAD, IDS_SPREAD, bytes_update),
  UPDATE ("adam of rows, dim 64", 64, 28, TPS_OPTIMIZER_ADAM, IDS_SPREAD, bytes_update),
  UPDATE ("ftrl of rows, dim 64", 64, 28, TPS_OPTIMIZER_FTRL, IDS_SPREAD, bytes_update),
  HALF_ROWS ("row-wise adagrad, float16", 8, TPS_DTYPE_FLOAT16, TPS_OPTIMIZER_ROWWISE_ADAGRAD,
             bytes_rowwise),
  HALF_ROWS ("row-wise adagrad, bfloat16", 8, TPS_DTYPE_BFLOAT16, TPS_OPTIMIZER_ROWWISE_ADAGRAD,
             bytes_rowwise),
  HALF_ROWS ("row-wise, bf16 stochastic", 8, TPS_DTYPE_BFLOAT16, TPS_OPTIMIZER_ROWWISE_ADAGRAD,
             bytes_rowwise, .is_stochastic = TRUE),
  HALF_ROWS ("adam of rows, bfloat16", 24, TPS_DTYPE_BFLOAT16, TPS_OPTIMIZER_ADAM, bytes_update),
  HALF_ROWS ("adam, f16 stochastic", 24, TPS_DTYPE_FLOAT16, TPS_OPTIMIZER_ADAM, bytes_update,
             .is_stochastic = TRUE),
  ROWS ("gather, dim 64", 64, BAGS (1)),
  ROWS ("gather, dim 128", 128, BAGS (1)),
  SKEWED ("gather, dim 64, zipf", 64, BAGS (1)),
  ROWS ("gather bfloat16, dim 64", 64, BAGS (1), .dtype = TPS_DTYPE_BFLOAT16),
  ROWS ("pool of 20, dim 64", 64, BAGS (BAG_ROWS)),
  ROWS ("pool of 20, dim 128", 128, BAGS (BAG_ROWS)),
  ROWS ("pool of 20, bfloat16", 64, BAGS (BAG_ROWS), .dtype = TPS_DTYPE_BFLOAT16),
  SKEWED ("pool of 20, dim 64, zipf", 64, BAGS (BAG_ROWS)),
  ROWS ("pool's gradient, dim 64", 64, .bag_rows = GRADIENT_BAG_ROWS, .bytes = bytes_of_bags,
        .enqueue = enqueue_backward_rows, .finds_ids = TRUE),
  SKEWED ("push, dim 64, zipf", 64, .bag_rows = 1, .bytes = bytes_push, .enqueue = enqueue_push,
          .to_reach = PUSH_TARGET, .optimizer = TPS_OPTIMIZER_ROWWISE_ADAGRAD, .finds_ids = TRUE),
  TARGETED ("fill", 4, .enqueue = enqueue_fill),
  HALVES ("cast to float16", 6, TPS_DTYPE_FLOAT16, enqueue_cast),
  HALVES ("cast to bfloat16", 6, TPS_DTYPE_BFLOAT16, enqueue_cast),
  TARGETED ("scale", 8, .enqueue = enqueue_scale),
  HALVES ("scale float16", 6, TPS_DTYPE_FLOAT16, enqueue_scale),
  HALVES ("scale bfloat16", 6, TPS_DTYPE_BFLOAT16, enqueue_scale),
  TARGETED ("scale and accumulate", 12, .enqueue = enqueue_scale_accumulate),
  HALVES ("scale and add bfloat16", 10, TPS_DTYPE_BFLOAT16, enqueue_scale_accumulate),
  TARGETED ("divide", 8, .enqueue = enqueue_divide),
  HALVES ("divide to float16", 6, TPS_DTYPE_FLOAT16, enqueue_divide),
  HALVES ("divide to bfloat16", 6, TPS_DTYPE_BFLOAT16, enqueue_divide),
  TARGETED ("sgd, momentum", 20, .enqueue = enqueue_sgd, .momentum = 0.9),
  UPDATE ("adagrad", 64, 20, TPS_OPTIMIZER_ADAGRAD, IDS_NONE, bytes_update),
  UPDATE ("adam", 64, 28, TPS_OPTIMIZER_ADAM, IDS_NONE, bytes_update),
  UPDATE ("ftrl", 64, 28, TPS_OPTIMIZER_FTRL, IDS_NONE, bytes_update),
  ELEMENTS ("add bias", COLUMNS, 8, .enqueue = enqueue_bias_add, .to_reach = TARGET),
  ELEMENTS ("sum of columns", COLUMNS, 4, .enqueue = enqueue_column_sum),
  TARGETED ("relu", 8, .enqueue = enqueue_relu),
  TARGETED ("relu's gradient", 12, .enqueue = enqueue_relu_backward),
  ELEMENTS ("softmax", COLUMNS, 8, .enqueue = enqueue_softmax, .tolerance = 1e-4),
  ELEMENTS ("softmax's gradient", COLUMNS, 12, .enqueue = enqueue_softmax_backward,
            .tolerance = 1e-3),
  ELEMENTS ("cross-entropy", COLUMNS, 8, .enqueue = enqueue_cross_entropy, .tolerance = 1e-3,
            .ids = IDS_CLASSES),
  ELEMENTS ("cross-entropy with loss", COLUMNS, 8, .enqueue = enqueue_cross_entropy,
            .tolerance = 1e-3, .ids = IDS_CLASSES, .has_loss = TRUE),
  ELEMENTS ("l1 loss", 1, 12, .enqueue = enqueue_l1_loss),
  ELEMENTS ("l1 with loss", 1, 12, .enqueue = enqueue_l1_loss, .has_loss = TRUE),
  ELEMENTS ("product of matrices", 1, 12, .enqueue = enqueue_gemm, .tolerance = 1e-4),
};


/* -- arrays -- */

static void
work_clear (Work *work)
{
  while (work->n_buffers > 0)
    tps_buffer_unref (work->buffers[--work->n_buffers]);
  if (work->stream != NULL)
    work->ops->stream_free (work->stream);
  work->stream = NULL;
}

/* Returns an array on the device that repeats the `n_host` bytes of `host`; NULL = not filled. */
static gpointer
make_array (Work *work, gconstpointer host, gsize n_host, gsize n_bytes, GError **error)
{
  TpsBuffer *buffer = work->ops->alloc (work->device, n_bytes, error);
  g_autoptr (TpsBuffer) source = NULL;
  guint8 *bytes;

  if (buffer == NULL)
    return NULL;
  work->buffers[work->n_buffers++] = buffer;
  bytes = tps_buffer_get_data (buffer);
  if (host == NULL)
    return bytes;
  n_host = MIN (n_host, n_bytes);
  source = work->ops->alloc_host (work->device, n_host, error);
  if (source == NULL)
    return NULL;
  memcpy (tps_buffer_get_data (source), host, n_host);
  work->ops->copy (work->stream, bytes, tps_buffer_get_data (source), n_host);
  for (gsize n_done = n_host, n; n_done < n_bytes; n_done += n)
    {
      n = MIN (n_done, n_bytes - n_done);
      work->ops->copy (work->stream, bytes + n_done, bytes, n);
    }
  return work->ops->stream_sync (work->stream, error) ? bytes : NULL;
}

static gfloat *
make_floats (Work *work, gsize n_elems, guint seed, GError **error)
{
  gfloat host[PERIOD];

  for (gsize i = 0; i < PERIOD; i++)
    host[i] = (gfloat) ((i * 2654435761u + seed) % 10007) / 10007 + 0.001f;
  return make_array (work, host, sizeof host, n_elems * sizeof (gfloat), error);
}

/* Makes the ids, and counts the different ones. */
static gboolean
make_ids (Work *work, const Case *entry, GError **error)
{
  gsize n = entry->ids == IDS_NONE ? 0 : rows_of (work, entry), n_bytes = (n + 1) * sizeof (gint64);
  g_autofree gint64 *ids = g_new0 (gint64, n + 1);
  g_autofree guint8 *is_there = g_new0 (guint8, MAX (n, entry->dim));
  TpsZipf zipf;
  TpsRng rng;

  tps_zipf_init (&zipf, (gint64) MAX (n, 1), EXPONENT);
  tps_rng_init (&rng, 1, 0);
  for (gsize i = 0; i < n; i++)
    {
      gsize id = entry->ids == IDS_ZIPF      ? (gsize) tps_zipf_draw (&zipf, &rng)
                 : entry->ids == IDS_CLASSES ? i % N_CLASSES
                                             : i;

      /* An odd factor spreads ids over the rows. */
      ids[i] = (gint64) (id * 0x9e3779b1u % (entry->ids == IDS_CLASSES ? entry->dim : n));
      work->n_different_ids += is_there[ids[i]] == 0;
      is_there[ids[i]] = 1;
    }
  work->ids = make_array (work, ids, n_bytes, n_bytes, error);
  work->found_ids = work->ids != NULL ? make_array (work, NULL, 0, n_bytes, error) : NULL;
  return work->found_ids != NULL;
}

static gboolean
make_halves (Work *work, const Case *entry, GError **error)
{
  gsize n_bytes = entry->dtype != 0 ? work->n_elems * tps_dtype_size (entry->dtype) : 0;

  if (n_bytes == 0)
    return TRUE;
  work->halves = make_array (work, NULL, 0, n_bytes, error);
  if (work->halves == NULL)
    return FALSE;
  if (entry->has_half_rows)
    {
      work->ops->cast (work->stream, entry->dtype, work->halves, TPS_DTYPE_FLOAT32, work->a,
                       work->n_elems);
      work->ops->copy (work->stream, work->a, work->halves, n_bytes);
    }
  work->ops->cast (work->stream, entry->dtype, work->halves, TPS_DTYPE_FLOAT32, work->b,
                   work->n_elems);
  return TRUE;
}

/* Allocates and fills the arrays of `n_elems` elements. */
static gboolean
work_init (Work *work, TpsDevice *device, gsize n_elems, const Case *entry, GError **error)
{
  *work = (Work) { .device = device, .ops = device->ops, .n_elems = n_elems };
  work->stream = device->ops->stream_new (device, error);
  if (work->stream == NULL)
    return FALSE;
  work->dense = tps_dense_ops (work->stream);
  return (work->a = make_floats (work, n_elems, 1, error)) != NULL
         && (work->b = make_floats (work, n_elems, 2, error)) != NULL
         && (work->state = make_floats (work, n_elems * 2, 3, error)) != NULL
         && (work->loss = make_array (work, NULL, 0, sizeof (gdouble), error)) != NULL
         && make_halves (work, entry, error) && make_ids (work, entry, error);
}

/* Returns TRUE if the device has memory for all arrays of a case with `n_elems` elements. */
static gboolean
has_memory_for (TpsDevice *device, gsize n_elems)
{
  TpsBuffer *arrays[7] = { NULL };
  gboolean is_enough = TRUE;

  for (guint i = 0; i < G_N_ELEMENTS (arrays) && is_enough; i++)
    {
      arrays[i] = device->ops->alloc (device, n_elems * sizeof (gfloat), NULL);
      is_enough = arrays[i] != NULL;
    }
  for (guint i = 0; i < G_N_ELEMENTS (arrays); i++)
    g_clear_pointer (&arrays[i], tps_buffer_unref);
  return is_enough;
}

/* -- results -- */

/* The results of CHECK_ELEMS elements. */
typedef struct
{
  gfloat *floats; /* `a`, then `state`; owned, like the ids */
  gint64 *ids;    /* [CHECK_ELEMS / dim + 1], the ids found and their number */
  gdouble loss;
} Results;

static void
results_clear (Results *results)
{
  g_free (results->floats);
  g_free (results->ids);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Results, results_clear)

/* Runs the operation once. */
static gboolean
results_init (Results *results, TpsDevice *device, const Case *entry, GError **error)
{
  gsize n = CHECK_ELEMS, n_ids = n / entry->dim + 1;
  Work work;
  gboolean is_done = work_init (&work, device, n, entry, error);

  *results = (Results) { .floats = g_new0 (gfloat, n * 3), .ids = g_new0 (gint64, n_ids) };
  if (is_done)
    {
      entry->enqueue (&work, entry);
      work.ops->copy (work.stream, results->floats, work.a, n * sizeof (gfloat));
      work.ops->copy (work.stream, results->floats + n, work.state, 2 * n * sizeof (gfloat));
      if (entry->finds_ids)
        work.ops->copy (work.stream, results->ids, work.found_ids, n_ids * sizeof (gint64));
      if (entry->has_loss)
        work.ops->copy (work.stream, &results->loss, work.loss, sizeof results->loss);
      is_done = work.ops->stream_sync (work.stream, error);
    }
  work_clear (&work);
  return is_done;
}

static gboolean
is_right (const Case *entry, const gfloat *wanted, const gfloat *got)
{
  if (entry->tolerance == 0)
    return memcmp ((const guint8 *) wanted, (const guint8 *) got, sizeof *got) == 0;
  return fabs ((gdouble) *got - (gdouble) *wanted)
         <= entry->tolerance * (fabs ((gdouble) *wanted) + 1e-6);
}

/* Returns TRUE if both have found the same ids. Elements after the last id are undefined. */
static gboolean
are_equal_ids (const Results *wanted, const Results *got, gsize n_max)
{
  gint64 n = wanted->ids[n_max];

  return got->ids[n_max] == n && memcmp (wanted->ids, got->ids, (gsize) n * sizeof (gint64)) == 0;
}

/* Compares results of the device with those of the CPU, bit by bit where the bits are guaranteed.
 * Returns the number of results that differ; -1 with an error of the device. */
static gssize
check (TpsDevice *device, const Case *entry, GError **error)
{
  g_auto (Results) wanted = { 0 }, got = { 0 };
  gssize n_wrong;

  if (!results_init (&wanted, tps_device_find ("cpu", NULL), entry, error)
      || !results_init (&got, device, entry, error))
    return -1;
  n_wrong = !(fabs (got.loss - wanted.loss) <= LOSS_TOLERANCE * fabs (wanted.loss))
            + !are_equal_ids (&wanted, &got, CHECK_ELEMS / entry->dim);
  for (gsize i = 0; i < 3 * CHECK_ELEMS; i++)
    n_wrong += !is_right (entry, &wanted.floats[i], &got.floats[i]);
  return n_wrong;
}

/* -- time -- */

/* The parameters of a measurement. */
typedef struct
{
  gsize n_elems;
  gint n_rounds;
  gint64 warm_up_ns;
} Plan;

static gint
compare_times (gconstpointer a, gconstpointer b)
{
  gdouble left = *(const gdouble *) a, right = *(const gdouble *) b;

  return left < right ? -1 : left > right;
}

static gboolean
time_once (const Work *work, const Case *entry, TpsEvent *events[2], gdouble *ms, GError **error)
{
  work->ops->event_record (events[0], work->stream);
  entry->enqueue (work, entry);
  work->ops->event_record (events[1], work->stream);
  return work->ops->stream_sync (work->stream, error)
         && work->ops->events_elapsed (events[0], events[1], ms, error);
}

/* Repeats the operation until the clock of the device has its usual rate, and then measures it. */
static gboolean
time_rounds (const Work *work, const Case *entry, const Plan *plan, TpsEvent *events[2],
             gdouble *median_ms, GError **error)
{
  gint64 end_ns = tps_clock_now_ns () + plan->warm_up_ns;
  gdouble ms[MAX_ROUNDS];

  do
    if (!time_once (work, entry, events, &ms[0], error))
      return FALSE;
  while (tps_clock_now_ns () < end_ns);
  for (gint n = 0; n < plan->n_rounds; n++)
    if (!time_once (work, entry, events, &ms[n], error))
      return FALSE;
  qsort (ms, (gsize) plan->n_rounds, sizeof ms[0], compare_times);
  *median_ms = ms[plan->n_rounds / 2];
  return TRUE;
}

static gboolean
measure_rate (const Work *work, const Case *entry, const Plan *plan, gdouble *gb_per_s,
              GError **error)
{
  TpsEvent *events[2] = { work->ops->event_new (work->device, error), NULL };
  gdouble ms = 0;
  gboolean is_done;

  if (events[0] != NULL)
    events[1] = work->ops->event_new (work->device, error);
  is_done = events[1] != NULL && time_rounds (work, entry, plan, events, &ms, error);
  for (guint i = 0; i < 2; i++)
    if (events[i] != NULL)
      work->ops->event_free (events[i]);
  *gb_per_s = entry->bytes (work, entry) / MAX (ms, 1e-6) / 1e6;
  return is_done;
}

typedef struct
{
  gdouble gb_per_s;
  gdouble copy_gb_per_s; /* mean of the copies before and after the operation */
  gssize n_wrong;        /* wrong results */
} Measurement;

static gboolean
measure (TpsDevice *device, const Case *entry, const Plan *plan, Measurement *result,
         GError **error)
{
  gdouble before = 0, after = 0;
  Work work = { 0 };
  gboolean is_done;

  is_done = (result->n_wrong = check (device, entry, error)) >= 0
            && work_init (&work, device, plan->n_elems, entry, error)
            && measure_rate (&work, &cases[0], plan, &before, error)
            && measure_rate (&work, entry, plan, &result->gb_per_s, error)
            && measure_rate (&work, &cases[0], plan, &after, error);
  result->copy_gb_per_s = (before + after) / 2;
  work_clear (&work);
  return is_done;
}

/* -- the table -- */

typedef struct
{
  gchar *device, *only;
  gint mib, n_rounds, n_skipped;
  gboolean is_smoke, is_list;
} Flags;

/* The cases with a required rate, and those that miss it. */
typedef struct
{
  guint n_required, n_behind;
  GString *behind;
} Verdict;

typedef enum
{
  RIGHT,
  WRONG,
  FAILED,
} Outcome;

/* Measures a case and prints its line. */
static Outcome
run_case (TpsDevice *device, const Case *entry, const Plan *plan, Verdict *verdict)
{
  g_autoptr (GError) error = NULL;
  Measurement result = { 0 };

  if (!measure (device, entry, plan, &result, &error))
    {
      printf ("%-28s %10s %8s %8.2f %8s  %s\n", entry->name, "-", "-", entry->to_reach, "-",
              error->message);
      return FAILED;
    }
  verdict->n_required += entry->to_reach > 0;
  if (result.gb_per_s < entry->to_reach * result.copy_gb_per_s)
    g_string_append_printf (verdict->behind, "%s %s",
                            verdict->n_behind++ > 0 ? ";" : "; not:", entry->name);
  printf ("%-28s %10.1f %8.3f %8.2f %8" G_GSSIZE_FORMAT "\n", entry->name, result.gb_per_s,
          result.gb_per_s / result.copy_gb_per_s, entry->to_reach, result.n_wrong);
  return result.n_wrong == 0 ? RIGHT : WRONG;
}

static gboolean
run_all (TpsDevice *device, const Flags *flags)
{
  Plan plan = { .n_elems = CHECK_ELEMS, .n_rounds = flags->n_rounds };
  Verdict verdict = { .behind = g_string_new (NULL) };
  Outcome outcome, worst = RIGHT;

  if (!flags->is_smoke)
    {
      plan.warm_up_ns = WARM_UP_NS;
      plan.n_elems = (gsize) 1 << (g_bit_storage ((gsize) flags->mib << 18) - 1);
      while (plan.n_elems > CHECK_ELEMS && !has_memory_for (device, plan.n_elems))
        plan.n_elems /= 2;
    }
  printf ("operation, %8" G_GSIZE_FORMAT " MiB      %10s %8s %8s %8s\n", plan.n_elems >> 18, "GB/s",
          "of copy", "reach", "wrong");
  for (guint i = (guint) flags->n_skipped; i < G_N_ELEMENTS (cases) && worst != FAILED; i++)
    if (flags->only == NULL || g_str_equal (flags->only, cases[i].name))
      {
        outcome = run_case (device, &cases[i], &plan, &verdict);
        worst = MAX (worst, outcome);
      }
  if (worst != FAILED)
    printf ("%u of %u operations reach their required rate%s\n",
            verdict.n_required - verdict.n_behind, verdict.n_required, verdict.behind->str);
  g_string_free (verdict.behind, TRUE);
  return worst == RIGHT;
}

/* Prints each operation and its required fraction of the copy's rate in the table's columns. */
static void
print_list (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    printf ("%-28s %8.2f\n", cases[i].name, cases[i].to_reach);
}

/* Checks --only: there must be an operation of that name. */
static gboolean
check_only (const Flags *flags, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    if (flags->only == NULL || g_str_equal (flags->only, cases[i].name))
      return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "--only=%s: no such operation; --list prints all", flags->only);
  return FALSE;
}

static gboolean
parse (Flags *flags, int *argc, char ***argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "device", 0, 0, G_OPTION_ARG_STRING, &flags->device, "device to measure (cuda:0)", "NAME" },
    { "mib", 0, 0, G_OPTION_ARG_INT, &flags->mib, "size of an array, a power of two (1024)", "N" },
    { "rounds", 0, 0, G_OPTION_ARG_INT, &flags->n_rounds,
      "measured rounds, of which the median counts (30)", "N" },
    { "skip", 0, 0, G_OPTION_ARG_INT, &flags->n_skipped, "operations to leave out, the first ones",
      "N" },
    { "only", 0, 0, G_OPTION_ARG_STRING, &flags->only, "the only operation to measure", "NAME" },
    { "list", 0, 0, G_OPTION_ARG_NONE, &flags->is_list, "print operations and required rates",
      NULL },
    { "smoke", 0, 0, G_OPTION_ARG_NONE, &flags->is_smoke, "small arrays", NULL },
    { 0 },
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("- operations against a copy");

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, argc, argv, error))
    return FALSE;
  if (flags->mib >= 1 && flags->mib <= 1 << 20 && flags->n_rounds >= 1
      && flags->n_rounds <= MAX_ROUNDS && flags->n_skipped >= 0)
    return check_only (flags, error);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "--mib=%d --rounds=%d --skip=%d: expected 1 to 1048576, 1 to %d, and at least 0",
               flags->mib, flags->n_rounds, flags->n_skipped, MAX_ROUNDS);
  return FALSE;
}

int
main (int argc, char **argv)
{
  Flags flags = { .mib = 1024, .n_rounds = 30 };
  g_autoptr (GError) error = NULL;
  TpsDevice *device;
  gint status = 0;

  setvbuf (stdout, NULL, _IOLBF, 0); /* line buffering, so that lines survive a kill */
  if (!parse (&flags, &argc, &argv, &error))
    status = 2;
  else if (flags.is_list)
    print_list ();
  else if ((device = tps_device_find (flags.device != NULL ? flags.device : "cuda:0", &error))
           == NULL)
    status = 3;
  else if (!run_all (device, &flags))
    status = 1;
  if (error != NULL)
    fprintf (stderr, "device_ops: %s\n", error->message);
  g_free (flags.device);
  g_free (flags.only);
  return status;
}
