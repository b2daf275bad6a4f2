# Output folders, compiler flags, and the variables that users set.

CACHE      ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kedify-localcluster
GOLANGCI   := $(CACHE)/tools/golangci-lint-$(shell sha256sum tools/golangci-lint/go.sum | cut -c1-12)
SITE       := $(CACHE)/tools/site-$(shell sha256sum tools/site/requirements.txt | cut -c1-12)
VALE       := $(CACHE)/tools/vale-$(shell sha256sum tools/vale/go.sum | cut -c1-12)
VULNCHECK  := $(CACHE)/tools/govulncheck-$(shell sha256sum tools/govulncheck/go.sum | cut -c1-12)
ACTIONLINT := $(CACHE)/tools/actionlint-$(shell sha256sum tools/actionlint/go.sum | cut -c1-12)
HELM       := $(CACHE)/tools/helm-$(shell sha256sum tools/helm/go.sum | cut -c1-12)
COSIGN     := $(CACHE)/tools/cosign-$(shell sha256sum tools/cosign/go.sum | cut -c1-12)
KREW       := $(CACHE)/tools/krew-$(shell sha256sum tools/krew/go.sum | cut -c1-12)
GORELEASER := $(CACHE)/tools/goreleaser-$(shell sha256sum tools/goreleaser/go.sum | cut -c1-12)
# The compiler flags of everything, so that all programs share the compiler's cache with the components of the cluster:
# see localcluster/build/gotools.go. The race detector needs cgo, so its packages are cached separately.
FLAGS   := -trimpath -tags=grpcnotrace '-gcflags=all=-dwarf=false'
COMPILE := CGO_ENABLED=0 GOFLAGS="$(FLAGS)"
# With enough memory, a compiler or a linter needs fewer garbage collections than a server:
# localcluster/build/compilerenv.go.
GREED := $(shell awk -v cpus="$$(nproc)" '$$1 == "MemTotal:" { share = $$2 / cpus; if (share >= 4194304) printf "GOGC=800 GOMEMLIMIT=%dKiB", share / 4; else printf "GOGC=200" }' /proc/meminfo)
# Only the compiler gets these settings: tests run with Go's defaults. Vet is one of the linters. Test programs need no
# debugger tables: without them the linker takes three quarters of the time.
TESTS   := go test -timeout=30m -vet=off -ldflags=-w -toolexec 'env $(GREED)'
RACE    := GOFLAGS="$(FLAGS)" $(TESTS) -race
LINT    := $(COMPILE) $(if $(findstring LIMIT,$(GREED)),GOGC=400) $(GOLANGCI) run --allow-parallel-runners
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   := -s -w -X main.version=$(VERSION)
GOBUILD   := $(COMPILE) go build -buildvcs=false -ldflags '$(LDFLAGS)'

# The cluster's own programs, per checkout: other checkouts may have other versions.
CLUSTER_BIN  := $(CACHE)/bin/$(shell printf %s "$(CURDIR)" | sha256sum | cut -c1-12)
LOCALCLUSTER := $(CLUSTER_BIN)/localcluster
DEMO         := $(CLUSTER_BIN)/demo
CLUSTER      := $(LOCALCLUSTER) --repo $(CURDIR) --cache $(CACHE)
# The settings of tests that run a cluster.
CLUSTER_ENV  := LOCALCLUSTER_BIN=$(LOCALCLUSTER) LOCALCLUSTER_CACHE=$(CACHE) LOCALCLUSTER_REPO=$(CURDIR)
# How a user becomes root, for tests of the whole machine. The user builds the programs.
ROOT := $(if $(filter 0,$(shell id -u)),,sudo)

# The version of Kubernetes of the embedded cluster: one of localcluster/build/components.go.
KUBERNETES ?=
export LOCALCLUSTER_KUBERNETES := $(KUBERNETES)

# Where `make build` writes the plugins.
PLUGIN         ?= rollouts-plugin-kedify
GATEWAY_PLUGIN ?= gatewayapi-plugin
# The provider of the demo's cluster: embedded, existing ($KUBECONFIG), kind.
PROVIDER ?= embedded
# Arguments for the demo, such as ARGS=--keep, and for benchmarks.
ARGS ?=
# The package and the pattern of `make test-one`.
PKG ?=
RUN ?=
# SHUFFLE=on runs unit tests in a random order. Go does not cache their results then.
SHUFFLE ?=
# The folder of argo-helm's chart argo-rollouts: the tests of Option A in docs/how-to/install-plugins.md need it.
CHART ?= $(wildcard $(CURDIR)/../shared/peers/argo-rollouts)
# The folder with the source of the KEDA HTTP add-on: the tests of docs/how-to/migrate.md need its manifests.
ADD_ON ?= $(wildcard $(CURDIR)/../shared/peers/http-add-on)
