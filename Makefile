# Run `make help` for the list. Everything that is built and cached lies outside
# the tree, below $(CACHE), keyed by version.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CACHE     ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kedify-localcluster
GOLANGCI  := $(CACHE)/tools/golangci-lint-$(shell sha256sum tools/golangci-lint/go.sum | cut -c1-12)
SITE       := $(CACHE)/tools/site-$(shell sha256sum tools/site/requirements.txt | cut -c1-12)
GORELEASER := $(CACHE)/tools/goreleaser-$(shell sha256sum tools/goreleaser/go.sum | cut -c1-12)
# How everything is compiled, so that all of it shares the compiler's cache with the
# parts of the cluster, see localcluster/build/gotools.go. The race detector needs cgo,
# and is a world of its own.
FLAGS   := -trimpath -tags=grpcnotrace '-gcflags=all=-dwarf=false'
COMPILE := CGO_ENABLED=0 GOFLAGS="$(FLAGS)"
# A compiler or a linter need not collect garbage as often as a server, where there is memory for it:
# localcluster/build/greed.go.
GREED := $(shell awk -v cpus="$$(nproc)" '$$1 == "MemTotal:" { share = $$2 / cpus; if (share >= 4194304) printf "GOGC=800 GOMEMLIMIT=%dKiB", share / 4; else printf "GOGC=200" }' /proc/meminfo)
# Only the compiler is told so: what is tested has Go's own collector. Go vet is among the linters: with the
# tests it would look at every dependency once more. No debugger looks at a test's program: without its tables
# the linker is done in three quarters of the time.
TESTS   := go test -vet=off -ldflags=-w -toolexec 'env $(GREED)'
RACE    := GOFLAGS="$(FLAGS)" $(TESTS) -race
LINT    := $(COMPILE) $(if $(findstring LIMIT,$(GREED)),GOGC=400) $(GOLANGCI) run --allow-parallel-runners
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   := -s -w -X main.version=$(VERSION)
GOBUILD   := $(COMPILE) go build -buildvcs=false -ldflags '$(LDFLAGS)'

# The cluster's own programs are of this checkout: another one may hold others.
CLUSTER_BIN  := $(CACHE)/bin/$(shell printf %s "$(CURDIR)" | sha256sum | cut -c1-12)
LOCALCLUSTER := $(CLUSTER_BIN)/localcluster
DEMO         := $(CLUSTER_BIN)/demo
CLUSTER      := $(LOCALCLUSTER) --repo $(CURDIR) --cache $(CACHE)
# What tests that run a cluster are told.
CLUSTER_ENV  := LOCALCLUSTER_BIN=$(LOCALCLUSTER) LOCALCLUSTER_CACHE=$(CACHE) LOCALCLUSTER_REPO=$(CURDIR)
# How a user becomes root, for tests that look at the whole machine. What they run
# was built by the user before.
ROOT := $(if $(filter 0,$(shell id -u)),,sudo)
# Where `make build` puts the plugins.
PLUGIN         ?= rollouts-plugin-kedify
GATEWAY_PLUGIN ?= gatewayapi-plugin
# The names of this project's images: IMAGE_REPO/interceptor:IMAGE_TAG.
IMAGE_REPO ?= ghcr.io/kedify
IMAGE_TAG  ?= dev
IMAGES     := $(CACHE)/images/$(notdir $(CLUSTER_BIN))
IMAGE_ARGS  = --registry $(IMAGE_REPO) --tag $(IMAGE_TAG) --release $(VERSION:v%=%) --revision $(shell git rev-parse HEAD 2>/dev/null)
# The clusters that `make k3d-import` and `make kind-load` load images into.
K3D_CLUSTER  ?= k3s-default
KIND_CLUSTER ?= kind
# How often `make faults` kills each part, at which moments and which parts: all
# 20 times, at moments of its own, if this is empty.
FAULTS_ROUNDS ?=
FAULTS_SEED   ?=
FAULTS_ONLY   ?=
# Which walks `make test-gateway` takes, by their names with commas between them;
# all, if this is empty.
GATEWAY_WALKS ?=
# Which tests `make test-autowire` runs, as a pattern such as TestProxies; all, if this is empty.
AUTOWIRE ?=
# Which of the canary's tests, the same way: TestCanary, TestRollover or TestTry.
CANARY ?=
# Which parts of `make test-zero` run, by a word of their names, such as killed; all, if this is empty.
ZERO_ONLY ?=
# The Ingress controller of `make test-autowire`: traefik or contour.
INGRESS ?= traefik
# How many requests a second come by each of the two ways of `make test-autowire`, 100 if this is empty.
RATE ?=
# The one version of Argo Rollouts, such as 1.9.1, that `make test-scenarios` plays all scenarios with; without it
# they are played with the newest one, and a few with the one before.
ROLLOUTS ?=
# The folder of argo-helm's chart argo-rollouts; without it Option A is not among what `make test-install` installs.
CHART ?=
# The version of KEDA, such as 2.20.2, that `make test-keda` and `make test-autoscaling` run; without it the one that the
# cluster has elsewhere.
KEDA ?=
# Which tests `make test-autoscaling` runs.
AUTOSCALING ?= Guide|Idle|Targets
# Where the demo's cluster comes from: embedded, existing ($KUBECONFIG), kind.
PROVIDER ?= embedded
# Arguments for the demo, such as ARGS=--keep.
ARGS ?=
# What a run of the demo has said, for `make picture`: one file, or one for each half.
LOG ?=

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ The main job

