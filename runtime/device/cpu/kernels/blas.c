/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* OpenBLAS is loaded when it is first used, and never linked. Clients, and servers that only
 * average, do not need its 37 MB. */

#include "runtime/device/cpu/kernels/blas.h"

#include <cblas.h>

#include "runtime/base/module.h"
#include "runtime/base/sync.h"
#include "runtime/base/trace.h"
#include "runtime/device/cpu/kernels/plain_gemm.h"
#include "runtime/device/cpu/kernels/skinny_gemm.h"

#define LIBRARY_NAME "libopenblas.so.0"

static TpsTraceEvent blas_missing = TPS_TRACE_EVENT ("blas_missing", TPS_TRACE_WARNING);

/* If the result has at most this many rows and b is not transposed, OpenBLAS is faster on the
 * transposed problem. The large operand b comes first there, as the kernels of OpenBLAS prefer.
 * Measured for m = 32 and n = k = 1024: 7.4 ms instead of 10 ms. */
#define MAX_ROWS_TO_TRANSPOSE 64
#define MIN_COLUMNS_TO_TRANSPOSE 256

/* The functions of the library. All of them are NULL if it is not installed or lacks one of
 * them. */
typedef struct
{
  __typeof__ (cblas_sgemm) *sgemm;
  __typeof__ (openblas_set_num_threads) *set_num_threads;
  __typeof__ (openblas_get_num_threads) *get_num_threads;
  __typeof__ (openblas_get_config) *get_config;
} Blas;

static Blas loaded;

#define FIND(field, name) tps_module_find (handle, name, &found.field, sizeof found.field)

static void
load (void)
{
  const gchar *const paths[] = { LIBRARY_NAME, NULL };
  g_autoptr (GString) reasons = g_string_new (NULL);
  void *handle = tps_module_open (paths, reasons);
  Blas found = { NULL };

  if (handle != NULL && FIND (sgemm, "cblas_sgemm")
      && FIND (set_num_threads, "openblas_set_num_threads")
      && FIND (get_num_threads, "openblas_get_num_threads")
      && FIND (get_config, "openblas_get_config"))
    loaded = found;
  else
    tps_trace (&blas_missing, tps_field_text ("library", LIBRARY_NAME),
               tps_field_text ("reason", reasons->str));
}

static const Blas *
get_blas (void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  tps_sync_check (pthread_once (&once, load));
  return &loaded;
}

static blasint
to_blasint (gsize value)
{
  g_assert (value <= G_MAXINT32);
  return (blasint) value;
}

static void
product (const TpsGemm *gemm)
{
  const Blas *blas = get_blas ();
  blasint lda = to_blasint (MAX (1, gemm->transpose_a ? gemm->m : gemm->k));
  blasint ldb = to_blasint (MAX (1, gemm->transpose_b ? gemm->k : gemm->n));

  if (blas->sgemm == NULL)
    {
      tps_cpu_plain_gemm (gemm);
      return;
    }
  blas->sgemm (CblasRowMajor, gemm->transpose_a ? CblasTrans : CblasNoTrans,
               gemm->transpose_b ? CblasTrans : CblasNoTrans, to_blasint (gemm->m),
               to_blasint (gemm->n), to_blasint (gemm->k), gemm->alpha, gemm->a, lda, gemm->b, ldb,
               gemm->beta, gemm->c, to_blasint (gemm->n));
}

/* Sets c [m, n] to the transpose of t [n, m]. */
static void
transpose (gfloat *c, const gfloat *t, gsize m, gsize n)
{
  for (gsize j = 0; j < n; j++)
    for (gsize i = 0; i < m; i++)
      c[i * n + j] = t[j * m + i];
}

/* Computes c = op (a) b as the transpose of b' op (a)', where ' is the transpose. */
static void
product_transposed (const TpsGemm *gemm)
{
  g_autoptr (TpsBuffer) scratch = tps_buffer_new (gemm->m * gemm->n * sizeof (gfloat));
  TpsGemm swapped = {
    .transpose_a = TRUE,
    .transpose_b = !gemm->transpose_a,
    .m = gemm->n,
    .n = gemm->m,
    .k = gemm->k,
    .alpha = gemm->alpha,
    .a = gemm->b,
    .b = gemm->a,
    .c = (gfloat *) (gpointer) tps_buffer_get_data (scratch),
  };

  product (&swapped);
  transpose (gemm->c, swapped.c, gemm->m, gemm->n);
}

void
tps_cpu_gemm (const TpsGemm *gemm)
{
  if (gemm->m == 0 || gemm->n == 0 || tps_cpu_skinny_gemm (gemm))
    return;
  if (gemm->beta == 0 && !gemm->transpose_b && gemm->m <= MAX_ROWS_TO_TRANSPOSE
      && gemm->n >= MIN_COLUMNS_TO_TRANSPOSE && gemm->k >= MIN_COLUMNS_TO_TRANSPOSE)
    product_transposed (gemm);
  else
    product (gemm);
}

void
tps_blas_set_num_threads (guint n_threads)
{
  const Blas *blas = get_blas ();

  if (blas->set_num_threads != NULL)
    blas->set_num_threads ((int) MAX (1, n_threads));
}

guint
tps_blas_get_num_threads (void)
{
  const Blas *blas = get_blas ();

  return blas->get_num_threads != NULL ? (guint) blas->get_num_threads () : 1;
}

const gchar *
tps_blas_get_version (void)
{
  const Blas *blas = get_blas ();

  return blas->get_config != NULL ? blas->get_config () : "no OpenBLAS";
}
