/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* RocksDB with a synced log as a peer of //bench:durability.
 *
 *   rocksdb_push FOLDER ROWS DIM IDS CLIENTS
 *
 * The program has a table of ROWS rows of DIM floats in memory, and also stores every updated row
 * in RocksDB. A push adds 1 to IDS random rows and writes them as one batch. The batch must be on
 * the disk before the next push of the client. RocksDB commits batches of several clients together.
 * Two simplifications favour the peer: no data travel over a network, and each client has its own
 * rows, so clients do not wait for each other's locks.
 *
 * The program prints "RocksDB VERSION". For each line "SECONDS", its clients push for that time. It
 * replies "ok" with the start and the end of each push in ns, or an error text. */

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/version.h>
#include <rocksdb/write_batch.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Shape
{
  size_t n_rows, dim, n_ids, n_clients;
};

struct Call
{
  int64_t begin_ns, end_ns;
};

int64_t
now_ns ()
{
  return std::chrono::duration_cast<std::chrono::nanoseconds> (
             std::chrono::steady_clock::now ().time_since_epoch ())
      .count ();
}

/* A client, which owns the rows number, number + n_clients, … */
class Client
{
public:
  Client (rocksdb::DB *db, const Shape &shape, std::vector<float> *table, size_t number)
      : db_ (db), shape_ (shape), table_ (table), number_ (number), dice_ (number)
  {
    options_.sync = true;
  }

  void
  PushUntil (int64_t end_ns)
  {
    calls.clear ();
    while (failure.empty () && now_ns () < end_ns)
      {
        Call call = { now_ns (), 0 };

        Push ();
        call.end_ns = now_ns ();
        calls.push_back (call);
      }
  }

  /* Compares some rows of the database with the rows in memory. */
  bool
  IsStored ()
  {
    for (size_t i = 0; i < 1000; i++)
      {
        uint64_t row = dice_ () % shape_.n_rows;
        const char *elements = reinterpret_cast<const char *> (&(*table_)[row * shape_.dim]);
        std::string expected (elements, shape_.dim * sizeof (float)), found;
        rocksdb::Status status = db_->Get (
            {}, rocksdb::Slice (reinterpret_cast<const char *> (&row), sizeof row), &found);

        if (status.ok () ? found != expected : (*table_)[row * shape_.dim] > 0)
          return false;
      }
    return true;
  }

  std::vector<Call> calls;
  std::string failure;

private:
  void
  Push ()
  {
    size_t n_own = (shape_.n_rows - number_ + shape_.n_clients - 1) / shape_.n_clients;
    rocksdb::WriteBatch batch;

    for (size_t i = 0; i < shape_.n_ids; i++)
      {
        uint64_t row = dice_ () % n_own * shape_.n_clients + number_;
        float *elements = &(*table_)[row * shape_.dim];

        for (size_t j = 0; j < shape_.dim; j++)
          elements[j] += 1;
        batch.Put (rocksdb::Slice (reinterpret_cast<const char *> (&row), sizeof row),
                   rocksdb::Slice (reinterpret_cast<const char *> (elements),
                                   shape_.dim * sizeof (float)));
      }
    rocksdb::Status status = db_->Write (options_, &batch);

    if (!status.ok ())
      failure = status.ToString ();
  }

  rocksdb::DB *db_;
  Shape shape_;
  std::vector<float> *table_;
  size_t number_;
  std::mt19937_64 dice_;
  rocksdb::WriteOptions options_;
};

std::string
run (std::vector<Client> &clients, double seconds)
{
  int64_t end_ns = now_ns () + static_cast<int64_t> (seconds * 1e9);
  std::vector<std::thread> threads;
  std::string answer = "ok";

  for (Client &client : clients)
    threads.emplace_back ([&client, end_ns] { client.PushUntil (end_ns); });
  for (std::thread &thread : threads)
    thread.join ();
  for (const Client &client : clients)
    {
      if (!client.failure.empty ())
        return client.failure;
      for (const Call &call : client.calls)
        answer += " " + std::to_string (call.begin_ns) + " " + std::to_string (call.end_ns);
    }
  if (!clients[0].IsStored ())
    return "the database has other rows than the table";
  return answer;
}

} // namespace

int
main (int argc, char **argv)
{
  rocksdb::Options options;
  rocksdb::DB *opened = nullptr;

  if (argc != 6)
    {
      std::cerr << "usage: rocksdb_push FOLDER ROWS DIM IDS CLIENTS\n";
      return 2;
    }
  Shape shape = { strtoull (argv[2], nullptr, 10), strtoull (argv[3], nullptr, 10),
                  strtoull (argv[4], nullptr, 10), strtoull (argv[5], nullptr, 10) };

  options.create_if_missing = true;
  options.IncreaseParallelism (2);
  options.compression = rocksdb::kNoCompression;
  rocksdb::Status status = rocksdb::DB::Open (options, argv[1], &opened);
  std::unique_ptr<rocksdb::DB> db (opened);

  if (!status.ok ())
    {
      std::cerr << "rocksdb_push: " << status.ToString () << "\n";
      return 1;
    }
  std::vector<float> table (shape.n_rows * shape.dim);
  std::vector<Client> clients;

  for (size_t i = 0; i < shape.n_clients; i++)
    clients.emplace_back (db.get (), shape, &table, i);
  std::cout << "RocksDB " << rocksdb::GetRocksVersionAsString () << std::endl;
  for (std::string line; std::getline (std::cin, line);)
    std::cout << run (clients, atof (line.c_str ())) << std::endl;
  return 0;
}
