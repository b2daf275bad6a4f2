##@ Suites on a cluster

# Each suite starts a cluster of its own and removes it. E2E_SHARED=1 uses the running one.
SUITES := autoscaling autowire canary dashboard faults gateway guide helm install keda migration mutants release routes tls traffic workloads zero
# The suites are compiled before anything runs. BUILT=1 means that `make suites` compiled them from this tree.
compile = $(COMPILE) $(GREED) go test -c -vet=off -ldflags=-w -o $(CLUSTER_BIN)/$(1).test ./e2e/suites/$(1)
# Call suite with its name, a time limit, environment, a pattern of tests (all if it is empty), and further arguments. A
# pattern that matches no test is an error.
suite   = $(if $(BUILT),true,$(call compile,$(1))) && cd e2e/suites/$(1) && $(if $(4),$(CLUSTER_BIN)/$(1).test -test.list='$(firstword $(subst /, ,$(4)))' | grep ^Test && )\
	$(CLUSTER_ENV) $(3) $(CLUSTER_BIN)/$(1).test -test.timeout=$(2) -test.v $(if $(4),-test.run='$(4)') $(5)

.PHONY: suites
suites: tools-cluster kubectl-plugin ## [1 min] compile the suites, and the mutants
	$(foreach s,$(SUITES),$(call compile,$(s)) &&) true
	cd e2e/suites/mutants && $(GREED) $(CLUSTER_BIN)/mutants.test -test.run='^TestBuild$$' -test.v

.PHONY: test-mutants
test-mutants: tools-cluster ## [root, 5 min] prove that each check of a canary detects its fault
	$(call suite,mutants,40m)

# The number of kills per component (20 if it is empty), the seed of the times, and the components.
FAULTS_ROUNDS ?=
FAULTS_SEED   ?=
FAULTS_ONLY   ?=

.PHONY: faults
faults: tools-cluster ## [root, 27 min] kill each component during a canary 20 times (FAULTS_ROUNDS=1 FAULTS_ONLY=apiserver)
	$(call suite,faults,90m,FAULTS_ROUNDS=$(FAULTS_ROUNDS) FAULTS_SEED=$(FAULTS_SEED) FAULTS_ONLY=$(FAULTS_ONLY))

# Which tests: TestCanary, TestRollover, TestCommands or TestTry. ARGS=-update writes the golden outputs of TestCommands.
CANARY ?=

.PHONY: test-dashboard
test-dashboard: tools-cluster kubectl-plugin browser-packages ## [root, 5 min] follow a canary of the guide on the live page in Chromium, from 20 % to its end and to an abort (PICTURES=docs/pictures)
	$(call suite,dashboard,30m,$(BROWSER) PICTURES=$(abspath $(PICTURES)))

.PHONY: test-canary
test-canary: tools-cluster kubectl-plugin ## [root, 6 min] run the canary's edge cases, observed by the kubectl plugin (CANARY=TestTry)
	$(call suite,canary,40m,,$(CANARY),$(ARGS))

# The names of the walks, separated by commas. The implementation: istio, contour, or Envoy Gateway and Traefik if it is
# empty. For Istio, 1.2.1 selects the CRDs of that version of the Gateway API.
GATEWAY_WALKS ?=
GATEWAY       ?=
GATEWAY_CRDS  ?=

.PHONY: test-gateway
test-gateway: tools-cluster ## [root, 11 min] walk through the Gateway API guides on Envoy Gateway and Traefik, under load (GATEWAY=contour GATEWAY_WALKS=my-app, GATEWAY=istio GATEWAY_CRDS=1.2.1)
	$(call suite,gateway,60m,GATEWAY_WALKS='$(GATEWAY_WALKS)' GATEWAY='$(GATEWAY)' GATEWAY_CRDS='$(GATEWAY_CRDS)')

.PHONY: test-routes
test-routes: tools-cluster ## [root, 6 min] measure header routes, mirror routes and Experiments with both routers, under load
	$(call suite,routes,30m)

# The version of KEDA, such as 2.20.2, for test-keda and test-autoscaling. The first build takes 15 minutes.
KEDA ?=
AUTOSCALING ?= Guide|Idle|Targets
# Which tests of test-keda: TestKEDA or TestInterceptorRoute; without a value all, and the kills.
KEDA_TESTS ?=

.PHONY: test-autoscaling
test-autoscaling: tools-cluster ## [root, 15 min] scale every kind of target by its requests with KEDA, and a canary without requests (AUTOSCALING=Targets)
	$(call suite,autoscaling,60m,KEDA=$(KEDA),$(AUTOSCALING),-test.parallel=3)

.PHONY: test-keda
test-keda: tools-cluster ## [root, 15 min] scale a workload by the scaler's reports to KEDA, scale and canary by InterceptorRoutes, and kill each component under load (KEDA=2.18.3, 2.20.2, 2.21.0, KEDA_TESTS=TestInterceptorRoute)
	$(call suite,keda,60m,KEDA=$(KEDA),$(KEDA_TESTS),-test.parallel=3)
	$(if $(KEDA_TESTS),,$(call suite,autoscaling,60m,KEDA=$(KEDA),Kill))

.PHONY: test-install
test-install: tools-cluster snapshot $(HELM) ## [root, 8 min] install a snapshot by each method of docs/how-to/install.md, and uninstall it (CHART= is argo-helm's chart)
	$(call suite,install,60m,$(HELM_ENV) INSTALL_CHART=$(abspath $(CHART)) \
		INSTALL_ROLLOUTS="$(foreach p,argo-rollouts argo-rollouts-v1.9.1,$(if $(findstring 1.9,$(p)),v1.9.1,v1.10.1)=$$($(CLUSTER) path $(p))/share/install.yaml)",TestInstall)

