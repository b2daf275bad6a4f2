##@ Generated files and documents

# What a run of the demo printed, for `make picture`: one file, or one for each half.
LOG ?=

.PHONY: generate
generate: ## generate deep copies and the CRD from api/, and Go code from .proto files
	go tool -modfile=tools/controller-gen/go.mod controller-gen object:headerFile=/dev/null paths=./api/... crd paths=./api/... output:crd:dir=config/crd
	go tool -modfile=tools/controller-gen/go.mod controller-gen object:headerFile=/dev/null paths=./internal/agent/apis
	go run -C tools/protogen . $(CURDIR) internal/controlplane/status/peers/peerspb/replicas.proto
	go run -C tools/protogen . $(CURDIR) internal/scaler/externalscaler/externalscaler.proto

.PHONY: reference
reference: ## write the generated parts of docs/reference
	$(COMPILE) go test -vet=off ./test/docs -run=Reference -update
	$(COMPILE) go test -vet=off ./internal/cli/doctor -run=Troubleshooting -update
	$(COMPILE) go test -vet=off ./internal/cli/doctor -update
	$(COMPILE) go test -vet=off ./test/refusals -run='^TestDocument$$' -update
	$(COMPILE) go test -vet=off ./test/wrongsetups -run='^TestDocument$$' -update

.PHONY: versions
versions: tools-cluster ## [20 s] ask the module proxy for newer versions than docs/dev/versions.md lists
	$(CLUSTER_BIN)/release versions docs/dev/versions.md

.PHONY: picture
picture: ## draw the animated picture of the README (LOG="demo.log" is the output of another run of make demo)
	$(if $(LOG),$(COMPILE) go run ./e2e/cmd/picture record $(LOG) >$(CLUSTER_BIN)/demo.txt && cp $(CLUSTER_BIN)/demo.txt docs/pictures/demo.txt)
	$(COMPILE) go run ./e2e/cmd/picture draw docs/pictures/demo.txt

.PHONY: site
site: $(SITE)/bin/zensical ## build the site of docs/ into dist/site
	python3 tools/site/site.py prepare . dist/site-source
	$(SITE)/bin/zensical build --strict -f dist/site-source/zensical.toml
	@rm -rf dist/site && mv dist/site-source/site dist/site && rm -rf dist/site-source

.PHONY: test-site
test-site: site ## check that every link of the site works, and that it loads nothing from other hosts
	python3 tools/site/site.py check dist/site

.PHONY: test-rules
test-rules: ## [3 min once] evaluate the alerts and the queries of the dashboards with Prometheus' own code, and decode the objects of its operator
	cd tools/promrules && $(COMPILE) go run . rules $(CURDIR)/config/prometheus/rules.yaml && $(COMPILE) $(TESTS) .

# The metrics of a run, from which the pictures of the dashboards are drawn.
RECORDING := docs/pictures/dashboards.txt

.PHONY: dashboards-run
dashboards-run: tools-cluster ## [root, 8 min] run the demo, record the metrics of the components, and draw the dashboards from them
	$(COMPILE) go -C tools/promrules build -buildvcs=false -o $(CLUSTER_BIN)/promrules .
	result=0; CLUSTER_STATUS='$(CLUSTER) status --output json' $(CLUSTER_BIN)/promrules record $(RECORDING) -- \
		$(MAKE) --no-print-directory demo ARGS=--keep || result=1; $(CLUSTER) down; exit $$result
	@$(MAKE) --no-print-directory dashboards-picture

.PHONY: dashboards-picture
dashboards-picture: ## draw the pictures of the dashboards in docs, from the recorded run
	cd tools/promrules && $(COMPILE) go run . draw $(CURDIR)/$(RECORDING) $(CURDIR)/docs/pictures $(CURDIR)/config/grafana/*.json

# The packages whose tests define -update; go test fails without it. Those that write pages are in reference, and the
# suites need a cluster.
GOLDEN = $(addprefix ./,$(filter-out test/% e2e/suites/% internal/cli/doctor,$(shell grep -rl --include='*_test.go' 'flag.Bool."update"' internal cmd e2e | xargs -n 1 dirname | sort -u)))

.PHONY: golden
golden: ## write the golden files, and remove those that no test uses
	$(COMPILE) $(TESTS) $(GOLDEN) -update

.PHONY: chart
chart: $(HELM) ## [1 min] copy the CRD, the alerts and the dashboards into charts/kedify-http, and write its table of values and the golden files in test/chart
	cp config/crd/http.keda.sh_httpscaledobjects.yaml charts/kedify-http/files/crd.yaml
	cp config/crd/http.keda.sh_interceptorroutes.yaml charts/kedify-http/files/interceptorroutes-crd.yaml
	cp config/prometheus/rules.yaml charts/kedify-http/files/rules.yaml
	cp config/grafana/*.json charts/kedify-http/files/dashboards/
	$(HELM_ENV) $(COMPILE) $(TESTS) ./test/chart -update

# The tools are keyed by what pins them.
.PHONY: helm
helm: $(HELM) ## [2 min once] build Helm, with which the tests render charts/kedify-http

$(HELM):
	@echo "building helm (about 2 minutes, once)"
	$(COMPILE) $(GREED) go -C tools/helm build -buildvcs=false -ldflags='-s -w' -o $@ helm.sh/helm/v4/cmd/helm

$(SITE)/bin/zensical:
	python3 -m venv $(SITE)
	$(SITE)/bin/pip install --quiet --disable-pip-version-check --requirement tools/site/requirements.txt
