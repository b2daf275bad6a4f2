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

# Compiling, and what waits. Whatever runs on the cluster is compiled before. What shares libraries is compiled by one
# after the other: side by side each would compile them for itself. What nothing waits for soon gets less of the processors: of
# two lanes of compilers the short one a quarter, by which both end at about the same time, and the linter only what
# tests leave that wait.

LOW  := nice -n 5
IDLE := .ci/idle

.PHONY: programs parts gateway-parts linter docs unit suites residue inside outside
programs:
	@$(STAGE) $@ $(MAKE_) tools-cluster
parts: programs
	@$(STAGE) $@ $(MAKE_) parts
gateway-parts: programs
	@$(STAGE) $@ $(LOW) $(MAKE_) gateway-parts
linter: parts gateway-parts
	@$(STAGE) $@ $(IDLE) $(MAKE_) linter
docs: parts gateway-parts
	@$(STAGE) $@ $(MAKE_) test-site test-rules
unit: parts gateway-parts
	@$(STAGE) $@ $(MAKE_) test-unit
suites: unit
	@$(STAGE) $@ $(MAKE_) suites
residue: parts gateway-parts
	@$(KEPT) $@ '' '' $(MAKE_) test-cluster
# What measures is among these: they are alone.
inside: residue suites docs linter
	@$(STAGE) $@ $(MAKE_) test-inside
outside: inside
	@$(STAGE) $@ $(MAKE_) test-outside

# On the shared cluster all mostly waits for pods and pauses, and judges splits, replicas and failed requests, not
# times. The cluster itself takes an eighth of two processors, so it starts late. Two lanes are side by side: with a third one
# they were busy nine tenths of the time, and all took a fifth longer. First canaries through kedify-proxy, and the wiring of
# backends; then the guides of the Gateway API, one at a time, and the demo's halves, each from its own start: right behind the first
# one the second waits a minute for replicas to go. The agents are killed in autowire, and restore every Ingress of the cluster, and the
# interceptors are replaced in rollover, by which every proxy takes its listener once more: neither may be beside the demo.
# When a header route goes, Envoy Gateway deletes its cluster before the last worker of Envoy has the route without it, and the window grows with the
# load: so the guides are not beside canaries. Mutants come when no proxy of the interceptor's may learn from them. Faults come last and alone: they end what all need, and whatever
# watches the API server backs off for up to a minute afterwards.

.PHONY: cluster autowire rollover canary demo scaling gateway mutants faults
cluster: inside
	@$(STAGE) $@ $(MAKE_) cluster-up-shared
autowire: cluster outside
	@$(KEPT) $@ ./e2e/suites/autowire docs/autowire.md $(MAKE_) test-autowire AUTOWIRE=TestAutowire $(SHARED)
rollover: cluster outside
	@$(STAGE) $@ $(MAKE_) test-canary CANARY=TestRollover $(SHARED)
canary: rollover
	@$(STAGE) $@ $(MAKE_) test-canary CANARY=TestCanary $(SHARED)
demo: autowire rollover
	@$(STAGE) $@ $(MAKE_) demo ARGS=--only=canary
scaling: demo
	@$(STAGE) $@ $(MAKE_) demo ARGS=--only=scaling
gateway: canary
	@$(KEPT) $@ ./e2e/suites/gateway '' $(MAKE_) test-gateway GATEWAY_WALKS='my-app,connections,bookinfo,bookinfo on Traefik' $(SHARED)
mutants: scaling canary
	@$(KEPT) $@ ./e2e/suites/mutants '' $(MAKE_) test-mutants $(SHARED)
faults: mutants gateway lint
	@$(STAGE) $@ $(MAKE_) faults FAULTS_ROUNDS=1 $(SHARED)

# Linters need much time and none of their own: they get what nobody else wants of the processors, beside the
# cluster's lanes, which leave a third. With a lower priority alone they took as much as the whole cluster, and requests waited for 5 s.

.PHONY: lint
lint: linter outside
	@$(STAGE) $@ $(IDLE) $(MAKE_) lint

# The inner loop: what is compiled, what linters find, our own goroutines among real parts, and one canary by the built programs.

.PHONY: lint-quick inside-quick demo-quick
lint-quick: linter
	@$(STAGE) lint $(MAKE_) lint
inside-quick: unit lint-quick
	@$(STAGE) inside $(MAKE_) test-inside
demo-quick: inside-quick
	@$(STAGE) demo $(MAKE_) demo ARGS=--only=canary
