# The daily targets. The others are in make/, by topic; `make help` lists all.
# Tools and components are built once per version, into $(CACHE) outside the tree.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

include make/settings.mk

.PHONY: help
help: ## list the targets
	@printf '%-18s %-5s %-12s %s\n' TARGET ROOT TIME DESCRIPTION
	@cat $(MAKEFILE_LIST) | awk -f make/help.awk

##@ Daily

.PHONY: build
build: ## [1 min] build ./rollouts-plugin-kedify and ./gatewayapi-plugin for linux/amd64, static
	GOOS=linux GOARCH=amd64 $(GOBUILD) -o $(PLUGIN) ./cmd/rollouts-plugin-kedify
	GOOS=linux GOARCH=amd64 $(GOBUILD) -o $(GATEWAY_PLUGIN) ./cmd/gatewayapi-plugin

.PHONY: install
install: ## [1 min] install the kubectl plugin into GOBIN
	$(COMPILE) go install -buildvcs=false -ldflags '$(LDFLAGS)' ./cmd/kubectl-http_canary

.PHONY: test
test: preflight ticket test-unit test-parts test-cluster ## [root, 8 min] run every test that needs no running cluster

.PHONY: test-one
test-one: ## run one test: PKG=./internal/model/split RUN=TestName (RUN= runs all tests of the package)
	$(if $(PKG),,$(error PKG is missing: make test-one PKG=./internal/model/split RUN=TestName))
	$(call one,$(patsubst ./%,%,$(PKG:/=)))

.PHONY: demo
demo: $(if $(filter embedded,$(PROVIDER)),preflight) tools-cluster ## [root, 7 min] run the guide's canary on a real cluster, under load (ARGS=--keep leaves it running; PROVIDER=existing uses yours)
	LOCALCLUSTER_CACHE=$(CACHE) $(DEMO) --provider $(PROVIDER) --localcluster $(LOCALCLUSTER) --repo $(CURDIR) $(ARGS)

.PHONY: lint
lint: $(GOLANGCI) prose workflows ## [3 min] run the linters on all modules
	$(LINT) ./...
	cd localcluster && $(LINT) --config ../.golangci.yml ./...
	cd tools/testbounds && $(COMPILE) $(TESTS) . && $(COMPILE) go run . -C $(CURDIR)

# What the prose linter checks: documents, comments, and the product's strings.
PROSE = $(addprefix ./,$(filter-out %/zz_generated.deepcopy.go %.pb.go,$(shell git ls-files '*.md' '*.go' '*.proto' 'config/**.yaml' 'examples/**.yaml' 'charts/*/*.yaml')))

.PHONY: prose
prose: $(VALE) ## [10 s] check the wording of documents, comments and messages
	@$(VALE) --output=line $(filter-out %_test.go,$(PROSE))
	@$(VALE) --output=line --config=tools/vale/tests.ini $(filter %_test.go,$(PROSE))

.PHONY: workflows
workflows: $(ACTIONLINT) ## [5 s] check the workflows of GitHub Actions with actionlint
	$(ACTIONLINT) -shellcheck= -pyflakes=

.PHONY: vulncheck
vulncheck: $(VULNCHECK) ## [2 min] find known vulnerabilities in the functions that the programs call, with govulncheck
	$(VULNCHECK) -tags=grpcnotrace ./...
	cd localcluster && $(VULNCHECK) ./...

.PHONY: fmt
fmt: $(GOLANGCI) ## format the code
	$(GOLANGCI) fmt ./...
	cd localcluster && $(GOLANGCI) fmt --config ../.golangci.yml ./...

include make/cluster.mk make/tests.mk make/suites.mk make/ci.mk make/bench.mk make/generate.mk make/release.mk
