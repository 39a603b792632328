/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Counts the kernels of small pushes to a table and measures their times. It needs a GPU. The count
 * comes from a capture of the stream and includes all kernels of CUB, whose calls may launch
 * several. `enqueue` is the host's time to enqueue a push. `push` is the time of one push if many
 * are enqueued. If both times are equal, the host is the limit. Exit code: 3, with the reason in
 * the last line, if there is no GPU; 1 after an error. */

#include <chrono>
#include <cstdio>

#include "tests/cuda/push_step.h"

namespace {

constexpr int kWarmUp = 50;
constexpr int kRounds = 1000;

struct Measured
{
  int n_kernels, n_others;
  double enqueue_us, push_us;
};

double
now_us ()
{
  return std::chrono::duration<double, std::micro> (
             std::chrono::steady_clock::now ().time_since_epoch ())
      .count ();
}

/* Counts the nodes of the graph that the stream would execute. */
cudaError_t
count_nodes (cudaGraph_t graph, Measured *measured)
{
  size_t n_nodes = 0;
  cudaError_t code = cudaGraphGetNodes (graph, nullptr, &n_nodes);
  std::vector<cudaGraphNode_t> nodes (n_nodes);

  if (code == cudaSuccess && n_nodes > 0)
    code = cudaGraphGetNodes (graph, nodes.data (), &n_nodes);
  for (size_t i = 0; i < n_nodes && code == cudaSuccess; i++)
    {
      cudaGraphNodeType type;

      code = cudaGraphNodeGetType (nodes[i], &type);
      (type == cudaGraphNodeTypeKernel ? measured->n_kernels : measured->n_others)++;
    }
  return code;
}

cudaError_t
count (push_step::Push *push, cudaStream_t stream, Measured *measured)
{
  cudaGraph_t graph = nullptr;
  cudaError_t code = cudaStreamBeginCapture (stream, cudaStreamCaptureModeRelaxed), ended;

  if (code != cudaSuccess)
    return code;
  code = push->enqueue (stream);
  ended = cudaStreamEndCapture (stream, &graph);
  if (code == cudaSuccess)
    code = ended;
  if (code == cudaSuccess)
    code = count_nodes (graph, measured);
  if (graph != nullptr)
    cudaGraphDestroy (graph);
  return code;
}

cudaError_t
time_pushes (push_step::Push *push, cudaStream_t stream, int n, Measured *measured)
{
  cudaError_t code = cudaStreamSynchronize (stream);
  double start = now_us (), enqueued;

  for (int i = 0; i < n && code == cudaSuccess; i++)
    code = push->enqueue (stream);
  enqueued = now_us ();
  if (code == cudaSuccess)
    code = cudaStreamSynchronize (stream);
  measured->enqueue_us = (enqueued - start) / n;
  measured->push_us = (now_us () - start) / n;
  return code;
}

cudaError_t
measure (gsize n_ids, cudaStream_t stream, Measured *measured)
{
  push_step::Push push (n_ids);
  cudaError_t code = push.code ();

  if (code == cudaSuccess)
    code = count (&push, stream, measured);
  if (code == cudaSuccess)
    code = time_pushes (&push, stream, kWarmUp, measured);
  return code == cudaSuccess ? time_pushes (&push, stream, kRounds, measured) : code;
}

} /* namespace */

int
main ()
{
  int n_devices = 0;
  cudaStream_t stream;
  cudaError_t code = cudaGetDeviceCount (&n_devices);

  setvbuf (stdout, nullptr, _IOLBF, 0); /* flushes each line, so lines survive a kill */
  if (code != cudaSuccess || n_devices == 0)
    {
      printf ("SKIPPED: %s\n", code != cudaSuccess ? cudaGetErrorString (code) : "no device");
      return 3;
    }
  code = cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking);
  for (const auto &[n_ids, n_launches] : push_step::kPushes)
    {
      Measured measured = {};

      if (code == cudaSuccess)
        code = measure (n_ids, stream, &measured);
      if (code != cudaSuccess)
        {
          printf ("push of %zu x %zu: %s\n", (size_t) n_ids, (size_t) push_step::kDim,
                  cudaGetErrorString (code));
          return 1;
        }
      printf (
          "push of %zu x %zu: %d kernels for %d launches, %d other nodes, enqueue %.1f us, push "
          "%.1f us\n",
          (size_t) n_ids, (size_t) push_step::kDim, measured.n_kernels, n_launches,
          measured.n_others, measured.enqueue_us, measured.push_us);
    }
  return 0;
}
