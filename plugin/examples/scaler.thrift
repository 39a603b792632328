// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// The service of own_service.c.

include "node.thrift"
include "tensor.thrift"

service Scaler {
  tensor.Tensor scale (1: tensor.Tensor tensor, 2: double factor)
    throws (1: node.ServiceError failure)
}
