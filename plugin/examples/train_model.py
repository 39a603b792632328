# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Training of a model on the server: trainers send gradients, and the server runs the optimizer.

    train_model.py HOST PORT TRAINER

TRAINER is the number of this trainer, from 0 to one less than the server's --ntrainer. The trainers
learn y = 2 x + 1. A second run continues with the model of the first run, unless a client has
called `reset_state`, which discards the model.
"""

import sys
import uuid

import numpy
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport import TSocket, TTransport
from thriftps.parameter_server import ParameterServer
from thriftps.parameter_server.ttypes import NamedTensor
from thriftps.tensor.ttypes import DType, Optimizer, OptimizerKind, PushId, Tensor

STEPS = 200


def tensor_of(values):
    values = numpy.asarray(values, "<f4")
    return Tensor(DType.FLOAT32, list(values.shape), values.tobytes())


def values_of(model):
    return {p.name: numpy.frombuffer(p.tensor.data, "<f4") for p in model.parameters}


def main(host, port, trainer):
    transport = TTransport.TFramedTransport(TSocket.TSocket(host, int(port)))
    protocol = TBinaryProtocolAccelerated(transport)
    server = ParameterServer.Client(TMultiplexedProtocol(protocol, "ParameterServer"))
    transport.open()

    # Every trainer may make this call. It also succeeds if the model was set before with the same
    # parameters and optimizer.
    first = [NamedTensor("slope", tensor_of([0])), NamedTensor("offset", tensor_of([0]))]
    server.init_model(first, Optimizer(OptimizerKind.SGD, 0.2))
    model = server.get_model()
    print("begins at version %d" % model.version)

    # A push id consists of a client name, which no other process may ever use, and a sequence
    # number, which must grow with every push.
    client = str(uuid.uuid4())
    random = numpy.random.default_rng(int(trainer))
    for step in range(STEPS):
        x = random.random(16)
        values = values_of(model)
        error = values["slope"] * x + values["offset"] - (2 * x + 1)
        gradients = [tensor_of([2 * (error * x).mean()]), tensor_of([2 * error.mean()])]
        # Waits until every trainer has contributed, and returns the new model.
        model = server.update_and_fetch_model(int(trainer), gradients, PushId(client, step),
                                              model.version)
    values = values_of(model)
    print("version %d: y = %.3f x + %.3f" % (model.version, values["slope"][0],
                                             values["offset"][0]))
    transport.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
