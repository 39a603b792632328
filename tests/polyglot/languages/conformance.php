<?php
// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// The conformance client in PHP. README.md lists the checks.
//
//   conformance.php GENERATED HOST PORT TABLE

declare(strict_types=1);

use Thrift\Protocol\TBinaryProtocol;
use Thrift\Protocol\TMultiplexedProtocol;
use Thrift\Transport\TFramedTransport;
use Thrift\Transport\TSocket;
use ThriftPS\BagQuery;
use ThriftPS\DType;
use ThriftPS\EmbeddingTableClient;
use ThriftPS\ErrorCode;
use ThriftPS\Gradient;
use ThriftPS\Initializer;
use ThriftPS\InitializerKind;
use ThriftPS\Optimizer;
use ThriftPS\OptimizerKind;
use ThriftPS\ParameterServerClient;
use ThriftPS\Pooling;
use ThriftPS\PushId;
use ThriftPS\ServiceError;
use ThriftPS\SparseTensor;
use ThriftPS\TableSpec;
use ThriftPS\Tensor;

const BATCH = 2 ** 53 + 1;
const LARGE = 5000000;

function tensor(int $dtype, array $shape, string $data): Tensor
{
    return new Tensor(['dtype' => $dtype, 'shape' => $shape, 'data' => $data]);
}

function floats(array $shape, float ...$values): Tensor
{
    return tensor(DType::FLOAT32, $shape, pack('g*', ...$values));
}

function int64s(int ...$values): Tensor
{
    return tensor(DType::INT64, [count($values)], pack('P*', ...$values));
}

function filled(float $value): Tensor
{
    return tensor(DType::FLOAT32, [LARGE], str_repeat(pack('g', $value), LARGE));
}

function expect(string $what, Tensor $tensor, Tensor $expected): void
{
    if ($tensor != $expected) {
        throw new Exception("$what: wrong values");
    }
}

function check_table(EmbeddingTableClient $tables, string $name): void
{
    $tables->create_table(new TableSpec([
        'name' => $name, 'rows' => 10, 'dim' => 2, 'dtype' => DType::FLOAT32,
        'initializer' => new Initializer(['kind' => InitializerKind::ZEROS]),
        'optimizer' => new Optimizer(['kind' => OptimizerKind::SGD, 'learning_rate' => 1.0]),
    ]));
    $gradient = new SparseTensor([
        'indices' => int64s(3, 7), 'values' => floats([2, 2], 1, 2, 3, 4), 'shape' => [10, 2],
    ]);
    $push = new PushId(['client' => $name, 'sequence' => BATCH]);
    for ($i = 0; $i < 2; $i++) {
        $tables->apply_row_gradients($name, $gradient, $push);
    }

    $rows = $tables->lookup_rows($name, int64s(3, 7, 0));
    expect('rows', $rows, floats([3, 2], -1, -2, -3, -4, 0, 0));
    $query = new BagQuery([
        'table' => $name, 'indices' => int64s(3, 7, 7), 'offsets' => int64s(0, 1),
        'pooling' => Pooling::SUM,
    ]);
    expect('bags', $tables->lookup_bags([$query])[0], floats([2, 2], -1, -2, -6, -8));
}

function check_error(EmbeddingTableClient $tables): void
{
    try {
        $tables->lookup_rows('missing', int64s(0));
    } catch (ServiceError $failure) {
        if ($failure->code == ErrorCode::NOT_FOUND && str_contains($failure->message, 'missing')) {
            return;
        }
        throw $failure;
    }
    throw new Exception('a lookup in a missing table succeeded');
}

function check_average(
    ParameterServerClient $server,
    int $param_loc,
    Tensor $values,
    Tensor $expected
): void {
    $gradient = new Gradient(['dense' => $values]);
    expect('average', $server->average_gradient(1, BATCH, $param_loc, $gradient)->dense, $expected);
}

function run(string $host, int $port, string $table): void
{
    $socket = new TSocket($host, $port);
    // An average waits for the other trainers; the library's default timeout is 0.75 s.
    $socket->setRecvTimeout(60000);
    $socket->setSendTimeout(60000);
    $transport = new TFramedTransport($socket);
    $protocol = new TBinaryProtocol($transport, true, true);
    $tables = new EmbeddingTableClient(
        $protocol,
        new TMultiplexedProtocol($protocol, 'EmbeddingTable')
    );
    $server = new ParameterServerClient(
        $protocol,
        new TMultiplexedProtocol($protocol, 'ParameterServer')
    );
    $transport->open();
    check_table($tables, $table);
    check_error($tables);
    check_average($server, 0, floats([3], 1, 2, 3), floats([3], 2, 3, 4));
    check_average($server, 1, filled(1), filled(2));
    $transport->close();
}

// Debian's php-thrift is in /usr/lib/php, which is not on the include path.
spl_autoload_register(function (string $class) use ($argv): void {
    $path = str_replace('\\', '/', $class) . '.php';
    require_once str_starts_with($path, 'Thrift/')
        ? '/usr/lib/php/' . substr($path, strlen('Thrift/'))
        : $argv[1] . '/' . $path;
});
run($argv[2], (int) $argv[3], $argv[4]);
echo "ok\n";
