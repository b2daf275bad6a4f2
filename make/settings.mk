# Where things are built, how they are compiled, and the variables that users set.

CACHE      ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kedify-localcluster
GOLANGCI   := $(CACHE)/tools/golangci-lint-$(shell sha256sum tools/golangci-lint/go.sum | cut -c1-12)
SITE       := $(CACHE)/tools/site-$(shell sha256sum tools/site/requirements.txt | cut -c1-12)
VALE       := $(CACHE)/tools/vale-$(shell sha256sum tools/vale/go.sum | cut -c1-12)
GORELEASER := $(CACHE)/tools/goreleaser-$(shell sha256sum tools/goreleaser/go.sum | cut -c1-12)
# How everything is compiled, so that all of it shares the compiler's cache with the components of the cluster: see
# localcluster/build/gotools.go. The race detector needs cgo, so what it compiles is cached separately.
FLAGS   := -trimpath -tags=grpcnotrace '-gcflags=all=-dwarf=false'
COMPILE := CGO_ENABLED=0 GOFLAGS="$(FLAGS)"
# A compiler or a linter does not have to collect garbage as often as a server, if there is memory for it:
# localcluster/build/greed.go.
GREED := $(shell awk -v cpus="$$(nproc)" '$$1 == "MemTotal:" { share = $$2 / cpus; if (share >= 4194304) printf "GOGC=800 GOMEMLIMIT=%dKiB", share / 4; else printf "GOGC=200" }' /proc/meminfo)
# Only the compiler gets these settings: what is tested has Go's own collector. Vet is one of the linters. No debugger
# reads a test's program: without its tables the linker takes three quarters of the time.
TESTS   := go test -timeout=30m -vet=off -ldflags=-w -toolexec 'env $(GREED)'
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
# The settings of tests that run a cluster.
CLUSTER_ENV  := LOCALCLUSTER_BIN=$(LOCALCLUSTER) LOCALCLUSTER_CACHE=$(CACHE) LOCALCLUSTER_REPO=$(CURDIR)
# How a user becomes root, for tests of the whole machine. The user built what they run.
ROOT := $(if $(filter 0,$(shell id -u)),,sudo)

# Where `make build` writes the plugins.
PLUGIN         ?= rollouts-plugin-kedify
GATEWAY_PLUGIN ?= gatewayapi-plugin
# Where the demo's cluster comes from: embedded, existing ($KUBECONFIG), kind.
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
