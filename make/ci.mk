##@ CI

# The stages are in tools/ci/stages.go. CI_ARGS=--list prints them, --fresh ignores the cache, --only=unit,demo selects some.
CI_ARGS ?=
CI = $(COMPILE) go build -buildvcs=false -o $(CLUSTER_BIN)/ci ./tools/ci && exec $(CLUSTER_BIN)/ci --cache '$(CACHE)' --chart '$(CHART)' --add-on '$(ADD_ON)' $(CI_ARGS)

.PHONY: ci
ci: ## [root, 12 min] run the checks that decide whether a change lands (.ci/run)
	@$(CI) landing

.PHONY: ci-quick
ci-quick: ## [root, 7 min] run the inner loop: lint, unit tests, tests under the race detector on real components, the demo's canary
	@$(CI) quick

.PHONY: ci-full
ci-full: ## [root, 2 h] run all stages; continues after an interruption
	@$(CI) full

.PHONY: compatibility
compatibility: ## [root, 2 h] run the stages that docs/reference/compatibility.md names, and print the result of each version (CI_ARGS=--only=keda-2.18,scenarios-1.9)
	@$(CI) --compatibility docs/reference/compatibility.md full

.PHONY: linter
linter: $(GOLANGCI) $(VALE) $(ACTIONLINT) ## [4 min once] build the linters

$(GOLANGCI):
	@echo "building golangci-lint (about 3 minutes, once)"
	$(COMPILE) $(GREED) go -C tools/golangci-lint build -ldflags='-s -w' -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

# Vale parses Go by tree-sitter, which is written in C.
$(VALE):
	@echo "building vale, the prose linter (about 1 minute, once)"
	CGO_ENABLED=1 CGO_CFLAGS='-O1 -w' go -C tools/vale build -buildvcs=false -ldflags='-s -w' -o $@ github.com/vale-cli/vale/v3/cmd/vale

$(ACTIONLINT):
	@echo "building actionlint (about 1 minute, once)"
	$(COMPILE) $(GREED) go -C tools/actionlint build -buildvcs=false -ldflags='-s -w' -o $@ github.com/rhysd/actionlint/cmd/actionlint

$(VULNCHECK):
	@echo "building govulncheck (about 1 minute, once)"
	$(COMPILE) $(GREED) go -C tools/govulncheck build -buildvcs=false -ldflags='-s -w' -o $@ golang.org/x/vuln/cmd/govulncheck

$(COSIGN):
	@echo "building cosign (about 3 minutes, once)"
	$(COMPILE) $(GREED) go -C tools/cosign build -buildvcs=false -ldflags='-s -w' -o $@ github.com/sigstore/cosign/v2/cmd/cosign

# Krew and its checker of manifests: $(KREW) is their folder.
$(KREW)/krew:
	@echo "building krew (about 10 seconds, once)"
	$(COMPILE) $(GREED) go -C tools/krew build -buildvcs=false -ldflags='-s -w' -o $(KREW)/ sigs.k8s.io/krew/cmd/validate-krew-manifest sigs.k8s.io/krew/cmd/krew
