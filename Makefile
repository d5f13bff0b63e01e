# Railyard. `make` lists the targets; nothing has to be installed first.
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export PYTHONUNBUFFERED := 1
# Some container images set it. Then each command, and each worker of Ansible, compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE

# processes among which the tests of one target are divided
N ?= 2

.PHONY: help lab lab-down quick test long soak static lint types docs sanity changelog unit functional browser \
  cluster molecule molecule-default molecule-sriov integration bench release compat html vendor clean

# a command with a new lab "test" for it, which ends with it, however it ends; what a killed run left ends before
define on_lab
	lab/lab down --name test; trap 'lab/lab down --name test' EXIT; trap 'exit 130' INT TERM; \
	  lab/lab up --name test $(lab_options) || exit; export RAILYARD_LAB=test; $(1)
endef

pytest := $(BIN)/python -m pytest
# Tests that follow one another keep their order, so that the long sequences begin first and short tests fill what is left.
divided = $(pytest) -n $(N) --no-loadscope-reorder

# Test files that are too long for `make test`: each has the whole lab to itself for many minutes. In the other files, tests
# with the mark `long` are the parts guests, cluster and functional. The part scale has the fabrics of up to 4,096 nodes.
in_long := agent_churn agent_faults agent_interruption agent_layouts agent_nodes agent_pods agent_verify agent_workloads boot_loader faults interruption lab netplan networkmanager nic_driver pods runner take_back
long_files := $(in_long:%=tests/integration/test_%.py)
in_test := tests/integration $(addprefix --ignore=,$(long_files))
long_marks := long-cluster long-functional long-guests long-scale
long_parts := $(in_long:%=long-%) $(long_marks)

# What `make test` runs: guests one after the other, all else beside them, the longest first. sanity, which is one process,
# begins before unit, which is two: started last, it would leave a processor idle.
guests := molecule-default,molecule-sriov,integration
beside := cluster functional sanity unit lint browser docs types changelog
comma := ,
space := $(subst ,, )

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(VENV)/ready: requirements-dev.txt tools/venv tools/foreign_collections.py
	tools/venv $(PYTHON) $(VENV) requirements-dev.txt
	tools/foreign_collections.py $(BIN)/python kubernetes.core
	@touch $@

# Without CLUSTER the guests are nodes of a Kubernetes cluster, each with a test pod on the rails. CLUSTER=1: two nodes of
# no cluster, and an API server beside them, for the objects of operators. CLUSTER=0: the two nodes alone. The agent is a DRA
# driver from Kubernetes 1.36 on, else a device plugin. DRA=1 or DRA=0 selects it.
api_server = lab/lab cluster up --nodes node-1,node-2 $(if $(CRDS),--crds $(CRDS))

lab: $(VENV)/ready ## boot the lab (two nodes, eight rails, pods) and run site.yml on it to the end; a second time changes nothing
ifneq ($(filter 0 1,$(CLUSTER)),)
	lab/lab up
	$(if $(filter 1,$(CLUSTER)),$(api_server))
	ansible-playbook -i inventories/lab site.yml $(if $(filter 0,$(CLUSTER)),-e kubernetes_enabled=false)
else
	lab/lab up --cluster
	@inventory=$$(lab/lab cluster inventory $(if $(DRA),--dra $(DRA))) && set -x && ansible-playbook -i $$inventory site.yml
endif

lab-down: ## end the lab's guests
	lab/lab down --all

quick: $(VENV)/ready ## static checks and unit tests, in two minutes: before every commit
	N=1 tools/parts.py --jobs 2 unit lint docs types changelog

# The programs of Kubernetes are built while the virtual environment is made. An interrupted run ends their build.
test: ## every test but those of long, and at the end what took longest: before every merge
	set -m; lab/lab cluster programs & set +m; trap "kill -- -$$! 2>/dev/null || true" EXIT; \
	  $(MAKE) -s $(VENV)/ready && tools/parts.py --jobs 4 --lab $(guests) $(beside)

long: $(VENV)/ready ## the rest in parts: PART=NAME for one; what has passed is not repeated until the checkout changes
ifdef PART
	$(MAKE) $(if $(filter compat,$(PART)),compat,long-$(PART:long-%=%))
else
	tools/parts.py --resume --jobs 1 --lab $(subst $(space),$(comma),$(long_parts)) compat
endif

# their guests are Kubernetes nodes
$(filter long-agent_%,$(long_parts)) long-pods: lab_options := --cluster
long-networkmanager: lab_options := --system debian-13 --network networkmanager
long-netplan: lab_options := --system $(or $(RAILYARD_SYSTEM),debian-13) --network netplan

# Tests on guests with these marks: those of one node beside those of the other, then those of both
on_guests = $(call on_lab,$(pytest) -n 2 --no-loadscope-reorder -m "not lab and not cluster and $(1)" $(in_test); one=$$?; \
  $(pytest) -m "lab and $(1)" $(in_test) && (exit $$one))

