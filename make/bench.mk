##@ Benchmarks

# What the benchmarks leave as JSON: their limits are printed in one table, and drawn in docs/dev/performance. Some are
# other measurements of bench/propagation. The table reports one that has failed without results.
ROUTER_BENCHES := router gatewayroutes controller routememory
BENCHES        := $(ROUTER_BENCHES) request propagation demand
ALL_BENCHES    := $(BENCHES) accuracy reporting envoygateway zero
BENCHED        := $(CACHE)/bench/$(notdir $(CLUSTER_BIN))
bench_one       = $(COMPILE) go run ./bench/$(or $(3),$(1)) $(2) --json $(BENCHED)/$(1).json || :;
bench_table     = $(COMPILE) go run ./bench/table $(2) $(foreach b,$(1),$(b)=$(BENCHED)/$(b).json)

GATEWAY_SHAPES     := 1x100,1x1000,1x3000
ENVOY_GATEWAY       = ENVOY_GATEWAY_PART="$$($(CLUSTER) path envoy-gateway)"
bench_accuracy      = $(call bench_one,accuracy,--accuracy=100000 --shapes=1x100,propagation)
bench_reporting     = $(call bench_one,reporting,--reporters=100 --shapes=100x10000 $(1),propagation)
bench_envoygateway  = $(call bench_one,envoygateway,--envoy-gateway="$$ENVOY_GATEWAY_PART" --crowd=0 --shapes=$(GATEWAY_SHAPES) $(1),propagation)

.PHONY: bench
bench: tools-cluster ## [110 min] measure everything next to references and limits, and write one table, JSON and images to docs/dev/performance (HTTP_ADD_ON=)
	$(CLUSTER) build
	@mkdir -p $(BENCHED) docs/dev/performance && rm -f $(ALL_BENCHES:%=$(BENCHED)/%.json)
	export $(API_SERVER) $(ENVOY) $(GATEWAY_API) $(ENVOY_GATEWAY) $(CONTROLLERS); \
	$(foreach b,$(BENCHES),$(call bench_one,$(b))) \
	$(bench_accuracy) $(bench_reporting) $(bench_envoygateway) \
	$(call bench_one,zero,$(if $(HTTP_ADD_ON),--http-add-on=$(HTTP_ADD_ON))) \
	$(call bench_table,$(ALL_BENCHES),--folder docs/dev/performance)

.PHONY: bench-envoygateway
bench-envoygateway: tools-cluster ## [12 min] measure a weight by Envoy Gateway next to the interceptor, among 100, 1000 and 3000 routes
	$(CLUSTER) build
	@mkdir -p $(BENCHED) && rm -f $(BENCHED)/envoygateway.json
	export $(API_SERVER) $(ENVOY) $(GATEWAY_API) $(ENVOY_GATEWAY); $(call bench_envoygateway,$(ARGS)) $(call bench_table,envoygateway)

.PHONY: bench-reporting
bench-reporting: tools-cluster ## [12 min] measure a weight among 10,000 HTTPScaledObjects, while a hundred proxies send metrics of all their clusters
	$(CLUSTER) build
	@mkdir -p $(BENCHED) && rm -f $(BENCHED)/reporting.json
	export $(API_SERVER) $(ENVOY); $(call bench_reporting,$(ARGS)) $(call bench_table,reporting)

.PHONY: bench-accuracy
bench-accuracy: tools-cluster ## [4 min] compare the splits of constant weights with a static Envoy's, and count requests to a side without weight
	$(CLUSTER) build
	@mkdir -p $(BENCHED) && rm -f $(BENCHED)/accuracy.json
	export $(API_SERVER) $(ENVOY); $(bench_accuracy) $(call bench_table,accuracy)

.PHONY: bench-soak
bench-soak: tools-cluster ## [70 min] change weights and endpoints for an hour, and compare the interceptor at the end with before (SOAK=10m ARGS=--shapes=100x10000)
	$(CLUSTER) build
	@mkdir -p $(BENCHED) docs/dev/performance/soak && rm -f $(BENCHED)/soak.json
	export $(API_SERVER) $(ENVOY); \
	$(call bench_one,soak,--soak=$(SOAK) --shapes=100x10000 $(ARGS),propagation) \
	$(call bench_table,soak,--folder docs/dev/performance/soak)

# How long make bench-soak changes weights and endpoints.
SOAK ?= 1h

# A folder with the source of the KEDA HTTP add-on. If it is set, `make bench-zero` measures its interceptor, too.
HTTP_ADD_ON ?=

.PHONY: bench-request
bench-request: tools-cluster ## [17 min] measure the cost of a request in a proxy, with and without stickiness, compared with a plain Envoy (ARGS=--blocks=24)
	$(CLUSTER) build
	$(ENVOY) $(COMPILE) go run ./bench/request $(ARGS)

.PHONY: bench-propagation
bench-propagation: tools-cluster ## [25 min] measure the propagation of a weight, compared with a bare server (ARGS='--tls --shapes=1x100')
	$(CLUSTER) build
	$(API_SERVER) $(ENVOY) $(COMPILE) go run ./bench/propagation $(ARGS)

.PHONY: bench-routers
bench-routers: tools-cluster ## [25 min] measure the routers, and print the values next to their limits in one table
	$(CLUSTER) build
	@mkdir -p $(BENCHED) && rm -f $(ROUTER_BENCHES:%=$(BENCHED)/%.json)
	export $(API_SERVER) $(GATEWAY_API) $(CONTROLLERS); \
	$(foreach b,$(ROUTER_BENCHES),$(call bench_one,$(b))) \
	$(call bench_table,$(ROUTER_BENCHES))

.PHONY: bench-demand
bench-demand: tools-cluster ## [4 min] measure interceptor and scaler while only KEDA reads a thousand HTTPScaledObjects (ARGS=--objects=300)
	$(CLUSTER) build
	$(API_SERVER) $(ENVOY) $(COMPILE) go run ./bench/demand $(ARGS)

.PHONY: bench-zero
bench-zero: tools-cluster ## [8 min] measure apps that a request wakes, and 10,000 queued requests (HTTP_ADD_ON=, ARGS=--only=held)
	$(CLUSTER) build
	$(API_SERVER) $(ENVOY) $(COMPILE) go run ./bench/zero $(if $(HTTP_ADD_ON),--http-add-on=$(HTTP_ADD_ON)) $(ARGS)

.PHONY: bench-join
bench-join: tested-parts ## [2 min] measure the interceptor's memory while 50 proxies join with 10,000 HTTPScaledObjects, next to its limit
	$(PARTS_ENV) $(COMPILE) $(TESTS) -count=1 -v -run=TestJoin ./test/footprint
