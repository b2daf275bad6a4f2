# The stages of CI and what each one needs. Two run side by side as long as they
# compile, or wait for something to start or to end. From the shared cluster on,
# one runs after the other and nothing is compiled: they measure.

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
unit: lint
	@$(STAGE) $@ $(MAKE_) test-unit
suites: unit parts
	@$(STAGE) $@ $(MAKE_) suites
residue: parts
	@$(STAGE) $@ $(MAKE_) test-cluster
real: parts residue
	@$(STAGE) $@ $(MAKE_) test-parts

# Measuring, one after the other.

.PHONY: cluster demo canary mutants faults gateway
cluster: suites residue real
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
real-quick: parts
	@$(STAGE) real $(MAKE_) test-parts
demo-quick: unit real-quick
	@$(STAGE) demo $(MAKE_) demo