.PHONY: demo
demo: $(if $(filter embedded,$(PROVIDER)),preflight) tools-cluster ## run the guide's canary on a real cluster, under load (ARGS=--keep leaves it running; PROVIDER=existing: on yours)
	LOCALCLUSTER_CACHE=$(CACHE) $(DEMO) --provider $(PROVIDER) --localcluster $(LOCALCLUSTER) --repo $(CURDIR) $(ARGS)

.PHONY: cluster-up
cluster-up: preflight tools-cluster ## start the embedded cluster, building what is missing
	$(CLUSTER) up

.PHONY: cluster-down
cluster-down: tools-cluster ## end the embedded cluster and remove all that it left
	$(CLUSTER) down

.PHONY: cluster-status
cluster-status: tools-cluster ## show how to reach the embedded cluster
	$(CLUSTER) status

.PHONY: build
build: ## build ./rollouts-plugin-kedify and ./gatewayapi-plugin for linux/amd64, static
	GOOS=linux GOARCH=amd64 $(GOBUILD) -o $(PLUGIN) ./cmd/rollouts-plugin-kedify
	GOOS=linux GOARCH=amd64 $(GOBUILD) -o $(GATEWAY_PLUGIN) ./cmd/gatewayapi-plugin

##@ Images and releases

.PHONY: docker-build
docker-build: tools-cluster ## build all images for amd64 and arm64, and load those for this machine into Docker, where it runs (IMAGE_REPO=)
	$(CLUSTER) images $(IMAGE_ARGS) $(IMAGES)
	@if docker info >/dev/null 2>&1; then docker load --input $(IMAGES)/images.tar; \
		else echo "no Docker runs here: $(IMAGES)/images.tar is for docker load, $(IMAGES)/oci for skopeo, crane, podman"; fi

.PHONY: image-push
image-push: tools-cluster ## build all images and push them, with the credentials of docker login (IMAGE_REPO= IMAGE_TAG=)
	$(CLUSTER) images --push $(IMAGE_ARGS) $(IMAGES)

.PHONY: k3d-import
k3d-import: docker-build ## load the images into a cluster of k3d (K3D_CLUSTER=; needs Docker)
	k3d image import $(IMAGES)/images.tar --cluster $(K3D_CLUSTER)

.PHONY: kind-load
kind-load: docker-build ## load the images into a cluster of kind (KIND_CLUSTER=; needs Docker)
	kind load image-archive $(IMAGES)/images.tar --name $(KIND_CLUSTER)

