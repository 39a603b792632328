// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

//! The conformance client in Rust. README.md lists the checks.
//!
//!     conformance HOST PORT TABLE

mod thriftps;

use std::error::Error;

use thrift::protocol::{TBinaryInputProtocol, TBinaryOutputProtocol, TMultiplexedOutputProtocol};
use thrift::transport::{
    ReadHalf, TFramedReadTransport, TFramedWriteTransport, TIoChannel, TTcpChannel, WriteHalf,
};
use thrift::OrderedFloat;

use thriftps::embedding_table::{
    BagQuery, EmbeddingTableSyncClient, Initializer, InitializerKind, Pooling,
    TEmbeddingTableSyncClient, TableSpec,
};
use thriftps::node::ErrorCode;
use thriftps::parameter_server::{ParameterServerSyncClient, TParameterServerSyncClient};
use thriftps::tensor::{DType, Gradient, Optimizer, OptimizerKind, PushId, SparseTensor, Tensor};

const BATCH: i64 = (1 << 53) + 1;
const LARGE: usize = 5_000_000;

type Checked = Result<(), Box<dyn Error>>;
type Input = TBinaryInputProtocol<TFramedReadTransport<ReadHalf<TTcpChannel>>>;
type Output = TMultiplexedOutputProtocol<
    TBinaryOutputProtocol<TFramedWriteTransport<WriteHalf<TTcpChannel>>>,
>;

fn floats(shape: &[i64], values: &[f32]) -> Tensor {
    let data = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    Tensor::new(DType::FLOAT32, shape.to_vec(), data, None)
}

fn int64s(values: &[i64]) -> Tensor {
    let data = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    Tensor::new(DType::INT64, vec![values.len() as i64], data, None)
}

fn expect(what: &str, tensor: &Tensor, expected: &Tensor) -> Checked {
    if tensor == expected {
        Ok(())
    } else {
        Err(format!("{}: wrong values", what).into())
    }
}

fn check_table(tables: &mut EmbeddingTableSyncClient<Input, Output>, name: &str) -> Checked {
    tables.create_table(TableSpec {
        name: name.to_string(),
        rows: 10,
        dim: 2,
        dtype: Some(DType::FLOAT32),
        initializer: Some(Initializer {
            kind: Some(InitializerKind::ZEROS),
            ..Default::default()
        }),
        optimizer: Some(Optimizer {
            kind: Some(OptimizerKind::SGD),
            learning_rate: OrderedFloat::from(1.0),
            momentum: None,
            weight_decay: None,
            epsilon: None,
            beta1: None,
            beta2: None,
            l1: None,
            l2: None,
            beta: None,
        }),
        first_row: None,
        bytes: None,
        shard_index: None,
        shard_count: None,
        shard_rows: None,
        device: None,
        host_memory: None,
        durability: None,
        rounding: None,
    })?;
    let values = floats(&[2, 2], &[1., 2., 3., 4.]);
    let gradient = SparseTensor::new(int64s(&[3, 7]), values, vec![10, 2]);
    for _ in 0..2 {
        let push = PushId::new(name.to_string(), BATCH);
        tables.apply_row_gradients(name.to_string(), gradient.clone(), push)?;
    }

    let rows = tables.lookup_rows(name.to_string(), int64s(&[3, 7, 0]))?;
    expect("rows", &rows, &floats(&[3, 2], &[-1., -2., -3., -4., 0., 0.]))?;
    let query =
        BagQuery::new(name.to_string(), int64s(&[3, 7, 7]), int64s(&[0, 1]), Pooling::SUM, None);
    let pooled = tables.lookup_bags(vec![query])?;
    expect("bags", &pooled[0], &floats(&[2, 2], &[-1., -2., -6., -8.]))
}

fn check_error(tables: &mut EmbeddingTableSyncClient<Input, Output>) -> Checked {
    match tables.lookup_rows("missing".to_string(), int64s(&[0])) {
        Ok(_) => Err("a lookup in a missing table succeeded".into()),
        Err(thrift::Error::User(error)) => {
            let failure = error
                .downcast::<thriftps::node::ServiceError>()
                .map_err(|other| other as Box<dyn Error>)?;
            if failure.code == Some(ErrorCode::NOT_FOUND) && failure.message.contains("missing") {
                Ok(())
            } else {
                Err(failure)
            }
        }
        Err(error) => Err(error.into()),
    }
}

fn check_average(
    server: &mut ParameterServerSyncClient<Input, Output>,
    param_loc: i32,
    values: Tensor,
    expected: &Tensor,
) -> Checked {
    let average =
        server.average_gradient(1, BATCH, param_loc, Gradient::new(values, None, None))?;
    expect("average", &average.dense.ok_or("no average")?, expected)
}

/// A connection of one service: a generated client owns its protocols.
fn connect(address: &str, service: &str) -> thrift::Result<(Input, Output)> {
    let mut channel = TTcpChannel::new();
    channel.open(address)?;
    let (reader, writer) = channel.split()?;
    let output = TBinaryOutputProtocol::new(TFramedWriteTransport::new(writer), true);
    Ok((
        TBinaryInputProtocol::new(TFramedReadTransport::new(reader), true),
        TMultiplexedOutputProtocol::new(service, output),
    ))
}

fn main() -> Checked {
    let arguments: Vec<String> = std::env::args().collect();
    let address = format!("{}:{}", arguments[1], arguments[2]);
    let (input, output) = connect(&address, "EmbeddingTable")?;
    let mut tables = EmbeddingTableSyncClient::new(input, output);
    let (input, output) = connect(&address, "ParameterServer")?;
    let mut server = ParameterServerSyncClient::new(input, output);
    let large = [LARGE as i64];

    check_table(&mut tables, &arguments[3])?;
    check_error(&mut tables)?;
    check_average(&mut server, 0, floats(&[3], &[1., 2., 3.]), &floats(&[3], &[2., 3., 4.]))?;
    let twos = floats(&large, &vec![2.; LARGE]);
    check_average(&mut server, 1, floats(&large, &vec![1.; LARGE]), &twos)?;
    println!("ok");
    Ok(())
}
