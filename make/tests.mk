##@ Tests

# This package compresses all images, which takes five times as long under the race detector.
PACKING := /cmd/localcluster
MODULE  := github.com/kedify/argo-rollouts-plugin

# Pure packages start no goroutines, so the race detector finds nothing in them, and makes their property tests ten
# times slower.
PURE := internal/(model(/.*)?|controlplane/(metrics|resolve|translate)|cli/doctor|agent/(autowire|desired|proxies)|router/gatewayapi/route)

.PHONY: test-unit
test-unit: ## [3 min] run the tests that need nothing but Go
	$(RACE) $(SHUFFLED) $$(go list ./... | grep -v -E '^$(MODULE)/(test/|e2e/suites/|$(PURE)$$)') ./test/kit/... ./test/load/...
	$(COMPILE) $(TESTS) $(SHUFFLED) $$(go list ./... | grep -E '^$(MODULE)/$(PURE)$$')
	cd localcluster && $(RACE) $(SHUFFLED) $$(go list ./... | grep -v -E '/test/|$(PACKING)')
	cd localcluster && $(COMPILE) $(TESTS) $(SHUFFLED) .$(PACKING)
SHUFFLED = $(if $(SHUFFLE),-shuffle=$(SHUFFLE))

# Tests on real components. Those with this project's goroutines in the test process use the race detector. The others
# start built programs, as users do. The longest come first.
INSIDE  := envoy agent apiserver xds counts feature plugin
LONGEST := wrongsetups cli scenarios held controller refusals
OUTSIDE  = $(LONGEST) $(filter-out kit load argocd browser $(INSIDE) $(LONGEST),$(notdir $(patsubst %/,%,$(wildcard test/*/))))
# The newest Argo Rollouts controller, and the one of the previous minor version.
CONTROLLERS = ROLLOUTS_CONTROLLER_BIN="$$($(CLUSTER) path argo-rollouts)/bin/rollouts-controller" \
	ROLLOUTS_INSTALL_YAML="$$($(CLUSTER) path argo-rollouts)/share/install.yaml" \
	ROLLOUTS_V1_9_1_CONTROLLER_BIN="$$($(CLUSTER) path argo-rollouts-v1.9.1)/bin/rollouts-controller-v1.9.1" \
	ROLLOUTS_V1_9_1_INSTALL_YAML="$$($(CLUSTER) path argo-rollouts-v1.9.1)/share/install.yaml"
API_SERVER  = ETCD_BIN="$$($(CLUSTER) path etcd)/bin/etcd" KUBE_APISERVER_BIN="$$($(CLUSTER) path kube-apiserver)/bin/kube-apiserver"
GATEWAY_API = GATEWAY_API_CRDS="$$($(CLUSTER) path gateway-api)/share/standard"
ENVOY       = ENVOY_BIN="$$($(CLUSTER) path envoy)/bin/envoy"
# The settings of tests on real components.
PARTS_ENV = FLUXAPPLY_BIN=$(CLUSTER_BIN)/fluxapply OTELCOL_BIN=$(CLUSTER_BIN)/otelcol $(ENVOY) TRAEFIK_BIN="$$($(CLUSTER) path traefik)/bin/traefik" \
	$(API_SERVER) $(CONTROLLERS) $(GATEWAY_API) \
	GATEWAY_API_V1_2_1_CRDS="$$($(CLUSTER) path gateway-api-v1.2.1)/share/standard" \
	KEDA_PART="$$($(CLUSTER) path keda)" HTTP_ADD_ON="$(if $(ADD_ON),$(abspath $(ADD_ON)))" KUBECTL_BIN="$$($(CLUSTER) path kubectl)/bin/kubectl" \
	ROLLOUTS_CHART="$(if $(CHART),$(abspath $(CHART)))" RENDER_CHART="$$($(CLUSTER) path envoy-gateway)/bin/render-chart"
# Tests of the chart: test/chart needs helm only, test/helm installs it on an API server.
HELM_ENV = HELM_BIN=$(HELM)
# One package more than processors: all wait for components to start.
PARALLEL = -p $$(($$(nproc) + 1))

.PHONY: test-parts
test-parts: test-inside test-outside ## [6 min] run the tests on real components: Envoy, Traefik, the API server, the Rollouts controller, the built plugins

.PHONY: tested-parts
tested-parts: preflight tools-cluster
	$(CLUSTER) build --with traefik --with argo-rollouts-v1.9.1 --with keda
	$(fluxapply)
	$(otelcol)

.PHONY: test-inside
test-inside: tested-parts ## [3 min] run the tests of test-parts that run this project's code in the test process, under the race detector
	$(PARTS_ENV) $(RACE) -shuffle=on $(PARALLEL) $(INSIDE:%=./test/%/...)

.PHONY: test-outside
test-outside: tested-parts $(HELM) ## [3 min] run the other tests of test-parts, which start built programs, and the attacks on the scaler
	$(PARTS_ENV) $(HELM_ENV) $(COMPILE) $(TESTS) -shuffle=on $(PARALLEL) $(OUTSIDE:%=./test/%/...) ./cmd/scaler

# The command of `make test-one` for the package in folder $(1).
ONE = -count=1 -v $(if $(RUN),-run '$(RUN)')
one = $(if $(filter e2e/suites/%,$(1)),$(MAKE) --no-print-directory tools-cluster kubectl-plugin $(if $(filter %/helm,$(1)),$(HELM)) && $(call suite,$(notdir $(1)),60m,$(if $(filter %/helm,$(1)),$(HELM_SUITE_ENV)),$(RUN)),\
	$(if $(filter localcluster/%,$(1)),cd localcluster && $(COMPILE) $(TESTS) $(ONE) $(1:localcluster/%=./%),\
	$(if $(filter test/kit/% test/load/%,$(1)),$(RACE) $(ONE) ./$(1),\
	$(if $(filter $(INSIDE:%=test/%),$(1)),$(MAKE) --no-print-directory tested-parts && $(PARTS_ENV) $(RACE) $(ONE) ./$(1),\
	$(if $(filter test/chart,$(1)),$(MAKE) --no-print-directory $(HELM) && $(HELM_ENV) $(COMPILE) $(TESTS) $(ONE) ./$(1),\
	$(if $(filter test/browser,$(1)),$(MAKE) --no-print-directory test-browser RUN='$(RUN)',\
	$(if $(filter test/argocd,$(1)),$(MAKE) --no-print-directory test-argocd ARGOCD='$(RUN)',\
	$(if $(filter test/%,$(1)),$(MAKE) --no-print-directory tested-parts $(if $(filter test/helm,$(1)),$(HELM)) && $(PARTS_ENV) $(HELM_ENV) $(COMPILE) $(TESTS) $(ONE) ./$(1),\
	$(RACE) $(ONE) ./$(1)))))))))

# The only version of Argo Rollouts, such as 1.9.1, for all scenarios. Without it the newest one runs all of them, and
# the previous one runs a few.
ROLLOUTS ?=

# Versions that only these scenarios run. They require Go 1.26.10, which the go command downloads.
OTHER_CONTROLLER = $(if $(filter 1.9.3 1.10.2,$(ROLLOUTS)),ROLLOUTS_OTHER_CONTROLLER_BIN="$$($(CLUSTER) path argo-rollouts-v$(ROLLOUTS))/bin/rollouts-controller-v$(ROLLOUTS)" \
	ROLLOUTS_OTHER_INSTALL_YAML="$$($(CLUSTER) path argo-rollouts-v$(ROLLOUTS))/share/install.yaml")

.PHONY: test-scenarios
test-scenarios: preflight tools-cluster ## [3 min] run the scenarios of Rollouts with the real controller, and print every stored weight (ROLLOUTS=1.9.1, 1.9.3, 1.10.1, 1.10.2)
	$(CLUSTER) build --with argo-rollouts-v1.9.1
	$(API_SERVER) $(CONTROLLERS) $(OTHER_CONTROLLER) $(GATEWAY_API) ROLLOUTS="$(ROLLOUTS)" $(RACE) -shuffle=on -v -timeout 30m ./test/scenarios

# The browser of test-browser, and the folder of its packages from npm, which is outside of the repository.
BROWSER_PACKAGES = $(CLUSTER_BIN)/browser
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser)

BROWSER = CHROMIUM_BIN=$(CHROMIUM) BROWSER_PACKAGES=$(BROWSER_PACKAGES)

.PHONY: browser-packages
browser-packages:
	$(if $(CHROMIUM),,$(error install chromium, such as by apt-get install chromium, or set CHROMIUM to its path))
	mkdir -p $(BROWSER_PACKAGES) && cp test/browser/package.json test/browser/package-lock.json $(BROWSER_PACKAGES)
	cd $(BROWSER_PACKAGES) && npm ci --ignore-scripts --no-audit --no-fund

.PHONY: test-browser
test-browser: preflight tools-cluster browser-packages ## [3 min] follow a canary and filter 10,000 objects on the live page, in Chromium (needs chromium, node and npm; RUN=TestCanary)
	$(CLUSTER) build
	$(BROWSER) $(ENVOY) $(API_SERVER) $(COMPILE) $(TESTS) -count=1 -v $(if $(RUN),-run '$(RUN)') ./test/browser

# Which tests: TestRecipes, TestWithoutRecipe, TestRouteInGit, TestAgentRecipes or TestAgentWithoutRecipe.
ARGOCD ?=

.PHONY: test-argocd
test-argocd: preflight tools-cluster ## [5 min, 9 min more once] run Argo CD against canaries and the agent, with the recipes of the pages, and print who wrote what (ARGOCD=TestRecipes)
	$(CLUSTER) build
	ARGOCD_PART="$$($(CLUSTER) path argo-cd)" $(API_SERVER) $(GATEWAY_API) \
		ROLLOUTS_CONTROLLER_BIN="$$($(CLUSTER) path argo-rollouts)/bin/rollouts-controller" \
		ROLLOUTS_INSTALL_YAML="$$($(CLUSTER) path argo-rollouts)/share/install.yaml" \
		$(COMPILE) $(TESTS) -count=1 -v -parallel=16 $(if $(ARGOCD),-run '$(ARGOCD)') ./test/argocd

.PHONY: test-cluster
test-cluster: preflight ticket tools-cluster ## [root, 2 min] run the tests of the embedded cluster itself
	$(CLUSTER) build
	$(COMPILE) $(GREED) go -C localcluster test -c -vet=off -ldflags=-w -o $(CLUSTER_BIN)/residue.test ./test/residue
	$(ROOT) env $(CLUSTER_ENV) $(CLUSTER_BIN)/residue.test -test.timeout=1h -test.v
