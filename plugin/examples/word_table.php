<?php
// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// An embedding table in PHP: pushes the gradient of a bag of words and looks the bag up.
//
//   php word_table.php GENERATED HOST PORT

declare(strict_types=1);

use Thrift\Protocol\TBinaryProtocol;
use Thrift\Protocol\TMultiplexedProtocol;
use Thrift\Transport\TFramedTransport;
use Thrift\Transport\TSocket;
use ThriftPS\BagGradient;
use ThriftPS\BagQuery;
use ThriftPS\DType;
use ThriftPS\EmbeddingTableClient;
use ThriftPS\Initializer;
use ThriftPS\InitializerKind;
use ThriftPS\Optimizer;
use ThriftPS\OptimizerKind;
use ThriftPS\Pooling;
use ThriftPS\PushId;
use ThriftPS\TableSpec;
use ThriftPS\Tensor;

// Debian's php-thrift is in /usr/lib/php, which is not on the include path.
spl_autoload_register(function (string $class) use ($argv): void {
    $path = str_replace('\\', '/', $class) . '.php';
    require_once str_starts_with($path, 'Thrift/')
        ? '/usr/lib/php/' . substr($path, strlen('Thrift/'))
        : $argv[1] . '/' . $path;
});

function int64s(int ...$values): Tensor
{
    $data = pack('P*', ...$values);
    return new Tensor(['dtype' => DType::INT64, 'shape' => [count($values)], 'data' => $data]);
}

$socket = new TSocket($argv[2], (int) $argv[3]);
// The default timeout of the library is 0.75 s.
$socket->setRecvTimeout(30000);
$transport = new TFramedTransport($socket);
$protocol = new TBinaryProtocol($transport, true, true);
$multiplexed = new TMultiplexedProtocol($protocol, 'EmbeddingTable');
$tables = new EmbeddingTableClient($protocol, $multiplexed);
$transport->open();

// This call also succeeds if the table exists with the same specification.
$tables->create_table(new TableSpec([
    'name' => 'words', 'rows' => 10000, 'dim' => 4, 'dtype' => DType::FLOAT32,
    'initializer' => new Initializer(['kind' => InitializerKind::ZEROS]),
    'optimizer' => new Optimizer(['kind' => OptimizerKind::SGD, 'learning_rate' => 0.1]),
]));

// One bag of three words; its gradient is 1 in every column. A push id consists of a client name,
// which no other process may ever use, and a sequence number, which must grow with every push.
$bag = new BagQuery([
    'table' => 'words', 'indices' => int64s(3, 141, 59), 'offsets' => int64s(0),
    'pooling' => Pooling::SUM,
]);
$ones = new Tensor([
    'dtype' => DType::FLOAT32, 'shape' => [1, 4], 'data' => pack('g*', 1, 1, 1, 1),
]);
$gradient = new BagGradient(['query' => $bag, 'gradient' => $ones]);
$client = bin2hex(random_bytes(16));
$tables->apply_bag_gradients([$gradient], new PushId(['client' => $client, 'sequence' => 1]));

$pooled = $tables->lookup_bags([$bag])[0];
vprintf("%.1f %.1f %.1f %.1f\n", array_values(unpack('g4', $pooled->data)));
$transport->close();