.PHONY: goreleaser
goreleaser: $(GORELEASER) ## build what makes releases

# GoReleaser leaves the commit out where no remote is configured, as in a clone of a folder.
ORIGIN = $(if $(shell git remote),,GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/kedify/argo-rollouts-plugin)

.PHONY: snapshot
snapshot: $(GORELEASER) tools-cluster ## make all of a release of this commit but the signatures, in ./dist
	$(ORIGIN) PATH="$(CLUSTER_BIN):$$PATH" $(GORELEASER) release --snapshot --clean --skip=sign
	$(CLUSTER_BIN)/release notes dist

.PHONY: release
release: $(GORELEASER) tools-cluster ## what the release workflow runs on a tag: a draft with binaries, bills of materials, checksums, signature
	PATH="$(CLUSTER_BIN):$$PATH" $(GORELEASER) release --clean
	$(CLUSTER_BIN)/release notes dist

##@ Tests

.PHONY: test
test: preflight ticket test-unit test-parts test-cluster ## run every test (asks for root where it is needed; installs nothing)

# Tests that look at nothing but files of their own module. Go keeps their results for as long as these and the code
# stay the same, in their fixed order. What has run anew runs once more in another order, until it has passed so.
# The other unit tests start programs and read the other module, which Go knows nothing of: they always run.
KEPT        = $$(go list ./... | grep -v -E '/(test|e2e)(/|$$)')
TO_SHUFFLE := $(CLUSTER_BIN)/to-shuffle
# Those that wait longest begin first.
WAITING := ./e2e/demo/scenario ./e2e/load
# This one compresses all images, and the race detector would have that take five times as long.
PACKING := /cmd/localcluster

.PHONY: test-unit
test-unit: ## run the tests that need nothing but Go
	@mkdir -p $(CLUSTER_BIN) && touch $(TO_SHUFFLE)
	$(RACE) $(KEPT) | awk -v list=$(TO_SHUFFLE) '{ print; fflush() } $$1 == "ok" && !/\(cached\)/ { print $$2 >>list }'
	@$(MAKE) --no-print-directory -j2 test-e2e-unit test-localcluster-unit

# Those of e2e mostly wait, while the others compile on an empty cache.
.PHONY: test-shuffled test-e2e-unit test-localcluster-unit
test-shuffled:
	packages=$$(sort -u $(TO_SHUFFLE)); [ -z "$$packages" ] || $(COMPILE) $(TESTS) -shuffle=on $$packages
	@rm $(TO_SHUFFLE)
test-e2e-unit:
	$(RACE) -shuffle=on $(PARALLEL) $(WAITING) $$(go list ./e2e/... | grep -v -E '/suites/|$(subst $() ,|,$(WAITING:./%=/%))')
test-localcluster-unit: test-shuffled
	cd localcluster && $(RACE) -shuffle=on $$(go list ./... | grep -v -E '/test/|$(PACKING)')
	cd localcluster && $(COMPILE) $(TESTS) -shuffle=on .$(PACKING)

# The newest Argo Rollouts controller, and the one of the line before.
CONTROLLERS = ROLLOUTS_CONTROLLER_BIN="$$($(CLUSTER) path argo-rollouts)/bin/rollouts-controller" \
	ROLLOUTS_INSTALL_YAML="$$($(CLUSTER) path argo-rollouts)/share/install.yaml" \
	ROLLOUTS_V1_9_1_CONTROLLER_BIN="$$($(CLUSTER) path argo-rollouts-v1.9.1)/bin/rollouts-controller-v1.9.1" \
	ROLLOUTS_V1_9_1_INSTALL_YAML="$$($(CLUSTER) path argo-rollouts-v1.9.1)/share/install.yaml"

