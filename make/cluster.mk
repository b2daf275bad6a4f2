##@ The embedded cluster

.PHONY: cluster-up
cluster-up: preflight tools-cluster ## [root, 1 min] start the embedded cluster, and build what is missing
	$(CLUSTER) up

.PHONY: cluster-down
cluster-down: tools-cluster ## [root] stop the embedded cluster, and remove everything that it left
	$(CLUSTER) down

.PHONY: cluster-status
cluster-status: tools-cluster ## show how to reach the embedded cluster
	$(CLUSTER) status

.PHONY: preflight
preflight: ## check whether the embedded cluster can be built and run here
	@sh localcluster/preflight/preflight.sh '$(CACHE)' $(if $(wildcard $(CACHE)/parts),programs,parts)

.PHONY: parts
parts: preflight tools-cluster ## [15 min once] build the components of the cluster and its add-ons, except gateway-parts
	$(CLUSTER) build --with traefik --with keda --with argo-rollouts-v1.9.1

# These share few packages with the other components, see localcluster/build/pins_test.go: CI builds both in parallel.
# The versions of KEDA that `make ci-full` tests, in addition to the cluster's own.
KEDA_VERSIONS := 2.18.3 2.20.2 2.21.0

.PHONY: keda-parts
keda-parts: preflight tools-cluster ## [15 min once] build the other versions of KEDA that test-keda supports
	for version in $(KEDA_VERSIONS); do $(CLUSTER) build --with keda-v$$version || exit 1; done

.PHONY: gateway-parts
gateway-parts: preflight tools-cluster ## [8 min once] build what uses newer libraries of Kubernetes: Envoy Gateway, and an apply like Flux's
	$(CLUSTER) path envoy-gateway
	$(fluxapply)

.PHONY: istio-parts
istio-parts: preflight tools-cluster ## [3 min once] build Istio, which shares most libraries with gateway-parts
	$(CLUSTER) path istio

.PHONY: argocd-parts
argocd-parts: preflight tools-cluster ## [9 min once] build Argo CD, which shares libraries with gateway-parts
	$(CLUSTER) path argo-cd

.PHONY: contour-parts
contour-parts: preflight tools-cluster ## [3 min once] build Contour
	$(CLUSTER) path contour

fluxapply = $(COMPILE) $(GREED) go -C tools/fluxapply build -buildvcs=false -ldflags='-s -w' -o $(CLUSTER_BIN)/fluxapply .

# The collector of the tests of traces: the modules of the OpenTelemetry Collector with a receiver and an exporter.
otelcol = $(COMPILE) $(GREED) go -C tools/otelcol build -buildvcs=false -ldflags='-s -w' -o $(CLUSTER_BIN)/otelcol .

# The cluster that the suites share in CI, with all of their requirements.
.PHONY: cluster-up-shared
cluster-up-shared: tools-cluster
	$(CLUSTER) up --with envoy-gateway --with traefik --with keda --extra-arg kubelet=--config-dir=$(CURDIR)/e2e/suites/faults/testdata/kubelet.d \
		--forward autoscaled=kedify-proxy.autoscaled.svc.cluster.local:8080 \
		--forward my-gateway=my-gateway.envoy-gateway-system.svc.cluster.local:80 \
		--forward http-gateway=http-gateway.envoy-gateway-system.svc.cluster.local:80 \
		--forward traefik=traefik.traefik.svc.cluster.local:80 \
		--forward ingress=traefik.traefik.svc.cluster.local:80 \
		--forward autowired=autowired-gateway.envoy-gateway-system.svc.cluster.local:80

# Prompts for the sudo password before a long build, and renews sudo's ticket as long as make runs.
.PHONY: ticket
ticket:
	@$(if $(ROOT),sudo -n true 2>/dev/null || { echo "root is needed: some tests look at the whole machine"; sudo -v; }; \
		(while sleep 50 && kill -0 $$PPID && sudo -n -v; do :; done) </dev/null >/dev/null 2>&1 &)

.PHONY: tools-cluster
tools-cluster:
	@$(COMPILE) $(GREED) go -C localcluster build -buildvcs=false -ldflags "-X main.version=$(VERSION)" -o $(CLUSTER_BIN)/ ./cmd/...
	@$(COMPILE) $(GREED) go build -buildvcs=false -ldflags "-X main.version=$(VERSION)" -o $(DEMO) ./e2e/cmd/demo

# The kubectl plugin, for suites that use it.
.PHONY: kubectl-plugin
kubectl-plugin:
	@$(COMPILE) $(GREED) go build -buildvcs=false -ldflags '$(LDFLAGS)' -o $(CLUSTER_BIN)/ ./cmd/kubectl-http_canary

.PHONY: cleanvm
cleanvm: tools-cluster ## [root, 60 min] clone and run README's commands on a fresh Debian with systemd, Docker and sudo, in QEMU (ARGS=--dirty)
	$(CLUSTER_BIN)/cleanvm --repo $(CURDIR) --cache $(CACHE) $(ARGS)

# The former name of cleanvm.
.PHONY: stranger
stranger: cleanvm

.PHONY: container
container: tools-cluster ## [root, 5 min] run the demo in a privileged container, without Docker (needs mmdebstrap)
	localcluster/container/try.sh "$$($(CLUSTER) path debian)" $(CACHE) make demo ARGS='$(ARGS)'
