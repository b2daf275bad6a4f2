# The stages of CI and what each one needs. Two run side by side where one of them
# compiles and the other compiles or waits for something to start or to end. From
# the shared cluster on next to nothing is compiled. What is not here is a make
# target of its own: make test-keda takes the scaler away from everybody else.

STAGE := .ci/stage
# A stage that has passed with the same programs, manifests and cluster is not run again.
KEPT  := .ci/kept
MAKE_ := env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory
# All that is tested on a cluster from outside is tested on this one.
SHARED := E2E_SHARED=1 BUILT=1

.PHONY: all quick
all: faults
quick: demo-quick

# Compiling, and what waits. Whatever runs on the cluster is compiled before.

# What shares libraries is compiled by one after the other: side by side each would compile them for itself.

.PHONY: linter parts gateway-parts lint docs unit suites residue inside outside
parts:
	@$(STAGE) $@ $(MAKE_) parts
linter:
	@$(STAGE) $@ $(MAKE_) linter
gateway-parts: linter
	@$(STAGE) $@ $(MAKE_) gateway-parts
lint: linter parts gateway-parts
	@$(STAGE) $@ $(MAKE_) lint
docs: lint
	@$(STAGE) $@ $(MAKE_) test-site test-rules
unit: lint parts
	@$(STAGE) $@ $(MAKE_) test-unit
suites: unit
	@$(STAGE) $@ $(MAKE_) suites
residue: parts
	@$(KEPT) $@ '' '' $(MAKE_) test-cluster
# What measures is among these: they are alone.
inside: residue suites docs
	@$(STAGE) $@ $(MAKE_) test-inside
outside: inside
	@$(STAGE) $@ $(MAKE_) test-outside

# On the shared cluster all mostly waits for pods and pauses, and judges splits, replicas and failed requests, not
# times. The cluster itself takes an eighth of two processors, so it starts late. Two lanes are side by side: with a third one
# they were busy nine tenths of the time, and all took a fifth longer. First canaries through kedify-proxy, and the wiring of
# backends; then the guides of the Gateway API, one at a time, and the demo's halves, each from its own start: right behind the first
# one the second waits a minute for replicas to go. The agents are killed in autowire, and restore every Ingress of the cluster, and the
# interceptors are replaced in one of the canaries, by which every proxy takes its listener once more: neither may be beside the demo.
# When a header route goes, Envoy Gateway deletes its cluster before the last worker of Envoy has the route without it, and the window grows with the
# load: so the guides are not beside canaries. Mutants come when no proxy of the interceptor's may learn from them. Faults come last and alone: they end what all need, and whatever
# watches the API server backs off for up to a minute afterwards.

.PHONY: cluster demo canary mutants gateway autowire scaling faults
cluster: inside
	@$(STAGE) $@ $(MAKE_) cluster-up-shared
autowire: cluster outside
	@$(KEPT) $@ ./e2e/suites/autowire docs/autowire.md $(MAKE_) test-autowire AUTOWIRE=TestAutowire $(SHARED)
demo: autowire canary
	@$(STAGE) $@ $(MAKE_) demo ARGS=--only=canary
scaling: demo
	@$(STAGE) $@ $(MAKE_) demo ARGS=--only=scaling
canary: cluster outside
	@$(STAGE) $@ $(MAKE_) test-canary CANARY=TestCanary $(SHARED)
gateway: canary
	@$(KEPT) $@ ./e2e/suites/gateway '' $(MAKE_) test-gateway GATEWAY_WALKS='my-app,connections,bookinfo,bookinfo on Traefik' $(SHARED)
mutants: scaling canary
	@$(KEPT) $@ ./e2e/suites/mutants '' $(MAKE_) test-mutants $(SHARED)
faults: mutants gateway
	@$(STAGE) $@ $(MAKE_) faults FAULTS_ROUNDS=1 $(SHARED)

# The inner loop: what is compiled, our own goroutines among real parts, and one canary by the built programs.

.PHONY: inside-quick demo-quick
inside-quick: unit
	@$(STAGE) inside $(MAKE_) test-inside
demo-quick: inside-quick
	@$(STAGE) demo $(MAKE_) demo ARGS=--only=canary
