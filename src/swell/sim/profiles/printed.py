"""Throughputs that are printed in papers."""

from __future__ import annotations

from swell.sim.profiles.curve import curve_of
from swell.sim.profiles.profile_set import Curves

BFTRAINER_NODES = (1, 2, 4, 8, 16, 32, 64)
#: BFTrainer, Table 2: thousand samples/s on so many nodes of Summit, 32 samples on each GPU.
BFTRAINER_KSAMPLES_PER_S = {
    "AlexNet": (7.1, 13.1, 21.1, 40.5, 74.0, 130.8, 202.1),
    "ResNet18": (5.2, 10.6, 20.4, 39.6, 78.0, 144.8, 262.7),
    "MnasNet": (3.2, 6.0, 11.5, 23.1, 43.9, 83.5, 160.5),
    "MobileNets": (3.0, 5.9, 11.4, 22.0, 42.5, 82.3, 155.2),
    "ShuffleNet": (2.8, 5.3, 10.0, 20.4, 38.9, 74.1, 145.1),
    "VGG-16": (1.2, 2.4, 4.7, 9.3, 18.3, 36.2, 70.2),
    "DenseNet": (1.0, 2.0, 3.8, 7.6, 15.0, 28.8, 57.8),
}
#: Samples that count as a step of BFTrainer's models, on however many nodes.
BFTRAINER_STEP_SAMPLES = 1024


def bftrainer() -> Curves:
    """Seven ImageNet models on Summit; a worker is a node.

    Weak scaling: a node's batch stays and the global one grows with the nodes. Progress is counted in
    samples, as in the paper, and a step is 1024 of them.

    References: BFTrainer, Table 2.
    """
    curves = [
        curve_of(
            model,
            BFTRAINER_STEP_SAMPLES,
            {
                nodes: 1000.0 * ksamples / BFTRAINER_STEP_SAMPLES
                for nodes, ksamples in zip(BFTRAINER_NODES, row, strict=True)
            },
        )
        for model, row in BFTRAINER_KSAMPLES_PER_S.items()
    ]
    return Curves(
        name="bftrainer",
        source="BFTrainer, Table 2: ImageNet models on nodes of Summit",
        curves=curves,
        notes=(
            f"a worker is a node; a step is {BFTRAINER_STEP_SAMPLES} samples; weak scaling: the batch grows "
            "with the nodes, samples count alike",
        ),
    )


def elasticflow_example() -> Curves:
    """The curve of ElasticFlow's examples: 1, 1.5 and 2 units of throughput with 1, 2 and 4 workers.

    References: ElasticFlow, sections 3.2 and 4.1, Figures 3(a) and 4(a).
    """
    return Curves(
        name="elasticflow-example",
        source="ElasticFlow, Figure 4(a): an example, not a measurement",
        curves=[curve_of("example", 64, {1: 1.0, 2: 1.5, 4: 2.0})],
    )
