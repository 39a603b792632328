/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/gloo/gloo_ports.h"

#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>

#include "runtime/trainer/group/gloo/gloo_join_store.h"

namespace tps {

namespace {

namespace tcp = gloo::transport::tcp;

/* A device with variable port: a pair listens, when it is created, on the current address of its
 * device. */
class RangeDevice : public tcp::Device
{
public:
  RangeDevice (const tcp::attr &attr, uint16_t first, uint16_t last)
      : tcp::Device (attr), first_ (first), last_ (last)
  {
  }

  std::shared_ptr<gloo::transport::Context> createContext (int rank, int size) override;

  /* Pairs that are created later listen on this port. Gloo's attribute is const, so a changed copy
   * replaces it. */
  void
  set_port (uint16_t port)
  {
    tcp::attr changed (attr_);
    const uint16_t wire = GUINT16_TO_BE (port);
    tcp::attr *place = const_cast<tcp::attr *> (&attr_);

    /* The same for IPv4 and IPv6: the port follows the family, most significant byte first. */
    memcpy (reinterpret_cast<char *> (&changed.ai_addr) + sizeof changed.ai_addr.ss_family, &wire,
            sizeof wire);
    place->~attr ();
    new (place) tcp::attr (changed);
  }

  uint16_t
  first () const
  {
    return first_;
  }

  uint16_t
  last () const
  {
    return last_;
  }

private:
  const uint16_t first_;
  const uint16_t last_;
};

/* The device's own context, except that its pairs listen on ports of the range. */
class RangeContext : public gloo::transport::Context
{
public:
  RangeContext (RangeDevice *device, std::shared_ptr<gloo::transport::Context> pairs)
      : gloo::transport::Context (pairs->rank, pairs->size), device_ (device),
        pairs_of_device_ (std::move (pairs)), next_ (device->first ())
  {
  }

  std::unique_ptr<gloo::transport::Pair> &
  getPair (int peer) override
  {
    return pairs_of_device_->getPair (peer);
  }

  std::unique_ptr<gloo::transport::UnboundBuffer>
  createUnboundBuffer (void *data, size_t n_bytes) override
  {
    return pairs_of_device_->createUnboundBuffer (data, n_bytes);
  }

  /* Uses the next free port, because other processes of this host use the same range. */
  std::unique_ptr<gloo::transport::Pair> &
  createPair (int peer) override
  {
    std::string why = "all are taken by the other ranks";

    pairs_of_device_->setTimeout (getTimeout ());
    for (; next_ <= device_->last (); next_++)
      {
        try
          {
            device_->set_port (static_cast<uint16_t> (next_));
            auto &pair = pairs_of_device_->createPair (peer);
            next_++;
            return pair;
          }
        catch (const std::exception &e)
          {
            why = e.what ();
          }
      }
    throw Failure (TPS_ERROR_UNAVAILABLE,
                   "no port is left in " + std::to_string (device_->first ()) + "-"
                       + std::to_string (device_->last ())
                       + " for the process group, which listens on one for each other rank: "
                       + why);
  }

private:
  RangeDevice *device_; /* kept alive by pairs_of_device_ */
  std::shared_ptr<gloo::transport::Context> pairs_of_device_;
  uint32_t next_;
};

std::shared_ptr<gloo::transport::Context>
RangeDevice::createContext (int rank, int size)
{
  return std::make_shared<RangeContext> (this, tcp::Device::createContext (rank, size));
}

} /* namespace */

std::shared_ptr<gloo::transport::Device>
make_gloo_device (const TpsProcessGroupOptions *options)
{
  tcp::attr attr (options->host == nullptr ? "127.0.0.1" : options->host);

  if (options->first_port == 0)
    return tcp::CreateDevice (attr);
  return std::make_shared<RangeDevice> (tcp::CreateDeviceAttr (attr), options->first_port,
                                        options->last_port);
}

} /* namespace tps */
