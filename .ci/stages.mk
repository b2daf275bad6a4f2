# The stages of CI and what each one needs. Two run side by side where one of them
# compiles and the other compiles or waits for something to start or to end. What
# is measured, or has a clock, runs alone, and from the shared cluster on nothing is
# compiled.

STAGE := .ci/stage
MAKE_ := env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory
# All that is tested on a cluster from outside is tested on this one.
SHARED := E2E_SHARED=1

.PHONY: all quick
all: gateway
quick: demo-quick

# Compiling, and what waits.

.PHONY: linter parts lint unit suites residue real
linter:
	@$(STAGE) $@ $(MAKE_) linter
parts:
	@$(STAGE) $@ $(MAKE_) parts
lint: linter
	@$(STAGE) $@ $(MAKE_) lint
unit: lint parts
	@$(STAGE) $@ $(MAKE_) test-unit
suites: unit
	@$(STAGE) $@ $(MAKE_) suites
residue: parts
	@$(STAGE) $@ $(MAKE_) test-cluster
real: residue suites
	@$(STAGE) $@ $(MAKE_) test-parts

# Measuring, one after the other.

.PHONY: cluster demo canary mutants faults gateway
cluster: real
	@$(STAGE) $@ $(MAKE_) cluster-up-shared
demo: cluster
	@$(STAGE) $@ $(MAKE_) demo
canary: demo
	@$(STAGE) $@ $(MAKE_) test-canary $(SHARED)
mutants: canary
	@$(STAGE) $@ $(MAKE_) test-mutants $(SHARED)
faults: mutants
	@$(STAGE) $@ $(MAKE_) faults FAULTS_ROUNDS=1 $(SHARED)
gateway: faults
	@$(STAGE) $@ $(MAKE_) test-gateway GATEWAY_WALKS='my-app,bookinfo,connections,bookinfo on Traefik' $(SHARED)

# The inner loop: what is compiled, real parts, and one canary.

.PHONY: real-quick demo-quick
real-quick: unit
	@$(STAGE) real $(MAKE_) test-parts
demo-quick: real-quick
	@$(STAGE) demo $(MAKE_) demo
