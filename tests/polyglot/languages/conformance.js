// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// The conformance client for Node. README.md lists the checks.
//
//   NODE_PATH=MODULES:GENERATED node conformance.js HOST PORT TABLE

'use strict';

const assert = require('assert');
const thrift = require('thrift');
const Int64 = require('node-int64');
const EmbeddingTable = require('EmbeddingTable');
const ParameterServer = require('ParameterServer');
const table = require('embedding_table_types');
const node = require('node_types');
const types = require('tensor_types');

// Numbers in JavaScript are exact up to 2^53. An Int64 has all 64 bits.
const BATCH = new Int64(0x00200000, 0x00000001);
const LARGE = 5000000;

function tensor(dtype, shape, values) {
  // Typed arrays have the byte order of the machine, which must be little-endian.
  const data = Buffer.from(values.buffer);
  return new types.Tensor({ dtype, shape, data });
}

function floats(shape, ...values) {
  return tensor(types.DType.FLOAT32, shape, Float32Array.from(values));
}

function int64s(...values) {
  return tensor(types.DType.INT64, [values.length], BigInt64Array.from(values.map(BigInt)));
}

function filled(value) {
  return tensor(types.DType.FLOAT32, [LARGE], new Float32Array(LARGE).fill(value));
}

function expect(what, got, expected) {
  assert.strictEqual(got.dtype, expected.dtype, what);
  assert.deepStrictEqual(got.shape.map(Number), expected.shape, what);
  assert.ok(expected.data.equals(got.data), `${what}: wrong values`);
}

async function checkTable(tables, name) {
  await tables.create_table(new table.TableSpec({
    name,
    rows: 10,
    dim: 2,
    dtype: types.DType.FLOAT32,
    initializer: new table.Initializer({ kind: table.InitializerKind.ZEROS }),
    optimizer: new types.Optimizer({ kind: types.OptimizerKind.SGD, learning_rate: 1 }),
  }));
  const gradient = new types.SparseTensor({
    indices: int64s(3, 7), values: floats([2, 2], 1, 2, 3, 4), shape: [10, 2],
  });
  const push = new types.PushId({ client: name, sequence: BATCH });
  for (let i = 0; i < 2; i++) {
    await tables.apply_row_gradients(name, gradient, push);
  }

  const rows = await tables.lookup_rows(name, int64s(3, 7, 0));
  expect('rows', rows, floats([3, 2], -1, -2, -3, -4, 0, 0));
  const query = new table.BagQuery({
    table: name,
    indices: int64s(3, 7, 7),
    offsets: int64s(0, 1),
    pooling: table.Pooling.SUM,
  });
  const pooled = await tables.lookup_bags([query]);
  expect('bags', pooled[0], floats([2, 2], -1, -2, -6, -8));
}

async function checkError(tables) {
  await assert.rejects(
    tables.lookup_rows('missing', int64s(0)),
    (failure) => failure instanceof node.ServiceError
      && failure.code === node.ErrorCode.NOT_FOUND && failure.message.includes('missing'),
  );
}

async function checkAverage(server, paramLoc, values, expected) {
  const gradient = new types.Gradient({ dense: values });
  const average = await server.average_gradient(1, BATCH, paramLoc, gradient);
  expect('average', average.dense, expected);
}

async function main(host, port, name) {
  const connection = thrift.createConnection(host, Number(port), {
    transport: thrift.TFramedTransport,
    protocol: thrift.TBinaryProtocol,
  });
  const failed = new Promise((_, reject) => { connection.on('error', reject); });
  const multiplexer = new thrift.Multiplexer();
  const tables = multiplexer.createClient('EmbeddingTable', EmbeddingTable, connection);
  const server = multiplexer.createClient('ParameterServer', ParameterServer, connection);
  const checks = async () => {
    await checkTable(tables, name);
    await checkError(tables);
    await checkAverage(server, 0, floats([3], 1, 2, 3), floats([3], 2, 3, 4));
    await checkAverage(server, 1, filled(1), filled(2));
  };

  await Promise.race([checks(), failed]);
  connection.end();
  console.log('ok');
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
