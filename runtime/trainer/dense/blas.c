/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* OpenBLAS is loaded when it is first used, and never linked: only trainers need its 37 MB.
 *
 * libxsmm 1.17 was measured with the shapes of our models, on one thread of a processor with
 * AVX-512. The products of a step of DummyModel took the same time in sum: 3.1 ms. libxsmm needed
 * 1.3 to 1.6 times the time for the forward pass of small batches, whose right operand it must
 * transpose first, and 0.75 to 1 times for gradients. It has no threads of its own, calls another
 * BLAS for other cases, and Debian has only its static library. */

#include "runtime/trainer/dense/blas.h"

#include <cblas.h>

#include "runtime/base/module.h"
#include "runtime/base/sync.h"
#include "runtime/base/trace.h"

#define LIBRARY_NAME "libopenblas.so.0"

static TpsTraceEvent blas_missing = TPS_TRACE_EVENT ("blas_missing", TPS_TRACE_WARNING);

/* The functions of the library. NULL if it is not installed or lacks one of them. */
typedef struct
{
  __typeof__ (cblas_sgemm) *sgemm;
  __typeof__ (cblas_sgemv) *sgemv;
  __typeof__ (openblas_set_num_threads) *set_num_threads;
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

  if (handle != NULL && FIND (sgemm, "cblas_sgemm") && FIND (sgemv, "cblas_sgemv")
      && FIND (set_num_threads, "openblas_set_num_threads"))
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

/* Without the library: each sum is computed in double in the order of k, and rounded once. */
static void
plain_product (const TpsGemm *gemm)
{
  /* Distances between the rows and between the columns of op (a) and op (b), in elements. */
  gsize a_row = gemm->transpose_a ? 1 : gemm->k, a_column = gemm->transpose_a ? gemm->m : 1;
  gsize b_row = gemm->transpose_b ? 1 : gemm->n, b_column = gemm->transpose_b ? gemm->k : 1;

  for (gsize i = 0; i < gemm->m; i++)
    for (gsize j = 0; j < gemm->n; j++)
      {
        gfloat *c = &gemm->c[i * gemm->n + j];
        gdouble sum = 0;

        for (gsize p = 0; p < gemm->k; p++)
          sum += (gdouble) gemm->a[i * a_row + p * a_column] * gemm->b[p * b_row + j * b_column];
        *c = (gfloat) (gemm->alpha * sum + (gemm->beta != 0 ? gemm->beta * (gdouble) *c : 0));
      }
}

void
tps_cpu_gemm (TpsStream *stream, const TpsGemm *gemm)
{
  const Blas *blas = get_blas ();
  blasint lda = to_blasint (MAX (1, gemm->transpose_a ? gemm->m : gemm->k));
  blasint ldb = to_blasint (MAX (1, gemm->transpose_b ? gemm->k : gemm->n));

  if (gemm->m == 0 || gemm->n == 0)
    return;
  if (blas->sgemm == NULL)
    {
      plain_product (gemm);
      return;
    }
  if (gemm->m == 1 && gemm->k > 0) /* sgemm takes twice as long */
    {
      gsize rows = gemm->transpose_b ? gemm->n : gemm->k;
      gsize columns = gemm->transpose_b ? gemm->k : gemm->n;

      blas->sgemv (CblasRowMajor, gemm->transpose_b ? CblasNoTrans : CblasTrans, to_blasint (rows),
                   to_blasint (columns), gemm->alpha, gemm->b, ldb, gemm->a, 1, gemm->beta, gemm->c,
                   1);
      return;
    }
  blas->sgemm (CblasRowMajor, gemm->transpose_a ? CblasTrans : CblasNoTrans,
               gemm->transpose_b ? CblasTrans : CblasNoTrans, to_blasint (gemm->m),
               to_blasint (gemm->n), to_blasint (gemm->k), gemm->alpha, gemm->a, lda, gemm->b, ldb,
               gemm->beta, gemm->c, to_blasint (gemm->n));
}

void
tps_blas_set_num_threads (guint n_threads)
{
  const Blas *blas = get_blas ();

  if (blas->set_num_threads != NULL)
    blas->set_num_threads ((int) MAX (1, n_threads));
}
