// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// An embedding table in Node: pushes the gradient of a bag of words and looks the bag up.
//
//   NODE_PATH=MODULES:GENERATED node word_table.js HOST PORT

'use strict';

const crypto = require('crypto');
const thrift = require('thrift');
const EmbeddingTable = require('EmbeddingTable');
const { BagGradient, BagQuery, Initializer, InitializerKind, Pooling, TableSpec } =
  require('embedding_table_types');
const { DType, Optimizer, OptimizerKind, PushId, Tensor } = require('tensor_types');

function int64s(...values) {
  const data = Buffer.from(BigInt64Array.from(values.map(BigInt)).buffer);
  return new Tensor({ dtype: DType.INT64, shape: [values.length], data });
}

async function main(host, port) {
  const connection = thrift.createConnection(host, Number(port), {
    transport: thrift.TFramedTransport,
    protocol: thrift.TBinaryProtocol,
  });
  connection.on('error', (error) => {
    console.error(error.message);
    process.exit(1);
  });
  const multiplexer = new thrift.Multiplexer();
  const tables = multiplexer.createClient('EmbeddingTable', EmbeddingTable, connection);

  // This call also succeeds if the table exists with the same specification.
  await tables.create_table(new TableSpec({
    name: 'words',
    rows: 10000,
    dim: 4,
    dtype: DType.FLOAT32,
    initializer: new Initializer({ kind: InitializerKind.ZEROS }),
    optimizer: new Optimizer({ kind: OptimizerKind.SGD, learning_rate: 0.1 }),
  }));

  // One bag of three words; its gradient is 1 in every column. A push id consists of a client name,
  // which no other process may ever use, and a sequence number, which must grow with every push.
  const bag = new BagQuery({
    table: 'words', indices: int64s(3, 141, 59), offsets: int64s(0), pooling: Pooling.SUM,
  });
  const data = Buffer.from(Float32Array.of(1, 1, 1, 1).buffer);
  const ones = new Tensor({ dtype: DType.FLOAT32, shape: [1, 4], data });
  const gradient = new BagGradient({ query: bag, gradient: ones });
  const push = new PushId({ client: crypto.randomUUID(), sequence: 1 });
  await tables.apply_bag_gradients([gradient], push);

  const [pooled] = await tables.lookup_bags([bag]);
  const values = [0, 4, 8, 12].map((offset) => pooled.data.readFloatLE(offset).toFixed(1));
  console.log(values.join(' '));
  connection.end();
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
