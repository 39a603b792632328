/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Makes one call with a tensor that exceeds a frame, and measures its memory:
 *
 *   large_client init_model|get_model ADDRESS BYTES
 *
 * It checks every received element. If all are correct, it prints "peak_bytes N seconds T" and
 * exits with 0. The pushed tensor takes little memory, because it maps the same pages repeatedly.
 * Their number is prime, so exchanged chunks are detected. */

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "plugin/client/stubs.h"

namespace {

constexpr size_t PAGE_BYTES = 4096;
constexpr size_t PERIOD_BYTES = 4093 * PAGE_BYTES; /* 4093 is prime */

gint64
now_ns ()
{
  auto now = std::chrono::steady_clock::now ().time_since_epoch ();

  return std::chrono::nanoseconds (now).count ();
}

/* Returns the element at `index` of every large tensor. Copies and no-op arithmetic preserve its
 * bits. */
uint32_t
value_at (size_t index)
{
  return static_cast<uint32_t> (index % (PERIOD_BYTES / 4)) * 2654435761u & 0x3fffffff;
}

[[noreturn]] void
fail (const std::string &why)
{
  fprintf (stderr, "large_client: %s\n", why.c_str ());
  exit (1);
}

/* Maps `n_bytes` of the pattern, which take PERIOD_BYTES of memory. */
char *
map_pattern (size_t n_bytes)
{
  int fd = memfd_create ("pattern", MFD_CLOEXEC);
  auto space = static_cast<char *> (
      mmap (nullptr, n_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));

  if (fd < 0 || ftruncate (fd, PERIOD_BYTES) != 0 || space == MAP_FAILED)
    fail ("no memory for the pattern");
  for (size_t offset = 0; offset < n_bytes; offset += PERIOD_BYTES)
    if (mmap (space + offset, std::min (PERIOD_BYTES, n_bytes - offset), PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_FIXED, fd, 0)
        == MAP_FAILED)
      fail ("the pattern cannot be mapped");
  for (size_t i = 0; i < PERIOD_BYTES / 4; i++)
    reinterpret_cast<uint32_t *> (space)[i] = value_at (i);
  return space;
}

TpsClient *
connect_to (const char *address)
{
  TpsClientOptions options = {};
  g_autoptr (GError) error = nullptr;

  options.address = address;
  options.no_shared_memory = TRUE;
  TpsClient *client = tps_client_new (&options, &error);
  if (client == nullptr)
    fail (error->message);
  return client;
}

gint64
deadline ()
{
  return now_ns () + 900 * G_GINT64_CONSTANT (1000000000);
}

void
make_tensor (TpsTensor *tensor, size_t n_bytes)
{
  gint64 n_elems = static_cast<gint64> (n_bytes / 4);
  TpsShape shape;

  tps_shape_init (&shape, TPS_DTYPE_FLOAT32, 1, &n_elems, "shape", nullptr);
  tps_tensor_init_take (
      tensor, &shape,
      tps_buffer_new_foreign (map_pattern (n_bytes), n_bytes, nullptr, nullptr, nullptr), 0);
}

void
check_tensor (const TpsTensor *tensor, size_t n_bytes)
{
  auto values = static_cast<const uint32_t *> (tps_tensor_data (tensor));

  if (tps_shape_n_bytes (&tensor->shape) != n_bytes)
    fail ("another tensor came");
  for (size_t i = 0; i < n_bytes / 4; i++)
    if (values[i] != value_at (i))
      fail ("element " + std::to_string (i) + " is wrong");
}

void
init_model (TpsClient *client, size_t n_bytes)
{
  TpsNamedTensor parameter = {};
  TpsOptimizerSpec optimizer = {};
  g_autoptr (GError) error = nullptr;

  optimizer.kind = TPS_OPTIMIZER_SGD;
  optimizer.learning_rate = 0.1;
  parameter.name = const_cast<gchar *> ("large");
  make_tensor (&parameter.tensor, n_bytes);
  TpsInitModelArguments arguments = { 1, &parameter, optimizer };
  if (!tps_remote_init_model (client, &arguments, deadline (), &error))
    fail (error->message);
  tps_tensor_clear (&parameter.tensor);
}

void
get_model (TpsClient *client, size_t n_bytes)
{
  g_autoptr (GError) error = nullptr;
  g_autoptr (TpsModelVersion) model = tps_remote_get_model (client, deadline (), &error);

  if (model == nullptr)
    fail (error->message);
  check_tensor (&model->parameters[0].tensor, n_bytes);
}

size_t
get_peak_bytes ()
{
  FILE *status = fopen ("/proc/self/status", "r");
  size_t n_kib = 0;
  char line[256];

  while (status != nullptr && fgets (line, sizeof line, status) != nullptr)
    sscanf (line, "VmHWM: %zu", &n_kib);
  if (status != nullptr)
    fclose (status);
  return n_kib * 1024;
}

}

int
main (int argc, char **argv)
{
  gint64 began_ns = now_ns ();

  if (argc != 4)
    fail ("usage: large_client init_model|get_model ADDRESS BYTES");
  g_autoptr (TpsClient) client = connect_to (argv[2]);
  size_t n_bytes = strtoull (argv[3], nullptr, 10);
  const std::string what = argv[1];
  if (what == "init_model")
    init_model (client, n_bytes);
  else if (what == "get_model")
    get_model (client, n_bytes);
  else
    fail ("unknown: " + what);
  printf ("peak_bytes %zu seconds %.2f\n", get_peak_bytes (),
          static_cast<double> (now_ns () - began_ns) / 1e9);
  return 0;
}
