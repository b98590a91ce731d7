# The words of this project. Each builds .venv first if need be; PYTHON=python3.12 make ... picks another Python.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What runs the demo, and what tests and measures besides: the papers, Ray, browsers, linters.
STAMP := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
# Inner loops as machine code, built anew when a file with such a loop has changed.
LOOPS := $(VENV)/.kernels
KERNELS := $(shell find src/swell -name '*.pxd')

# Compiled modules are kept on disk even where the environment asks for none: hundreds of programs are started.
export PYTHONDONTWRITEBYTECODE =

.PHONY: docs demo test test-slow test-quick test-gpu test-soak fuzz-scripts test-chaos test-chaos-machines test-slurm check bench bench-decisions bench-sim bench-service bench-live bench-head bench-promises bench-lost-nodes bench-solvers bench-checkpoint bench-gpu bench-resize bench-libraries bench-throughput bench-ray bench-guard bench-guard-environments \
	loops wheel repro repro-promises repro-bftrainer repro-saxena repro-hu repro-default repro-flowcon repro-reclaim clean

demo: $(STAMP)
	$(BIN)/swell demo --json demo-out/demo.json

loops: $(LOOPS)

# For Linux on processors of this kind, and this version of Python. It needs pip alone, which fetches what builds it.
wheel:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	rm -rf build
	$(BIN)/python -m pip wheel --no-deps -w dist .

# Two workers, and one that computes while they wait: tests/workers.py. The files in their order: else those with the
# fewest tests, which are the longest, would come last, one alone.
TOGETHER := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

test: $(DEV) $(LOOPS)
	$(TOGETHER)

# The rest of what .ci/run runs: tests of seconds each, of processes and of laws.
test-slow: $(DEV) $(LOOPS)
	$(TOGETHER) -m 'slow and not soak and not bench'

# For the inner loop: no processes, and few examples of each law. Which tests these are: tests/workers.py.
test-quick: $(DEV) $(LOOPS)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --quick -m 'not soak and not bench'

test-soak: $(DEV) $(LOOPS)
	$(BIN)/python -m pytest -m 'soak and not chaos'
	$(BIN)/python -m pytest -m 'not soak' --hypothesis-profile=thorough tests/policies/test_laws.py tests/core/test_liveness.py \
		tests/core/test_borrowed.py tests/core/test_memory_losses.py tests/core/test_node_warnings.py \
		tests/core/test_no_end.py tests/core/test_fixed_laws.py tests/core/test_policy_state.py tests/policies/test_flowcon_fit.py \
		tests/policies/test_priorities.py tests/policies/test_quotas.py \
		tests/sim/test_all_features.py tests/sim/test_counter_offers.py tests/sim/test_fair_shares.py tests/sim/test_faults.py \
		tests/sim/test_kind_choice.py tests/sim/test_kinds.py tests/sim/test_notice.py tests/sim/test_pool.py \
		tests/sim/test_shared_cores.py tests/sim/test_simulate.py tests/sim/test_unpromised.py tests/sim/test_what_if.py \
		tests/live/test_clock_laws.py tests/test_settings.py

# Scripts that are drawn, trained alone and through drawn lives: an hour for 300 of them on two cores.
# SEED=1 is the first one's, NUM how many. The smallest script of each failing kind is kept in out/fuzz.
fuzz-scripts: $(DEV) $(LOOPS)
	$(BIN)/python -m tests.scripts.fuzz --seed $(or $(SEED),1) --num $(or $(NUM),200)

# 300 faults, about half an hour; CHAOS_SEED=2 make test-chaos is another life. A full disk needs root: a tmpfs is
# mounted.
test-chaos: $(DEV) $(LOOPS)
	$(BIN)/python -m pytest -m chaos -s tests/chaos/test_chaos.py

# 45 kills, 18 partitions, 18 freezes and 9 lying hosts on a head and three hosts, which are namespaces, and 20 kills of whole nodes
# of Ray: about three quarters of an hour. CHAOS_SEED=2 is another life, CHAOS_FAULTS=10 a short one.
test-chaos-machines: $(DEV) $(LOOPS)
	$(BIN)/python -m pytest -m chaos -s tests/chaos/machines

# A real Slurm on this machine, whose nodes, daemons and steps are killed, and that preempts. It needs root, and the packages slurmctld,
# slurmd, slurm-client and munge. KILLS=5 PREEMPTIONS=5 MINUTES=5 is a short one, MINUTES=60 what results/slurm.md shows, SEED=2 another one.
test-slurm: $(DEV) $(LOOPS)
	$(BIN)/python -m pytest -s -m 'soak or not soak' tests/slurm tests/executors/test_slurm_contract.py

