/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/device/device.h"

#include "cuda/device/blas.h"

static TpsCudaDevice *
device_of (TpsCudaStream *stream)
{
  return (TpsCudaDevice *) stream->parent.device;
}

static gboolean
start (TpsCudaStream *stream, GError **error)
{
  TpsCudaDevice *device = device_of (stream);

  return tps_cuda_device_check (device,
                                cudaStreamCreateWithFlags (&stream->handle, cudaStreamNonBlocking),
                                "new stream", error)
         && tps_cuda_device_check (
             device, cudaMalloc ((void **) &stream->count, sizeof stream->count[0]), "count", error)
         && tps_cuda_device_check (device,
                                   cudaHostAlloc ((void **) &stream->host_count,
                                                  sizeof stream->host_count[0],
                                                  cudaHostAllocPortable),
                                   "host's count", error);
}

TpsStream *
tps_cuda_stream_new (TpsDevice *base, GError **error)
{
  TpsCudaStream *stream;

  if (!tps_cuda_device_enter ((TpsCudaDevice *) base, error))
    return NULL;
  stream = g_new0 (TpsCudaStream, 1);
  stream->parent.device = base;
  if (start (stream, error))
    return &stream->parent;
  tps_cuda_stream_free (&stream->parent);
  return NULL;
}

/* On a dead device nothing can be given back. */
static void
release (TpsCudaStream *stream)
{
  if (stream->handle != NULL)
    cudaStreamSynchronize (stream->handle);
  if (stream->cublas != NULL)
    tps_cuda_blas_handle_free (stream->cublas);
  cudaFree (stream->count);
  cudaFreeHost (stream->host_count);
  if (stream->handle != NULL)
    cudaStreamDestroy (stream->handle);
  cudaGetLastError (); /* dropped */
}

void
tps_cuda_stream_free (TpsStream *base)
{
  TpsCudaStream *stream = (TpsCudaStream *) base;

  if (tps_cuda_device_enter (device_of (stream), NULL))
    release (stream);
  g_clear_error (&stream->error);
  g_free (stream);
}

void
tps_cuda_stream_fail (TpsCudaStream *stream, GError *error)
{
  if (stream->error == NULL)
    stream->error = error;
  else
    g_error_free (error);
}

gboolean
tps_cuda_stream_check (TpsCudaStream *stream, cudaError_t code, const gchar *what)
{
  GError *error = NULL;

  if (tps_cuda_device_check (device_of (stream), code, what, &error))
    return TRUE;
  tps_cuda_stream_fail (stream, error);
  return FALSE;
}

gboolean
tps_cuda_stream_enter (TpsCudaStream *stream)
{
  GError *error = NULL;

  if (stream->error != NULL)
    return FALSE;
  if (tps_cuda_device_enter (device_of (stream), &error))
    return TRUE;
  tps_cuda_stream_fail (stream, error);
  return FALSE;
}

gboolean
tps_cuda_stream_sync (TpsStream *base, GError **error)
{
  TpsCudaStream *stream = (TpsCudaStream *) base;

  if (tps_cuda_stream_enter (stream)
      && tps_cuda_stream_check (stream, cudaStreamSynchronize (stream->handle),
                                "waiting for a stream"))
    return TRUE;
  g_propagate_error (error, g_error_copy (stream->error));
  return FALSE;
}

gsize
tps_cuda_stream_read_count (TpsCudaStream *stream, const gchar *what)
{
  if (stream->error != NULL
      || !tps_cuda_stream_check (stream,
                                 cudaMemcpyAsync (stream->host_count, stream->count,
                                                  sizeof stream->count[0], cudaMemcpyDeviceToHost,
                                                  stream->handle),
                                 what)
      || !tps_cuda_stream_check (stream, cudaStreamSynchronize (stream->handle), what))
    return 0;
  return (gsize) *stream->host_count;
}
