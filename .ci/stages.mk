# The stages of CI and what each one needs. Two run side by side where one of them
# compiles and the other compiles or waits for something to start or to end. From
# the shared cluster on next to nothing is compiled. What is not here is a make
# target of its own: make test-keda takes the scaler away from everybody else.

STAGE := .ci/stage
MAKE_ := env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory
# All that is tested on a cluster from outside is tested on this one.
SHARED := E2E_SHARED=1

.PHONY: all quick
all: faults
quick: demo-quick

# Compiling, and what waits. Whatever runs on the cluster is compiled before.

.PHONY: linter parts lint docs unit suites residue real
linter:
	@$(STAGE) $@ $(MAKE_) linter
parts:
	@$(STAGE) $@ $(MAKE_) parts
lint: linter
	@$(STAGE) $@ $(MAKE_) lint
docs: lint
	@$(STAGE) $@ $(MAKE_) test-site test-rules
unit: lint parts
	@$(STAGE) $@ $(MAKE_) test-unit
suites: unit
	@$(STAGE) $@ $(MAKE_) suites
residue: parts
	@$(STAGE) $@ $(MAKE_) test-cluster
# What measures in it measures alone.
real: residue suites docs
	@$(STAGE) $@ $(MAKE_) test-parts

# On the shared cluster there are two lanes: canaries through kedify-proxy, then the wiring of backends
# and the demo's two halves; and the guides of the Gateway API, one at a time. All mostly wait for pods
# and pauses, and judge splits, replicas and failed requests, not times. With a third one beside them two
# processors were so busy that everything stood still for seconds, clients included. Mutants come when
# no other proxy may learn from them. Faults come last and alone: they end what all need, and whatever
# watches the API server backs off for up to a minute afterwards.

.PHONY: cluster demo canary mutants gateway autowire scaling faults
cluster: residue
	@$(STAGE) $@ $(MAKE_) cluster-up-shared
scaling: demo
	@$(STAGE) $@ $(MAKE_) demo ARGS=--only=scaling
# Bookinfo comes first, before the demo: when a
# header route goes, Envoy Gateway deletes its cluster before the last worker of
# Envoy has the route without it, and the window grows with the load.
gateway: cluster real
	@$(STAGE) $@ $(MAKE_) test-gateway GATEWAY_WALKS='bookinfo,my-app,connections,bookinfo on Traefik' $(SHARED)
canary: cluster real
	@$(STAGE) $@ $(MAKE_) test-canary CANARY=TestCanary $(SHARED)
# The agents are killed, and restore every Ingress of the cluster, so not beside the demo.
autowire: canary
	@$(STAGE) $@ $(MAKE_) test-autowire AUTOWIRE=TestAutowire $(SHARED)
mutants: scaling
	@$(STAGE) $@ $(MAKE_) test-mutants $(SHARED)
demo: autowire
	@$(STAGE) $@ $(MAKE_) demo ARGS=--only=canary
faults: mutants gateway
	@$(STAGE) $@ $(MAKE_) faults FAULTS_ROUNDS=1 $(SHARED)

# The inner loop: what is compiled, real parts, and one canary.

.PHONY: real-quick demo-quick
real-quick: unit
	@$(STAGE) real $(MAKE_) test-parts
demo-quick: real-quick
	@$(STAGE) demo $(MAKE_) demo ARGS=--only=canary
