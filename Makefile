# DISTORT: every task of the repository is a target here. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

CONTROLLER_GEN_VERSION := v0.23.0
GOLANGCI_LINT_VERSION := v2.12.2
HELM_VERSION := v3.22.0
GOTESTSUM_VERSION := v1.13.0
PROMTOOL_VERSION := v0.316.0
GORELEASER_VERSION := v2.15.1
SYFT_VERSION := v1.57.2

BIN := $(CURDIR)/bin
MODULES := api nvmeof manager agent csi
WORKSPACE := $(MODULES:%=modules/%) e2e hack/tools
GO_TEST_FLAGS ?= -race
CHART := charts/distort

export CGO_ENABLED ?= 1

##@ General

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} \
	  /^[a-zA-Z0-9_%-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ The main job

.PHONY: demo
demo: ## A PVC becomes a mounted NVMe-oF volume in a lab of virtual machines (KEEP=1 keeps it)
	go run ./e2e/cmd/lab demo

.PHONY: e2e
e2e: ## Run the lab's whole suite (SUITES=cluster,mainflow: some of it)
	go run ./e2e/cmd/lab e2e $(if $(SUITES),--suites=$(SUITES))

.PHONY: lab-up lab-down lab-status
lab-up: ## Start the lab with DISTORT installed and leave it running
	go run ./e2e/cmd/lab up
lab-down: ## Stop the lab
	go run ./e2e/cmd/lab down
lab-status: ## Show what of the lab is running
	go run ./e2e/cmd/lab status

##@ Development

.PHONY: build
build: ## Build the programs into bin/
	@for m in manager agent csi; do \
	  echo "build bin/distort-$$m"; \
	  CGO_ENABLED=0 go build -trimpath -o $(BIN)/ ./modules/$$m/cmd/distort-$$m; \
	done
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/ ./modules/nvmeof/cmd/nvmeofctl ./modules/manager/cmd/kubectl-distort

.PHONY: generate
generate: $(BIN)/controller-gen ## Regenerate deepcopy, CRDs, the chart's copy of them, and docs/reference
	cd modules/api && $(BIN)/controller-gen object paths=./v1alpha1/... && \
	  $(BIN)/controller-gen crd paths=./v1alpha1/... output:crd:dir=config/crd
	mkdir -p $(CHART)/files/crds
	rm -f $(CHART)/files/crds/*.yaml
	cp modules/api/config/crd/*.yaml $(CHART)/files/crds/
	rm -rf docs/reference
	go run ./hack/tools/cmd/reference

.PHONY: fmt
fmt: ## Format the Go code
	gofmt -w modules e2e hack

.PHONY: tidy
tidy: ## Tidy every go.mod
	go run ./hack/tools/cmd/modules tidy

##@ Checks

.PHONY: verify
verify: fetch verify-generated verify-format verify-modules verify-mains release-verify ## Fail on stale generated files, untidy modules, crossed boundaries and versions that disagree

.PHONY: verify-generated
verify-generated: $(BIN)/controller-gen
	@scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	cp -r modules/api "$$scratch/before"; cp -r $(CHART)/files/crds "$$scratch/crds"; cp -r docs/reference "$$scratch/reference"; \
	$(MAKE) --no-print-directory generate >/dev/null; \
	diff -r "$$scratch/before" modules/api && diff -r "$$scratch/crds" $(CHART)/files/crds && \
	  diff -r "$$scratch/reference" docs/reference || \
	  { echo "generated files were stale; they are regenerated now: commit them" >&2; exit 1; }

.PHONY: verify-format
verify-format:
	@out=$$(gofmt -l modules e2e hack); [ -z "$$out" ] || { echo "not formatted (make fmt): $$out" >&2; exit 1; }

.PHONY: verify-modules
verify-modules:
	hack/retry go run ./hack/tools/cmd/modules tidy --diff

.PHONY: verify-mains
verify-mains:
	@for f in modules/*/cmd/*/main.go e2e/cmd/*/main.go hack/tools/cmd/*/main.go; do \
	  lines=$$(wc -l < $$f); [ $$lines -lt 40 ] || { echo "$$f has $$lines lines, a main.go stays under 40" >&2; exit 1; }; \
	done

.PHONY: test
test: fetch lint unit chart-test page-test standalone ## Lint, unit, envtest, csi-sanity, the chart and the trace page, for every module

.PHONY: lint
lint: $(BIN)/golangci-lint ## Run golangci-lint on every module
	@for m in $(WORKSPACE); do echo "lint $$m"; (cd $$m && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: unit
unit: $(BIN)/gotestsum ## Run the tests of every module with the race detector
	assets=$$(go run ./e2e/cmd/lab prepare --only envtest --print); \
	KUBEBUILDER_ASSETS=$$assets $(BIN)/gotestsum --format pkgname-and-test-fails --jsonfile $(BIN)/unit.json -- \
	  $(GO_TEST_FLAGS) -timeout 20m $(WORKSPACE:%=./%/...)
	awk -f hack/crash-points.awk $(BIN)/unit.json

.PHONY: fence-model
fence-model: ## Check the attachment protocol exhaustively, deeper than make test does
	FENCE_MODEL_DEEP=1 go test -count=1 -v -timeout 60m -run TestFenceModel ./modules/agent/internal/fencemodel

.PHONY: conformance
conformance: ## Run the targets' conformance suite: kernel model, SPDK fake, and a real nvmf_tgt where there is one
	go test $(GO_TEST_FLAGS) -count=1 -v -run 'Conforms|TestReal|TestFakeAnswers' \
	  ./modules/nvmeof/kernel ./modules/nvmeof/spdk/... ./modules/nvmeof/nvmeoftest/spdkfake

.PHONY: trace-test
trace-test: ## Take a volume through its life with the real programs and check their spans (part of make test)
	assets=$$(go run ./e2e/cmd/lab prepare --only envtest --print); \
	KUBEBUILDER_ASSETS=$$assets go test $(GO_TEST_FLAGS) -count=1 -v ./e2e/traces

.PHONY: bench
bench: ## Measure the control plane beside its floors, and write docs/performance.md (SCALE=100,10000 volumes that are there)
	assets=$$(go run ./e2e/cmd/lab prepare --only envtest --print); \
	KUBEBUILDER_ASSETS=$$assets go test -count=1 -v -timeout 3h -run TestMeasure ./e2e/bench -args -measure $(if $(SCALE),-scale=$(SCALE)) $(BENCH_ARGS)

.PHONY: page-test
page-test: ## Look at the trace page of the demo in a headless Chromium (part of make test)
	go run ./e2e/cmd/lab prepare --only browser
	DISTORT_CHROMIUM=chromium-headless-shell go test $(GO_TEST_FLAGS) -count=1 -v -run InABrowser ./e2e/internal/otlp

.PHONY: docs-test
docs-test: ## Check the commands and manifests of docs: names, kinds, rules, and the tutorial beside the demo (part of make test)
	assets=$$(go run ./e2e/cmd/lab prepare --only envtest --print); \
	KUBEBUILDER_ASSETS=$$assets go test $(GO_TEST_FLAGS) -count=1 -v -run 'Pages|Exist|Document|Tutorial|Manifests|Link|Reference' \
	  ./e2e/docs ./e2e/apiserver ./e2e/internal/repo ./hack/tools/internal/reference ./modules/csi/internal/request

.PHONY: csi-sanity
csi-sanity: ## Run csi-sanity against distort-csi (part of make test)
	assets=$$(go run ./e2e/cmd/lab prepare --only envtest --print); \
	KUBEBUILDER_ASSETS=$$assets go test $(GO_TEST_FLAGS) -count=1 -v -run TestSanity ./modules/csi/internal/app

.PHONY: crash-points
crash-points: ## Kill agent and manager at every effect of every flow: points, leaks, double uses
	@assets=$$(go run ./e2e/cmd/lab prepare --only envtest --print); \
	log=$$(mktemp); trap 'rm -f "$$log"' EXIT; failed=0; \
	KUBEBUILDER_ASSETS=$$assets go test $(GO_TEST_FLAGS) -count=1 -timeout 30m -v -run '^TestCrashPoints' \
	  ./modules/agent/... ./modules/manager/... >"$$log" 2>&1 || failed=1; \
	[ $$failed = 0 ] || grep -E '^ *(--- FAIL|FAIL|[a-z_]+_test\.go:)|panic' "$$log" || cat "$$log"; \
	awk -f hack/crash-points.awk "$$log" || failed=1; \
	exit $$failed

.PHONY: standalone
standalone: ## Build and vet each module with GOWORK=off, as its users will
	hack/retry go run ./hack/tools/cmd/modules standalone --build-only

.PHONY: standalone-test
standalone-test: ## As standalone, and run the tests too
	assets=$$(go run ./e2e/cmd/lab prepare --only envtest --print); \
	KUBEBUILDER_ASSETS=$$assets go run ./hack/tools/cmd/modules standalone

.PHONY: chart-test
chart-test: $(BIN)/helm $(BIN)/promtool ## Lint, render, install, upgrade and uninstall the chart on a real API server, and fire its alerts
	assets=$$(go run ./e2e/cmd/lab prepare --only envtest --print); \
	KUBEBUILDER_ASSETS=$$assets DISTORT_HELM=$(BIN)/helm DISTORT_PROMTOOL=$(BIN)/promtool \
	  go test $(GO_TEST_FLAGS) -count=1 -timeout 20m ./e2e/chart ./e2e/alerts

##@ Release

.PHONY: release-list
release-list: ## List what is released by itself: version, last tag, and whether it changed since
	@go run ./hack/tools/cmd/release list

.PHONY: release-verify
release-verify: ## Fail when boundaries are crossed or versions, chart, changelogs and tags disagree (TAG=modules/api/v0.1.0: check that tag too)
	go run ./hack/tools/cmd/release verify$(if $(TAG), --tag=$(TAG))

.PHONY: release-apidiff
release-apidiff: fetch ## Fail on a break of the Go API since the last tags that no version tells of (BASE=revision: since that)
	go run ./hack/tools/cmd/release apidiff$(if $(BASE), --base=$(BASE))

.PHONY: release-publish
release-publish: $(BIN)/goreleaser $(BIN)/syft $(BIN)/helm ## Publish TAG, which exists and is checked out (the release workflow does this)
	PATH=$(BIN):$$PATH hack/publish $(TAG)

.PHONY: release-snapshot
release-snapshot: $(BIN)/helm ## Build programs, images and chart as a release would into dist/, without registry, Docker or goreleaser
	go run ./hack/tools/cmd/modules snapshot --dir dist/programs
	go run ./e2e/cmd/lab images --programs dist/programs --out dist/images
	$(BIN)/helm package $(CHART) --destination dist

##@ Tools

# A tool's version is part of its stamp, so that raising one rebuilds it.
define tool
$(BIN)/$(1): $(BIN)/.$(1)-$(3)
$(BIN)/.$(1)-$(3):
	@mkdir -p $(BIN) && rm -f $(BIN)/.$(1)-*
	GOWORK=off CGO_ENABLED=0 GOFLAGS="-trimpath $(4)" GOBIN=$(BIN) hack/retry go install $(2)@$(3)
	@touch $$@
endef
$(eval $(call tool,controller-gen,sigs.k8s.io/controller-tools/cmd/controller-gen,$(CONTROLLER_GEN_VERSION)))
$(eval $(call tool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,$(GOLANGCI_LINT_VERSION)))
$(eval $(call tool,helm,helm.sh/helm/v3/cmd/helm,$(HELM_VERSION)))
$(eval $(call tool,gotestsum,gotest.tools/gotestsum,$(GOTESTSUM_VERSION)))
$(eval $(call tool,goreleaser,github.com/goreleaser/goreleaser/v2,$(GORELEASER_VERSION)))
$(eval $(call tool,syft,github.com/anchore/syft/cmd/syft,$(SYFT_VERSION)))
# Without service discovery, which is most of Prometheus and nothing of promtool's tests.
$(eval $(call tool,promtool,github.com/prometheus/prometheus/cmd/promtool,$(PROMTOOL_VERSION),-tags=remove_all_sd))

# Everything after it finds the modules in Go's cache: one place has to bear a
# network that fails.
.PHONY: fetch
fetch: ## Fetch the Go modules that building and testing need, again when the network fails
	@hack/retry go list -deps -test -f '{{with ""}}{{end}}' $(WORKSPACE:%=./%/...)

.PHONY: tools
tools: $(BIN)/controller-gen $(BIN)/golangci-lint $(BIN)/helm $(BIN)/gotestsum $(BIN)/promtool ## Install the tools into bin/

.PHONY: clean
clean: ## Remove bin/ (downloads and the lab's cache stay)
	rm -rf $(BIN)
