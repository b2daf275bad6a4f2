##@ Benchmarks

.PHONY: bench
bench: tools-cluster ## [50 min] measure the routers, a request, and the propagation of a weight, each compared with a minimal implementation
	$(CLUSTER) build
	export $(API_SERVER) $(ENVOY) $(GATEWAY_API); \
	$(COMPILE) go run ./bench/router; \
	$(COMPILE) go run ./bench/gatewayroutes; \
	$(COMPILE) go run ./bench/routememory; \
	$(COMPILE) go run ./bench/request; \
	$(COMPILE) go run ./bench/propagation; \
	$(COMPILE) go run ./bench/demand; \
	$(COMPILE) go run ./bench/zero

# A folder with the source of the KEDA HTTP add-on. If it is set, `make bench-zero` measures its interceptor, too.
HTTP_ADD_ON ?=

.PHONY: bench-request
bench-request: tools-cluster ## [25 min] measure the cost of a request in a proxy, with and without stickiness, compared with a plain Envoy (ARGS=--blocks=24)
	$(CLUSTER) build
	$(ENVOY) $(COMPILE) go run ./bench/request $(ARGS)

.PHONY: bench-propagation
bench-propagation: tools-cluster ## [25 min] measure the propagation of a weight, compared with a bare server (ARGS='--tls --shapes=1x100')
	$(CLUSTER) build
	$(API_SERVER) $(ENVOY) $(COMPILE) go run ./bench/propagation $(ARGS)

# What the benchmarks of the routers leave as JSON: their limits are printed in one table.
ROUTER_BENCHES := router gatewayroutes controller routememory
BENCHED := $(CACHE)/bench/$(notdir $(CLUSTER_BIN))

.PHONY: bench-routers
bench-routers: tools-cluster ## [25 min] measure the routers, and print the values next to their limits in one table
	$(CLUSTER) build
	@mkdir -p $(BENCHED) && rm -f $(ROUTER_BENCHES:%=$(BENCHED)/%.json)
	export $(API_SERVER) $(GATEWAY_API) $(CONTROLLERS); \
	$(foreach b,$(ROUTER_BENCHES),$(COMPILE) go run ./bench/$(b) --json $(BENCHED)/$(b).json || test -s $(BENCHED)/$(b).json;) \
	$(COMPILE) go run ./bench/routers $(ROUTER_BENCHES:%=$(BENCHED)/%.json)

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