.PHONY: test-plugin
test-plugin: tools-cluster ## [root, 4 min] install and uninstall with the kubectl plugin only, from this checkout's programs
	$(call suite,install,30m,,TestByPlugin)

# Which tests: TestInstall, TestUpgrade, TestSideBySide, TestTakeOver, TestValues or TestRestore.
HELM_TESTS ?=
# The version that TestUpgrade and TestSideBySide start from, as a tag or a commit: the latest release, or until there
# is one, an earlier commit.
PREVIOUS ?= $(or $(shell git describe --tags --abbrev=0 --match='v[0-9]*' HEAD~1 2>/dev/null),09096f9b756c)
PREVIOUS_SOURCE = $(CACHE)/previous/$(PREVIOUS)

.PHONY: test-helm
test-helm: tools-cluster kubectl-plugin $(HELM) ## [root, 40 min] install, upgrade, roll back and uninstall the chart with Helm in a cluster, under load (HELM_TESTS=TestUpgrade PREVIOUS=v0.1.0)
	rm -rf $(PREVIOUS_SOURCE) && mkdir -p $(PREVIOUS_SOURCE)
	git archive --output=$(PREVIOUS_SOURCE).tar $(PREVIOUS) && tar -x -C $(PREVIOUS_SOURCE) -f $(PREVIOUS_SOURCE).tar
	$(call suite,helm,90m,$(HELM_SUITE_ENV),$(HELM_TESTS))
HELM_SUITE_ENV = $(HELM_ENV) HELM_PREVIOUS=$(PREVIOUS_SOURCE) HELM_ROLLOUTS="$$($(CLUSTER) path argo-rollouts)/share/install.yaml"

.PHONY: test-migration
test-migration: tools-cluster kubectl-plugin $(HELM) ## [root, 6 min] move an application from the KEDA HTTP add-on to this project and back, by the commands of docs/how-to/migrate.md, under load
	$(call suite,migration,60m,$(HELM_ENV) MIGRATION_ADD_ON="$$($(CLUSTER) path http-add-on)/share/config")

.PHONY: test-release
test-release: tools-cluster check-release snapshot ## [root, 9 min] check GoReleaser's configuration, build a second snapshot elsewhere and compare, start the binaries for arm64 in QEMU, and rehearse a release
	$(call suite,release,60m,RELEASE_QEMU="$$($(CLUSTER) path qemu-user)/usr/bin")
	$(MAKE) --no-print-directory test-rehearsal

.PHONY: test-rehearsal
test-rehearsal: $(GORELEASER) $(HELM) $(COSIGN) $(KREW)/krew ## [4 min] tag a clone, and do everything of its release except the publication: files, Krew, chart and images in a local registry, signatures
	cd localcluster && LOCALCLUSTER_REPO=$(CURDIR) HELM_BIN=$(HELM) COSIGN_BIN=$(COSIGN) KREW_BIN=$(KREW) $(COMPILE) $(TESTS) -count=1 -v -timeout=60m ./test/rehearsal

# A word in the names of the subtests to run, such as killed.
ZERO_ONLY ?=

.PHONY: test-zero
test-zero: tools-cluster ## [root, 9 min] wake an app without replicas by requests, with KEDA, while components are killed (ZERO_ONLY=killed)
	$(call suite,zero,60m,,$(if $(ZERO_ONLY),TestRequestsWakeTheApp/$(ZERO_ONLY)))

.PHONY: test-tls
test-tls: tools-cluster ## [root, 6 min] replace the certificate of the interceptor during a canary under load, next to proxies without TLS
	$(call suite,tls,40m)

# Which tests, as a pattern; the Ingress controller, traefik or contour, or istio for a VirtualService; requests per second on each of the two paths.
AUTOWIRE ?=
INGRESS  ?= traefik
RATE     ?=

.PHONY: test-autowire
test-autowire: tools-cluster ## [root, 20 min] autowire an Ingress and an HTTPRoute, and restore them, under load (AUTOWIRE=TestProxies INGRESS=contour RATE=250; INGRESS=istio for a VirtualService)
	$(call suite,autowire,60m,AUTOWIRE_INGRESS=$(INGRESS) AUTOWIRE_RATE=$(RATE),$(AUTOWIRE))

.PHONY: test-traffic
test-traffic: tools-cluster ## [root, 15 min] compare what works behind an Ingress with kedify-proxy: ab, WebSockets, gRPC, slow responses, sticky users
	$(call suite,traffic,60m,TRAFFIC_AB="$$($(CLUSTER) path apache2-utils)/usr")

# Which test, as a pattern: TestTutorial, TestGuide, TestPublicSample or TestIngress.
GUIDE ?=

.PHONY: test-guide
test-guide: tools-cluster ## [root, 8 min] run the commands of the tutorial and of the guides, and compare their output with the pages (GUIDE=TestIngress)
	$(call suite,guide,60m,,$(GUIDE))

# Which test, as a pattern: workloadRef, separate or blue-green.
WORKLOADS ?=

.PHONY: test-workloads
test-workloads: tools-cluster ## [root, 5 min] convert a Deployment to a Rollout by both methods of docs/how-to/deployment-to-rollout.md, and promote a blue-green Rollout, under load (WORKLOADS=blue-green)
	$(call suite,workloads,40m,,$(if $(WORKLOADS),TestWorkloads/$(WORKLOADS)))