# Resizes, kills and loops written for GPUs with all workers on the first GPU, where they take turns: minutes.
test-gpu: $(DEV) $(LOOPS)
	$(BIN)/python -c 'import sys, torch; torch.cuda.is_available() or sys.exit("make test-gpu needs a GPU, and a torch for it")'
	TEST_DEVICE=cuda:0 CUDA_VISIBLE_DEVICES=0 PYTHONPATH=tests/one_gpu $(BIN)/python -m pytest -n 4 -m 'not soak' \
		tests/train/test_resize.py tests/train/test_abort.py tests/train/test_next_group.py \
		tests/train/test_background_save.py tests/train/test_device_idioms.py tests/train/test_amp.py

# `swell selftest` of this machine: two minutes. For four workers that share the first GPU:
# CUDA_VISIBLE_DEVICES=0,0,0,0 PYTHONPATH=tests/one_gpu make bench-gpu. OPTIONS="--devices cpu:4" names other devices.
bench-gpu: $(STAMP) $(LOOPS)
	mkdir -p out
	$(BIN)/swell selftest --json out/selftest.json $(OPTIONS)

# The site of the documents, which can be read from the disk: site/index.html.
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
docs: $(DEV)
	$(SITE)

check: $(DEV)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/mypy -p benchmarks
	$(BIN)/mypy -p tests
	$(BIN)/lint-imports
	$(SITE) --strict --quiet

bench: $(DEV) $(LOOPS)
	$(BIN)/python -m pytest -m bench -s

bench-decisions: $(DEV) $(LOOPS)
	$(BIN)/python -m benchmarks.decisions
	$(BIN)/python -m benchmarks.node_events

# Whole turns of a platform that is up, at 64 to 5,000 open jobs: five minutes; OPTIONS="--seconds 10" takes one.
bench-live: $(DEV) $(LOOPS)
	$(BIN)/python -m benchmarks.live_turns --json out/bench-live.json $(OPTIONS)

# 1,000 hosts whose workers are emulated, and as many jobs: four minutes; OPTIONS="--hosts 100 --jobs 100 --seconds 20" takes two.
bench-head: $(DEV) $(LOOPS)
	$(BIN)/python -m benchmarks.head.measure --json out/bench-head.json $(OPTIONS)

# Strict jobs at random on paced devices, and what is offered before and after: a quarter of an hour.
# OPTIONS="--jobs 20 --odd 20 --hogs 1" takes five minutes, with a process beside that never rests. OPTIONS="--hosts 2
# --link 1gbit --jobs 20": strict jobs alone, whose gangs span hosts behind such links; four minutes.
bench-promises: $(DEV) $(LOOPS)
	$(BIN)/python -m benchmarks.live_promises --json out/bench-promises.json $(OPTIONS)

# Less than eight minutes: 10,000 submissions and as many as fit into a pace, under two policies. OPTIONS="--policies unified" takes half,
# OPTIONS="--only submissions" (listing, kills, idle) one part.
bench-service: $(DEV) $(LOOPS)
	$(BIN)/python -m benchmarks.service --json out/bench-service.json $(OPTIONS)

# The logs are not part of this tree: make bench-sim OPTIONS="--data FOLDER". `OPTIONS=--help` tells what there is.
bench-sim: $(DEV) $(LOOPS)
	$(BIN)/python -m benchmarks.simulation --json out/bench-sim.json $(OPTIONS)

# Promises where nodes fail: make bench-lost-nodes OPTIONS="--data FOLDER --docs docs". A quarter of an hour.
bench-lost-nodes: $(DEV) $(LOOPS)
	$(BIN)/python -m benchmarks.lost_nodes --json out/bench-lost-nodes.json $(OPTIONS)

# A quarter of an hour of one quiet core and half an hour of a busy one, most of it HiGHS's; it writes docs/results/solvers.md. OPTIONS="--file KNAPSACKS.jsonl" solves
# those of a file, too.
bench-solvers: $(DEV) $(LOOPS)
	$(BIN)/python -m benchmarks.solvers --json out/bench-solvers.json --page docs/results/solvers.md $(OPTIONS)

# About 25 minutes each on two cores, torch's start-ups above all; `make bench-resize OPTIONS="--sizes 1M --repeats 1"`
# takes four. `OPTIONS=--help` tells what there is.
bench-resize: $(DEV) $(LOOPS)
	$(BIN)/python -m benchmarks.training.resize --json out/bench-resize.json $(OPTIONS)

# Three minutes: what a resize of a Trainer job takes. Then half an hour of strict jobs with three libraries, of which workers are killed.
bench-libraries: $(DEV) $(LOOPS)
	$(BIN)/python -m benchmarks.training.library_resize --json out/bench-libraries.json $(OPTIONS)
	$(BIN)/python -m benchmarks.live_promises --libraries --jobs 20 --every 20 --kills 10 --json out/bench-library-promises.json

# A save behind training beside one that training stands still for: two minutes. The disk is that of this folder.
bench-checkpoint: $(DEV)
	$(BIN)/python -m benchmarks.training.checkpoint --json out/bench-checkpoint.json $(OPTIONS)

