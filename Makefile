# Railyard. `make` lists what there is to do; nothing has to be installed beforehand.
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export PYTHONUNBUFFERED := 1

.PHONY: help lab lab-down test lint types docs sanity changelog pytest unit functional browser integration long soak molecule bench release compat html clean

# a command with the lab "test" up for it, and down after it, however it ends
define on_lab
	lab/lab up --name test
	export RAILYARD_LAB=test; $(1); rc=$$?; lab/lab down --name test; exit $$rc
endef

# The tests of one node beside those of the other; those that have the whole lab to themselves come after. In the order
# that is given, so that what must run one after the other begins first and the short tests fill up what is left.
side_by_side := $(BIN)/python -m pytest -n 2 --no-loadscope-reorder -m "not lab"
alone := $(BIN)/python -m pytest -m lab

# what takes too long for every `make test`: each of these holds the whole lab for many minutes
long := $(addprefix tests/integration/test_,boot_loader.py faults.py interruption.py nic_driver.py runner.py take_back.py)
rest := tests/integration $(addprefix --ignore=,$(long))

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(VENV)/ready: requirements-dev.txt tools/venv tools/foreign_collections.py
	tools/venv $(PYTHON) $(VENV) requirements-dev.txt
	tools/foreign_collections.py $(BIN)/python kubernetes.core
	@touch $@

# with an API server where its programs are built and there are CRDs; CLUSTER=1 builds them, CLUSTER=0 does without
cluster_of_lab = lab/lab cluster up --nodes node-1,node-2 $(if $(CRDS),--crds $(CRDS)) $(if $(filter 1,$(CLUSTER)),,--at-hand)

lab: $(VENV)/ready ## boot the lab (two nodes, eight rails) and run site.yml on it to the end; a second time changes nothing
	lab/lab up
	$(if $(filter 0,$(CLUSTER)),,$(cluster_of_lab))
	ansible-playbook -i inventories/lab site.yml $(if $(filter 0,$(CLUSTER)),-e kubernetes_enabled=false)

lab-down: ## end the lab's guests
	lab/lab down --all

test: $(VENV)/ready ## every test but those of long
	$(MAKE) --jobs=2 --output-sync lint types docs changelog sanity
	$(MAKE) molecule
	$(MAKE) pytest
	$(MAKE) browser

lint: $(VENV)/ready ## ruff and ansible-lint
	ruff check .
	ruff format --check .
	tools/quiet ansible-lint --strict

types: $(VENV)/ready ## mypy
	mypy -p ansible_collections.railyard.fabric.plugins
	mypy lab tools

docs: $(VENV)/ready ## the documentation of modules, plugins and roles
	tools/docs-check

changelog: $(VENV)/ready ## the changelog fragments
	tools/changelog-check

sanity: $(VENV)/ready ## ansible-test sanity, on what a user would install
	tools/sanity

molecule: $(VENV)/ready ## the scenarios on the lab: default (macvlan, shared) and sriov (exclusive)
	MOLECULE_GLOB='molecule/*/molecule.yml' molecule test --all

pytest: $(VENV)/ready
	$(call on_lab,$(side_by_side) $(rest) tests/functional tests/unit && $(alone) $(rest))

unit: $(VENV)/ready ## the pure tests, in seconds
	$(BIN)/python -m pytest -n 2 tests/unit

functional: $(VENV)/ready ## playbooks and programs as a user runs them, and this machine's own kernel in namespaces; no guests
	$(BIN)/python -m pytest -n 2 tests/functional

browser: $(VENV)/ready ## the report in headless Chromium, which is installed where there is none
	tools/chromium
	$(BIN)/python -m pytest tests/browser

integration: $(VENV)/ready ## the tests on the lab's guests
	$(call on_lab,$(side_by_side) $(rest) && $(alone) $(rest))

long: $(VENV)/ready ## tests on the guests that take too long for `make test`: harm, interruption, hosts taken back and others
	$(call on_lab,$(BIN)/python -m pytest $(long))

soak: $(VENV)/ready ## properties on examples drawn anew, 2,000 random fabric files, and the host phase killed at twenty random moments
	HYPOTHESIS_PROFILE=soak RAILYARD_RANDOM_FIRST=$$RANDOM RAILYARD_RANDOM_FILES=2000 $(BIN)/python -m pytest -n 2 tests/unit/fabric
	$(call on_lab,RAILYARD_INTERRUPTIONS=20 $(BIN)/python -m pytest tests/integration/test_interruption.py)

bench: $(VENV)/ready ## ratios, measured side by side: planner, objects and a cluster on this machine, the hosts on the lab
	$(BIN)/python -m benchmarks planner
	$(BIN)/python -m benchmarks objects
	$(BIN)/python -m benchmarks kubernetes
	lab/lab up --name bench --rails 8
	lab/lab up --name bench-one --rails 1
	$(BIN)/python -m benchmarks hosts; rc=$$?; lab/lab down --name bench; lab/lab down --name bench-one; exit $$rc

release: $(VENV)/ready ## the archive of what is committed, checked as Galaxy does it, its SBOM and checksums; FINAL=1: the changelog too
	$(BIN)/python tools/release.py dist $(if $(FINAL),--final)

html: $(VENV)/ready ## the reference of modules, plugins and roles as HTML, in dist/html; Sphinx lives in an environment of its own
	tools/html

compat: $(VENV)/ready ## the archive's playbooks and the doors' tests under every supported ansible-core; minutes for each
	tools/compat

clean: lab-down ## take away what the targets made, but for the lab's image cache
	rm -rf $(VENV) .ansible .mypy_cache .ruff_cache .pytest_cache tests/output dist .cache/release .cache/compat .cache/html
