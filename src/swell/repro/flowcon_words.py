"""What the page of FlowCon's evaluation says beside its figures."""

INTRODUCTION = """
Zheng, Tynes, Gorelick, Mao, Cheng and Hou, *FlowCon: Elastic Flow Configuration for Containerized Deep
Learning Applications*, ICPP 2019, section 5. Its jobs are trained for real here, on the CPU of one machine.

* **Jobs**: a variational auto-encoder, a convolutional network and a bidirectional recurrent network on
  8 x 8 digits; an LSTM and a GRU on Python's language reference. All in PyTorch, one process each.
* **Machine**: `swell up --devices cpu:16 --cores 1`. One core is shared, as the paper's one CPU is: a job
  alone can use all of it. For the figures here the daemon and the agent had no other core either
  (`taskset -c 0 swell repro flowcon fixed`), and two schedules ran side by side, each on a core of its own.
* **Times** are shorter than the paper's: one second stands for 10 s in the fixed schedule and for 20 s in
  the random ones. FlowCon's interval is shorter by the same factor.
* **Limits** are weights: what one job does not use, others get. `quotas` in `cpu` are hard limits, as
  `docker update --cpus` sets them. The line `Truth` says by which mechanism. No containers are used.
* **Policies**: `none` is `fifo`, which divides no cores. `flowcon` is the paper's, `flowcon_fit` ours.
* **Repetitions**: each draws its own schedule, and runs it under every policy, in a shuffled order. Figures
  are means over repetitions; +- is half of a 95 % confidence interval (Student's t) of the ratio to `none`
  in the same repetition.
* **Simulated** runs have what a step costs alone, the starts and the cores in use from the real run, and the
  interference from all runs. The losses are the real ones. Shares and times are what the policy decides in
  the simulation. Once losses hardly fall, shares follow the noise of single losses, so that single jobs of
  two runs differ, real ones too (`real spread`); the mean over jobs and runs is what can be foretold.
* **Versions**: `fixed` is of the present version. The others were measured before policies took the first
  value of a job whenever it comes; till then it depended on 0.1 s whether that was the one after its first
  step. Their twins are of the present version.
* **Why the makespan falls**: a job with a small part of a core finds the caches filled by others each time
  that it has the core. A policy that gives most of the core to a few jobs saves that.
* A job is *usable* when 95 % of the drop of its loss is done. The loss by step is the same under every
  policy, so the step at which that is comes from all runs of the job together.
"""