# Those in which the project's own goroutines run inside the test: under the race detector. The others start built programs, as users do, and look at
# them from outside.
# The longest of each come first.
INSIDE  := envoy agent apiserver xds counts feature plugin
LONGEST := cli scenarios held controller refusals
OUTSIDE  = $(LONGEST) $(filter-out $(INSIDE) $(LONGEST),$(notdir $(patsubst %/,%,$(wildcard test/*/))))
# What tests against real parts are told.
PARTS_ENV = FLUXAPPLY_BIN=$(CLUSTER_BIN)/fluxapply ENVOY_BIN="$$($(CLUSTER) path envoy)/bin/envoy" TRAEFIK_BIN="$$($(CLUSTER) path traefik)/bin/traefik" \
	ETCD_BIN="$$($(CLUSTER) path etcd)/bin/etcd" KUBE_APISERVER_BIN="$$($(CLUSTER) path kube-apiserver)/bin/kube-apiserver" \
	$(CONTROLLERS) \
	GATEWAY_API_CRDS="$$($(CLUSTER) path gateway-api)/share/standard" \
	GATEWAY_API_V1_2_1_CRDS="$$($(CLUSTER) path gateway-api-v1.2.1)/share/standard" \
	ROLLOUTS_CHART="$(if $(CHART),$(abspath $(CHART)))" RENDER_CHART="$$($(CLUSTER) path envoy-gateway)/bin/render-chart"
# One package more than there are processors: all wait for parts that start.
PARALLEL = -p $$(($$(nproc) + 1))

.PHONY: test-parts
test-parts: test-inside test-outside ## run the tests against real parts: Envoy, Traefik, the built plugins, the API server, the Rollouts controller

fluxapply = $(COMPILE) $(GREED) go -C tools/fluxapply build -buildvcs=false -ldflags='-s -w' -o $(CLUSTER_BIN)/fluxapply .

.PHONY: tested-parts
tested-parts: preflight tools-cluster
	$(CLUSTER) build --with traefik
	$(fluxapply)

.PHONY: test-inside
test-inside: tested-parts ## run those of them in which this project's own goroutines are the test's, under the race detector
	$(PARTS_ENV) $(RACE) -shuffle=on $(PARALLEL) $(INSIDE:%=./test/%/...)

.PHONY: test-outside
test-outside: tested-parts ## run the rest of them, which look at built programs from outside
	$(PARTS_ENV) $(COMPILE) $(TESTS) -shuffle=on $(PARALLEL) $(OUTSIDE:%=./test/%/...)

.PHONY: test-scenarios
test-scenarios: preflight tools-cluster ## play what happens to Rollouts with the real controller, and print every weight that was stored (ROLLOUTS=1.9.1: with that one)
	$(CLUSTER) build
	ETCD_BIN="$$($(CLUSTER) path etcd)/bin/etcd" KUBE_APISERVER_BIN="$$($(CLUSTER) path kube-apiserver)/bin/kube-apiserver" \
	$(CONTROLLERS) GATEWAY_API_CRDS="$$($(CLUSTER) path gateway-api)/share/standard" ROLLOUTS="$(ROLLOUTS)" \
		$(RACE) -shuffle=on -v -timeout 30m ./test/scenarios

.PHONY: test-cluster
test-cluster: preflight ticket tools-cluster ## run the tests of the embedded cluster itself (asks for root)
	$(CLUSTER) build
	$(COMPILE) $(GREED) go -C localcluster test -c -vet=off -ldflags=-w -o $(CLUSTER_BIN)/residue.test ./test/residue
	$(ROOT) env $(CLUSTER_ENV) $(CLUSTER_BIN)/residue.test -test.timeout=1h -test.v

# The suites on a cluster are compiled before anything is measured. BUILT=1 says that they are what `make suites` made
# of this tree.
SUITES := autoscaling autowire canary faults gateway guide install keda mutants release routes zero
compile = $(COMPILE) $(GREED) go test -c -vet=off -ldflags=-w -o $(CLUSTER_BIN)/$(1).test ./e2e/suites/$(1)
# Call suite with its name, a time limit, environment, which tests, all if that is empty, and further arguments. A choice that no test
# fits is an error.
suite   = $(if $(BUILT),true,$(call compile,$(1))) && cd e2e/suites/$(1) && $(if $(4),$(CLUSTER_BIN)/$(1).test -test.list='$(firstword $(subst /, ,$(4)))' | grep ^Test && )\
	$(CLUSTER_ENV) $(3) $(CLUSTER_BIN)/$(1).test -test.timeout=$(2) -test.v $(if $(4),-test.run='$(4)') $(5)

# Where mutants are built, and found by who runs them.
MUTANTS := MUTANTS_BUILDS=$(CLUSTER_BIN)/mutants

.PHONY: suites
suites: tools-cluster kubectl-plugin ## compile the suites that run on a cluster, and the mutants
	$(foreach s,$(SUITES),$(call compile,$(s)) &&) true
	cd e2e/suites/mutants && $(GREED) $(MUTANTS) $(CLUSTER_BIN)/mutants.test -test.run='Edit' -test.v

# What the suites ask of a cluster that they share: see .ci/stages.mk.
.PHONY: cluster-up-shared
cluster-up-shared: tools-cluster
	$(CLUSTER) up --with envoy-gateway --with traefik --with keda --extra-arg kubelet=--config-dir=$(CURDIR)/e2e/suites/faults/testdata/kubelet.d \
		--forward autoscaled=kedify-proxy.autoscaled.svc.cluster.local:8080 \
		--forward my-gateway=my-gateway.envoy-gateway-system.svc.cluster.local:80 \
		--forward http-gateway=http-gateway.envoy-gateway-system.svc.cluster.local:80 \
		--forward traefik=traefik.traefik.svc.cluster.local:80 \
		--forward ingress=traefik.traefik.svc.cluster.local:80 \
		--forward autowired=autowired-gateway.envoy-gateway-system.svc.cluster.local:80

.PHONY: test-mutants
test-mutants: tools-cluster ## prove that each check of a canary finds the fault it is there for (needs root)
	$(call suite,mutants,20m,$(MUTANTS))

.PHONY: faults
faults: tools-cluster ## kill each part of a running canary 20 times (FAULTS_ROUNDS=1; needs root)
	$(call suite,faults,90m,FAULTS_ROUNDS=$(FAULTS_ROUNDS) FAULTS_SEED=$(FAULTS_SEED) FAULTS_ONLY=$(FAULTS_ONLY))

.PHONY: test-canary
test-canary: tools-cluster kubectl-plugin ## run the canary's edge cases on a real cluster, and see what the kubectl plugin says meanwhile (CANARY=TestTry; needs root)
	$(call suite,canary,20m,,$(CANARY))

.PHONY: test-gateway
test-gateway: tools-cluster ## walk through the Gateway API guides with Envoy Gateway, under load (needs root, about 11 minutes)
	$(call suite,gateway,60m,GATEWAY_WALKS='$(GATEWAY_WALKS)')

.PHONY: test-routes
test-routes: tools-cluster ## measure header routes, mirror routes and Experiments with both routers, under load (needs root, about 6 minutes)
	$(call suite,routes,20m)

.PHONY: test-autoscaling
test-autoscaling: tools-cluster ## have every kind of target follow its requests with KEDA, on a real cluster, and a canary stand idle (AUTOSCALING=Targets; needs root, about 15 minutes)
	$(call suite,autoscaling,30m,KEDA=$(KEDA),$(AUTOSCALING),-test.parallel=3)

.PHONY: test-keda
test-keda: tools-cluster ## have a workload follow what the scaler tells KEDA, and kill each part of that under load, on real clusters (KEDA=2.18.3, 2.20.2, 2.21.0: with that one, which takes 15 minutes to build once)
	$(call suite,keda,60m,KEDA=$(KEDA))
	$(call suite,autoscaling,30m,KEDA=$(KEDA),Kill)

.PHONY: test-install
test-install: tools-cluster snapshot ## install a snapshot in each way of docs/install.md, and uninstall it (needs root; CHART= names argo-helm's chart)
	$(call suite,install,60m,INSTALL_CHART=$(abspath $(CHART)) INSTALL_RENDER="$$($(CLUSTER) path envoy-gateway)/bin/render-chart" \
		INSTALL_ROLLOUTS="$(foreach p,argo-rollouts argo-rollouts-v1.9.1,$(if $(findstring 1.9,$(p)),v1.9.1,v1.10.1)=$$($(CLUSTER) path $(p))/share/install.yaml)",TestInstall)

.PHONY: test-plugin
test-plugin: tools-cluster ## install and uninstall by the kubectl plugin alone, from this checkout's programs: a wake from zero and a measured 20 % between (needs root, about 6 minutes)
	$(call suite,install,15m,,TestByPlugin)

.PHONY: test-release
test-release: tools-cluster snapshot ## make a second snapshot elsewhere and compare, and start the binaries for arm64 by QEMU
	$(call suite,release,60m,RELEASE_QEMU="$$($(CLUSTER) path qemu-user)/usr/bin")

.PHONY: test-zero
test-zero: tools-cluster ## have requests wake an app without replicas, on a real cluster with KEDA of which parts are killed (needs root, about 9 minutes)
	$(call suite,zero,30m,,$(if $(ZERO_ONLY),TestRequestsWakeTheApp/$(ZERO_ONLY)))

.PHONY: test-autowire
test-autowire: tools-cluster ## have the guide's Ingress and an HTTPRoute wired and unwired under load, behind Traefik (INGRESS=contour) and Envoy Gateway, on a real cluster (AUTOWIRE=TestProxies RATE=250; needs root, about 10 minutes)
	$(call suite,autowire,30m,AUTOWIRE_INGRESS=$(INGRESS) AUTOWIRE_RATE=$(RATE),$(AUTOWIRE))

.PHONY: test-guide
test-guide: tools-cluster ## type the canary guide's commands, and compare what they print with the guide (needs root, about 6 minutes)
	$(call suite,guide,30m)

.PHONY: bench
bench: tools-cluster ## measure the routers beside bare clients, a request beside a plain Envoy, and a weight's way to Envoy beside a bare push (about 40 minutes)
	$(CLUSTER) build
	export ETCD_BIN="$$($(CLUSTER) path etcd)/bin/etcd" KUBE_APISERVER_BIN="$$($(CLUSTER) path kube-apiserver)/bin/kube-apiserver" \
		ENVOY_BIN="$$($(CLUSTER) path envoy)/bin/envoy" GATEWAY_API_CRDS="$$($(CLUSTER) path gateway-api)/share/standard"; \
	$(COMPILE) go run ./bench/router; \
	$(COMPILE) go run ./bench/gatewayroutes; \
	$(COMPILE) go run ./bench/routememory; \
	$(COMPILE) go run ./bench/request; \
	$(COMPILE) go run ./bench/propagation; \
	$(COMPILE) go run ./bench/demand; \
	$(COMPILE) go run ./bench/zero

# The folder of the source of the KEDA HTTP add-on, whose interceptor `make bench-zero` then measures beside ours.
HTTP_ADD_ON ?=

.PHONY: bench-request
bench-request: tools-cluster ## measure what a request costs a proxy, beside a plain Envoy (ARGS=--blocks=24; about 15 minutes without)
	$(CLUSTER) build
	ENVOY_BIN="$$($(CLUSTER) path envoy)/bin/envoy" $(COMPILE) go run ./bench/request $(ARGS)

# What the benchmarks of the routers leave as JSON: their limits are printed in one table.
ROUTER_BENCHES := router gatewayroutes controller routememory
BENCHED := $(CACHE)/bench/$(notdir $(CLUSTER_BIN))

.PHONY: bench-routers
bench-routers: tools-cluster ## measure the routers, and print their figures beside the limits in one table (about 25 minutes)
	$(CLUSTER) build
	@mkdir -p $(BENCHED) && rm -f $(ROUTER_BENCHES:%=$(BENCHED)/%.json)
	export ETCD_BIN="$$($(CLUSTER) path etcd)/bin/etcd" KUBE_APISERVER_BIN="$$($(CLUSTER) path kube-apiserver)/bin/kube-apiserver" \
		GATEWAY_API_CRDS="$$($(CLUSTER) path gateway-api)/share/standard" $(CONTROLLERS); \
	$(foreach b,$(ROUTER_BENCHES),$(COMPILE) go run ./bench/$(b) --json $(BENCHED)/$(b).json || test -s $(BENCHED)/$(b).json;) \
	$(COMPILE) go run ./bench/routers $(ROUTER_BENCHES:%=$(BENCHED)/%.json)

.PHONY: bench-demand
bench-demand: tools-cluster ## measure what interceptor and scaler take while nobody asks a thousand HTTPScaledObjects but KEDA (ARGS=--objects=300; about 4 minutes)
	$(CLUSTER) build
	ETCD_BIN="$$($(CLUSTER) path etcd)/bin/etcd" KUBE_APISERVER_BIN="$$($(CLUSTER) path kube-apiserver)/bin/kube-apiserver" \
		ENVOY_BIN="$$($(CLUSTER) path envoy)/bin/envoy" $(COMPILE) go run ./bench/demand $(ARGS)

.PHONY: bench-zero
bench-zero: tools-cluster ## measure apps that are woken by a request, and 10,000 that are held at a time (HTTP_ADD_ON=, ARGS=--only=held; about 8 minutes)
	$(CLUSTER) build
	ETCD_BIN="$$($(CLUSTER) path etcd)/bin/etcd" KUBE_APISERVER_BIN="$$($(CLUSTER) path kube-apiserver)/bin/kube-apiserver" \
		ENVOY_BIN="$$($(CLUSTER) path envoy)/bin/envoy" $(COMPILE) go run ./bench/zero $(if $(HTTP_ADD_ON),--http-add-on=$(HTTP_ADD_ON)) $(ARGS)

##@ A stranger's machine

.PHONY: stranger
stranger: tools-cluster ## clone and run README's commands on a fresh Debian with systemd, Docker and sudo, in QEMU (ARGS=--dirty; needs root)
	$(CLUSTER_BIN)/stranger --repo $(CURDIR) --cache $(CACHE) $(ARGS)

.PHONY: container
container: tools-cluster ## run the demo in a privileged container, without Docker (needs root and mmdebstrap)
	localcluster/container/try.sh "$$($(CLUSTER) path debian)" $(CACHE) make demo ARGS='$(ARGS)'

##@ Code

.PHONY: ci-quick
ci-quick: ## lint, the unit tests, those of our own goroutines among real parts, and the demo's canary: the inner loop of CI
	.ci/run quick

.PHONY: linter
linter: $(GOLANGCI) ## build the linter

.PHONY: parts
parts: preflight tools-cluster ## build what the cluster and its add-ons are made of, but what is built on newer libraries
	$(CLUSTER) build --with traefik --with keda --with argo-rollouts-v1.9.1

# These share next to nothing with the other parts, see localcluster/build/pins_test.go, so they can be built beside them.
.PHONY: gateway-parts
gateway-parts: preflight tools-cluster ## build what is made of newer libraries of Kubernetes: Envoy Gateway, and what applies as Flux does
	$(CLUSTER) path envoy-gateway
	$(fluxapply)

.PHONY: lint
lint: $(GOLANGCI) ## run the linters on all modules
	$(LINT) ./...
	cd localcluster && $(LINT) --config ../.golangci.yml ./...

.PHONY: fmt
fmt: $(GOLANGCI) ## format the code
	$(GOLANGCI) fmt ./...
	cd localcluster && $(GOLANGCI) fmt --config ../.golangci.yml ./...

.PHONY: generate
generate: ## generate deep copies and the CRD from api/, and Go code from .proto files
	go tool -modfile=tools/controller-gen/go.mod controller-gen object:headerFile=/dev/null paths=./api/... crd paths=./api/... output:crd:dir=config/crd
	go tool -modfile=tools/controller-gen/go.mod controller-gen object:headerFile=/dev/null paths=./internal/agent/objects
	go run -C tools/protogen . $(CURDIR) internal/replicas/replicaspb/replicas.proto
	go run -C tools/protogen . $(CURDIR) internal/scaler/externalscaler/externalscaler.proto

.PHONY: reference
reference: ## write the generated parts of docs/reference.md and docs/troubleshooting.md anew
	$(COMPILE) go test -vet=off ./test/docs -run=Reference -update
	$(COMPILE) go test -vet=off ./internal/doctor -run=Troubleshooting -update

.PHONY: picture
picture: ## draw README's moving picture anew (LOG="demo.log": of what another run of make demo has said)
	$(if $(LOG),$(COMPILE) go run ./e2e/cmd/picture record $(LOG) >$(CLUSTER_BIN)/demo.txt && cp $(CLUSTER_BIN)/demo.txt docs/pictures/demo.txt)
	$(COMPILE) go run ./e2e/cmd/picture draw docs/pictures/demo.txt

.PHONY: site
site: $(SITE)/bin/zensical ## build the site of docs/ into dist/site
	python3 tools/site/site.py prepare . dist/site-source
	$(SITE)/bin/zensical build --strict -f dist/site-source/zensical.toml
	@rm -rf dist/site && mv dist/site-source/site dist/site && rm -rf dist/site-source

.PHONY: test-site
test-site: site ## see that no link of the site leads nowhere, and that it loads nothing from elsewhere
	python3 tools/site/site.py check dist/site

.PHONY: test-rules
test-rules: ## have Prometheus' own parser read the alerts
	cd tools/promrules && $(COMPILE) go run . $(CURDIR)/config/prometheus/rules.yaml

# The packages whose tests know -update: go test ends where a package does not. Those of docs/ are with reference.
GOLDEN = $(addprefix ./,$(filter-out test/% internal/doctor,$(shell grep -rl --include='*_test.go' 'flag.Bool."update"' internal cmd e2e | xargs -n 1 dirname | sort -u)))

.PHONY: golden
golden: ## write the golden files anew, and remove those that nothing asks for
	$(COMPILE) $(TESTS) $(GOLDEN) -update

# These are keyed by what pins them.
$(SITE)/bin/zensical:
	python3 -m venv $(SITE)
	$(SITE)/bin/pip install --quiet --disable-pip-version-check --requirement tools/site/requirements.txt

$(GORELEASER):
	@echo "building goreleaser (about 6 minutes, once)"
	$(COMPILE) $(GREED) go -C tools/goreleaser build -buildvcs=false -ldflags='-s -w' -o $@ github.com/goreleaser/goreleaser/v2

$(GOLANGCI):
	@echo "building golangci-lint (about 3 minutes, once)"
	$(COMPILE) $(GREED) go -C tools/golangci-lint build -ldflags='-s -w' -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: preflight
preflight: ## find out whether the embedded cluster can be built and run here
	@sh localcluster/preflight/preflight.sh '$(CACHE)' $(if $(wildcard $(CACHE)/parts),programs,parts)

# A user is asked for the password before minutes are spent, and sudo is reminded
# of it for as long as make runs.
.PHONY: ticket
ticket:
	@$(if $(ROOT),sudo -n true 2>/dev/null || { echo "root is needed: some tests look at the whole machine"; sudo -v; }; \
		(while sleep 50 && kill -0 $$PPID && sudo -n -v; do :; done) </dev/null >/dev/null 2>&1 &)

.PHONY: tools-cluster
tools-cluster:
	@$(COMPILE) $(GREED) go -C localcluster build -buildvcs=false -ldflags "-X main.version=$(VERSION)" -o $(CLUSTER_BIN)/ ./cmd/...
	@$(COMPILE) $(GREED) go build -buildvcs=false -ldflags "-X main.version=$(VERSION)" -o $(DEMO) ./e2e/cmd/demo

# The kubectl plugin, for suites that look at a cluster with it.
.PHONY: kubectl-plugin
kubectl-plugin:
	@$(COMPILE) $(GREED) go build -buildvcs=false -ldflags '$(LDFLAGS)' -o $(CLUSTER_BIN)/ ./cmd/kubectl-http_canary
