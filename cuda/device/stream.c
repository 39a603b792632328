/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/device/device.h"

#include "cuda/device/blas.h"
#include "runtime/base/sync.h"

/* A wait spins for this time before it sleeps, because a small operation takes less time than
 * waking a thread. */
#define SPIN_NS 20000

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
             device,
             cudaEventCreateWithFlags (&stream->reached,
                                       cudaEventBlockingSync | cudaEventDisableTiming),
             "event of a stream", error);
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

/* Waits for the queued work and releases the resources. On a lost device nothing can be released,
 * so this must not be called. */
static void
release (TpsCudaStream *stream)
{
  if (stream->handle != NULL)
    cudaStreamSynchronize (stream->handle);
  if (stream->cublas != NULL)
    tps_cuda_blas_handle_free (stream->cublas);
  if (stream->reached != NULL)
    cudaEventDestroy (stream->reached);
  if (stream->handle != NULL)
    cudaStreamDestroy (stream->handle);
  cudaGetLastError (); /* clears the error */
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

cudaError_t
tps_cuda_wait_for_event (cudaEvent_t event)
{
  gint64 until_ns = tps_clock_now_ns () + SPIN_NS;
  cudaError_t code;

  while ((code = cudaEventQuery (event)) == cudaErrorNotReady)
    {
      cudaGetLastError (); /* not an error */
      if (tps_clock_now_ns () >= until_ns)
        return cudaEventSynchronize (event);
    }
  return code;
}

/* Waits for all queued work, even if the stream has failed. Work that was queued before the failure
 * still runs, and uses memory that the caller may release next. */
static cudaError_t
wait_for_all (TpsCudaStream *stream)
{
  cudaError_t code = cudaEventRecord (stream->reached, stream->handle);

  if (code == cudaSuccess)
    return tps_cuda_wait_for_event (stream->reached);
  cudaStreamSynchronize (stream->handle);
  return code;
}

/* Returns FALSE and a copy of the failure if the stream has failed. */
static gboolean
report_failure (const TpsCudaStream *stream, GError **error)
{
  if (stream->error == NULL)
    return TRUE;
  g_propagate_error (error, g_error_copy (stream->error));
  return FALSE;
}

gboolean
tps_cuda_stream_sync (TpsStream *base, GError **error)
{
  TpsCudaStream *stream = (TpsCudaStream *) base;
  GError *lost = NULL;

  if (!tps_cuda_device_enter (device_of (stream), &lost))
    tps_cuda_stream_fail (stream, lost);
  else
    tps_cuda_stream_check (stream, wait_for_all (stream), "waiting for a stream");
  return report_failure (stream, error);
}

gboolean
tps_cuda_stream_check_failure (TpsStream *base, GError **error)
{
  TpsCudaStream *stream = (TpsCudaStream *) base;

  tps_cuda_stream_enter (stream); /* stores a failure if the device is lost */
  return report_failure (stream, error);
}
