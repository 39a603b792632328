/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/kernels/kernels.h"

namespace {

__global__ void
nothing ()
{
}

} /* namespace */

cudaError_t
tps_cuda_probe (void)
{
  cudaFuncAttributes attributes;

  return cudaFuncGetAttributes (&attributes, (const void *) nothing);
}

/* Machine code also runs on later minor versions of its generation. The last generation in the list
 * has PTX, which runs on all later generations. */
gboolean
tps_cuda_has_code_for (gint major, gint minor)
{
  static const gint generations[] = { __CUDA_ARCH_LIST__ }; /* 900 is 9.0; ascending */
  const gint device = 100 * major + 10 * minor;

  for (gint generation : generations)
    if (generation / 100 == major && generation <= device)
      return TRUE;
  return device >= generations[G_N_ELEMENTS (generations) - 1];
}