# OPTIONS="--hosts 2 --link 1gbit --workers 2 4": half of the workers in another namespace, behind a link of that rate.
# Also --delay-ms 1 (a round trip), --loss .001, --slow 100mbit (the second host); make bench-resize knows them, too.
bench-throughput: $(DEV) $(LOOPS)
	$(BIN)/python -m benchmarks.training.throughput --json out/bench-throughput.json $(OPTIONS)

# Ray Train's elastic mode and Swell on four Ray nodes, which are namespaces: 15 minutes, and docs/results/ray.md is
# written anew. OPTIONS="--rounds 1" takes a third of it. The machine has to be quiet: Ray gives a node 30 s to start.
bench-ray: $(DEV) $(LOOPS)
	$(BIN)/python -m pip install -c constraints.txt 'ray[train]'
	$(BIN)/python -m benchmarks.ray --json out/bench-ray.json $(OPTIONS)
	$(BIN)/python -m benchmarks.ray.page out/bench-ray.json docs/results/ray.md

# This tree beside the baseline and the anchors of benchmarks/guard.toml, and a line in benchmarks/guard.csv: five minutes
# of two cores with nothing beside. BASE=COMMIT is another baseline. The environments are built first, once, in .bench-guard.
bench-guard: $(DEV) $(LOOPS)
	$(BIN)/python -m benchmarks.guard $(if $(BASE),--base $(BASE)) $(OPTIONS)

bench-guard-environments: $(DEV)
	$(BIN)/python -m benchmarks.guard --environments $(if $(BASE),--base $(BASE))

# Tables and pictures of papers/docs, from the papers' public inputs: make repro DATA=FOLDER
# All policies on the large clusters of 8b take long: OPTIONS="8b --policy elasticflow" runs one of them on one figure.
DATA ?= data
repro: $(DEV) $(LOOPS)
	$(BIN)/swell repro elasticflow --data $(DATA) --docs papers/docs $(OPTIONS)

# Deadlines met by every policy, hours: make repro-promises DATA=FOLDER; OPTIONS="--only 6b" takes some of the inputs.
repro-promises: $(DEV) $(LOOPS)
	$(BIN)/swell repro promises --data $(DATA) --docs papers/docs $(OPTIONS)

# BFTrainer's evaluation, three hours: make repro-bftrainer DATA=FOLDER; OPTIONS="fig9 table3" takes two of it, and
# OPTIONS="--shorter 10" a tenth of the log.
repro-bftrainer: $(DEV) $(LOOPS)
	$(BIN)/swell repro bftrainer --data $(DATA) --docs papers/docs $(OPTIONS)

# Saxena et al., with generated jobs: a quarter of an hour of one core; OPTIONS="table3" runs one table.
repro-saxena: $(DEV) $(LOOPS)
	$(BIN)/swell repro saxena --docs papers/docs $(OPTIONS)

# Its jobs are generated, too. More than an hour on one core; OPTIONS="fig9 fig11" runs two figures.
repro-hu: $(DEV) $(LOOPS)
	$(BIN)/swell repro hu --docs papers/docs $(OPTIONS)

# The policy unified beside each paper's own and on a mixed queue: 25 minutes of one core; OPTIONS="mixed" runs one part.
repro-default: $(DEV) $(LOOPS)
	$(BIN)/swell repro default --data $(DATA) --docs papers/docs $(OPTIONS)

# FlowCon's evaluation on real processes, some four hours of this machine, which must be idle otherwise; half with OPTIONS="--shorter 2".
repro-flowcon: $(DEV) $(LOOPS)
	$(BIN)/swell repro flowcon --docs papers/docs $(OPTIONS)

# Real jobs on nodes that are killed at the times of a log: eight minutes of this machine, idle otherwise.
repro-reclaim: $(DEV) $(LOOPS)
	$(BIN)/swell repro reclaim --docs papers/docs $(OPTIONS)

clean:
	rm -rf $(VENV) build dist demo-out src/*.egg-info papers/build papers/src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src/swell -name '*.so' -delete

# The stamp is taken away before anything is installed and comes back last: without it whatever lies in .venv
# is the rest of an interrupted run and is thrown away. torch comes first and by its exact version, because
# installers choose its build (CPU or CUDA) by what is asked for, not by what is constrained. What is imported is
# compiled then, once: to compile all of torch takes a quarter of a minute.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"Swell needs Python 3.11 or newer; name one: make PYTHON=python3.11")'
	test -e $@ || $(PYTHON) -m venv --clear $(VENV)
	rm -f $@
	$(BIN)/python -m pip install --no-compile -c constraints.txt "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --no-compile -c constraints.txt -e '.[demo]'
	touch $@

$(DEV): $(STAMP) papers/pyproject.toml
	rm -f $@
	$(BIN)/python -m pip install -c constraints.txt -e '.[demo,dev]' -e papers
	touch $@

# Files that have a .pxd file beside them, in place. Where there is no C compiler, they run as they are.
$(LOOPS): setup.py $(KERNELS) $(wildcard $(KERNELS:.pxd=.py)) | $(DEV)
	$(BIN)/python setup.py --quiet build_ext --inplace
	touch $@