long-guests: $(VENV)/ready
	$(call on_guests,long)

long-cluster: $(VENV)/ready
	$(pytest) -m "cluster and long" tests/integration

long-functional: $(VENV)/ready
	tools/cni_plugins
	tools/slurm
	tools/mpi
	$(divided) -m long tests/functional

long-scale: $(VENV)/ready
	$(pytest) -m scale tests/unit tests/functional

$(filter-out $(long_marks),$(long_parts)): $(VENV)/ready
	$(call on_lab,$(pytest) tests/integration/test_$(@:long-%=%).py)

static: lint types docs changelog sanity ## all checks that run nothing of the collection

# What runs on nodes, with their Python: 3.8 or newer. os.setns is used only where it exists.
on_nodes := plugins/modules plugins/module_utils/_node plugins/module_utils/_common

lint: $(VENV)/ready ## ruff, import rules, the word list, ansible-lint, and what Python 3.8 on nodes does not have
	ruff check .
	ruff format --check .
	tools/import_rules.py
	tools/word_list.py
	tools/quiet tools/ansible_lint.py --strict
	tools/quiet vermin --target=3.8- --violations --no-tips --exclude os.setns $(on_nodes)

types: $(VENV)/ready ## mypy
	mypy -p ansible_collections.railyard.fabric.plugins
	mypy lab tools benchmarks

docs: $(VENV)/ready ## the documentation of modules, plugins and roles
	tools/docs-check

changelog: $(VENV)/ready ## the changelog fragments
	tools/changelog-check

sanity: $(VENV)/ready ## ansible-test sanity, on what a user would install
	tools/sanity

molecule: molecule-default molecule-sriov ## the scenarios on the lab: default (macvlan, shared) and sriov (exclusive)

molecule-default molecule-sriov: $(VENV)/ready
	MOLECULE_GLOB='molecule/*/molecule.yml' molecule test --scenario-name $(@:molecule-%=%)

unit: $(VENV)/ready ## the pure tests, except those of scale
	$(divided) -m "not scale" tests/unit

functional: $(VENV)/ready ## playbooks and programs as a user runs them, and this machine's own kernel, except those of long; no guests
	tools/cni_plugins
	$(divided) -m "not scale and not long" tests/functional

cluster: $(VENV)/ready ## the tests on a real API server, which is built once, except those of long; no guests
	$(pytest) -m "cluster and not long" tests/integration

browser: $(VENV)/ready ## the report in headless Chromium, which is installed if it is missing
	tools/chromium
	$(pytest) tests/browser

integration: $(VENV)/ready ## the tests on the lab's guests, except those of long
	$(call on_guests,not long)

soak: $(VENV)/ready ## properties on a thousand new examples each, 2,000 random fabric files, twenty kills and faults each, 500 pods
	HYPOTHESIS_PROFILE=soak RAILYARD_RANDOM_FIRST=$$RANDOM RAILYARD_RANDOM_FILES=2000 $(divided) tests/unit/fabric
	RAILYARD_INTERRUPTIONS=20 RAILYARD_CHURN=500 $(divided) tests/functional/node/test_agent_*.py
	$(call on_lab,RAILYARD_INTERRUPTIONS=20 $(pytest) tests/integration/test_interruption.py)

bench: $(VENV)/ready ## ratios, measured side by side: planner, objects, pods on rails and a cluster on this machine, the hosts on the lab
	$(BIN)/python -m benchmarks planner
	$(BIN)/python -m benchmarks objects
	$(BIN)/python -m benchmarks slices
	$(BIN)/python -m benchmarks attach
	$(BIN)/python -m benchmarks agent-idle
	$(BIN)/python -m benchmarks kubernetes
	$(BIN)/python -m benchmarks replay
	$(BIN)/python -m benchmarks narrowing
	lab/lab up --name bench --rails 8
	lab/lab up --name bench-one --rails 1
	$(BIN)/python -m benchmarks hosts; rc=$$?; lab/lab down --name bench; lab/lab down --name bench-one; exit $$rc

release: $(VENV)/ready ## the archive of what is committed, checked as Galaxy does it, its SBOM and checksums; FINAL=1: the changelog too
	$(BIN)/python tools/release.py dist $(if $(FINAL),--final)

html: $(VENV)/ready ## the reference of modules, plugins and roles as HTML, in dist/html; Sphinx lives in an environment of its own
	tools/html

compat: $(VENV)/ready ## the archive's playbooks and the plugins' tests under every supported ansible-core
	tools/compat

vendor: $(VENV)/ready ## fetch upstream's charts, manifests and schemas that are pinned into vendor/, for tests that compare with them
	tools/vendor.py

clean: lab-down ## remove what the targets made, except the lab's image cache
	rm -rf $(VENV) .ansible .mypy_cache .ruff_cache .pytest_cache tests/output dist .cache/release .cache/compat .cache/html .cache/cni
