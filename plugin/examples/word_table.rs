// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

//! An embedding table in Rust: pushes the gradient of a bag of words and looks the bag up.
//! The generated files must be in src/thriftps, with a file mod.rs that declares each of them, for
//! example `pub mod tensor;`.
//!
//!     word_table HOST PORT

mod thriftps;

use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use thrift::protocol::{TBinaryInputProtocol, TBinaryOutputProtocol, TMultiplexedOutputProtocol};
use thrift::transport::{TFramedReadTransport, TFramedWriteTransport, TIoChannel, TTcpChannel};
use thrift::OrderedFloat;

use thriftps::embedding_table::{
    BagGradient, BagQuery, EmbeddingTableSyncClient, Initializer, InitializerKind, Pooling,
    TEmbeddingTableSyncClient, TableSpec,
};
use thriftps::tensor::{DType, Optimizer, OptimizerKind, PushId, Tensor};

fn int64s(values: &[i64]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::new(DType::INT64, vec![values.len() as i64], data, None)
}

/// A table of 10,000 rows of zeros.
fn words() -> TableSpec {
    let zeros = Initializer { kind: Some(InitializerKind::ZEROS), ..Default::default() };
    let rate = OrderedFloat::from(0.1);
    let sgd =
        Optimizer::new(OptimizerKind::SGD, rate, None, None, None, None, None, None, None, None);
    TableSpec {
        name: "words".to_string(),
        rows: 10_000,
        dim: 4,
        dtype: Some(DType::FLOAT32),
        initializer: Some(zeros),
        optimizer: Some(sgd),
        first_row: None,
        bytes: None,
        shard_index: None,
        shard_count: None,
        shard_rows: None,
        device: None,
        host_memory: None,
        durability: None,
        rounding: None,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let mut channel = TTcpChannel::new();
    channel.open(format!("{}:{}", arguments[1], arguments[2]))?;
    let (reader, writer) = channel.split()?;
    let output = TBinaryOutputProtocol::new(TFramedWriteTransport::new(writer), true);
    let mut tables = EmbeddingTableSyncClient::new(
        TBinaryInputProtocol::new(TFramedReadTransport::new(reader), true),
        TMultiplexedOutputProtocol::new("EmbeddingTable", output),
    );

    // This call also succeeds if the table exists with the same specification.
    tables.create_table(words())?;

    // One bag of three words; its gradient is 1 in every column. A push id consists of a client
    // name, which no other process may ever use, and a sequence number, which must grow with every
    // push.
    let indices = int64s(&[3, 141, 59]);
    let bag = BagQuery::new("words".to_string(), indices, int64s(&[0]), Pooling::SUM, None);
    let ones = Tensor::new(DType::FLOAT32, vec![1, 4], 1f32.to_le_bytes().repeat(4), None);
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let client = format!("words-{}-{}", std::process::id(), now);
    tables.apply_bag_gradients(vec![BagGradient::new(bag.clone(), ones)], PushId::new(client, 1))?;

    let pooled = tables.lookup_bags(vec![bag])?.remove(0);
    let values: Vec<String> = pooled
        .data
        .ok_or("no data")?
        .chunks(4)
        .map(|bytes| format!("{:.1}", f32::from_le_bytes(bytes.try_into().unwrap())))
        .collect();
    println!("{}", values.join(" "));
    Ok(())
}
