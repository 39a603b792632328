# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Data-parallel training: each trainer has data of its own, and the server averages gradients.

    average.py HOST PORT JOB TRAINER

TRAINER is the number of this trainer, from 0 to one less than the server's --ntrainer. JOB is the
name of the run, such as the id from a scheduler. It must be the same for all trainers of the run,
and no other run may use it. The trainers learn y = 2 x + 1 and print the same weights.
"""

import sys
import time

import numpy
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport import TSocket, TTransport
from thriftps.parameter_server import ParameterServer
from thriftps.rendezvous import Rendezvous
from thriftps.tensor.ttypes import DType, Gradient, Tensor

STEPS, RATE = 200, 0.2


def agree_on_first_batch(store, job, trainer):
    """The batch numbers that a server receives must grow, so a job must begin above the last batch
    number of every earlier job. Trainer 0 uses the time in microseconds as the first batch number.
    It publishes this number in the server's Rendezvous service (a key-value store), where the other
    trainers read it.
    """
    key = job + "/first-batch"
    if trainer == 0:
        store.put(key, b"%d" % (time.time_ns() // 1000))
    return int(store.get(key, 60000))


def gradient_of(weights, x):
    """The gradient of the mean squared error of y = weights[0] x + weights[1]."""
    error = weights[0] * x + weights[1] - (2 * x + 1)
    return numpy.array([2 * (error * x).mean(), 2 * error.mean()], "<f4")


def train(server, first_batch, trainer):
    random = numpy.random.default_rng(trainer)
    weights = numpy.zeros(2, "<f4")
    for step in range(STEPS):
        mine = gradient_of(weights, random.random(16))
        tensor = Tensor(DType.FLOAT32, list(mine.shape), mine.tobytes())
        # Waits until every trainer has sent its gradient of this batch; 0 is the only bucket.
        mean = server.average_gradient(trainer, first_batch + step, 0, Gradient(dense=tensor))
        weights -= RATE * numpy.frombuffer(mean.dense.data, "<f4")
    return weights


def main(host, port, job, trainer):
    transport = TTransport.TFramedTransport(TSocket.TSocket(host, int(port)))
    protocol = TBinaryProtocolAccelerated(transport)
    store = Rendezvous.Client(TMultiplexedProtocol(protocol, "Rendezvous"))
    server = ParameterServer.Client(TMultiplexedProtocol(protocol, "ParameterServer"))
    transport.open()
    first_batch = agree_on_first_batch(store, job, int(trainer))
    weights = train(server, first_batch, int(trainer))
    if trainer == "0":
        store.remove(job + "/")
    print("y = %.3f x + %.3f" % tuple(weights))
    transport.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
