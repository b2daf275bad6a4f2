##@ Images and releases

# The names of this project's images: IMAGE_REPO/argo-rollouts-plugin/interceptor:IMAGE_TAG. The default is
# config.Registry.
IMAGE_REPO ?= ghcr.io/kedify
IMAGE_TAG  ?= dev
IMAGES     := $(CACHE)/images/$(notdir $(CLUSTER_BIN))
IMAGE_ARGS  = --registry $(IMAGE_REPO) --tag $(IMAGE_TAG) --release $(VERSION:v%=%) --revision $(shell git rev-parse HEAD 2>/dev/null)
# The clusters that `make k3d-import` and `make kind-load` load images into.
K3D_CLUSTER  ?= k3s-default
KIND_CLUSTER ?= kind

.PHONY: docker-build
docker-build: tools-cluster ## [5 min] build all images for amd64 and arm64, and load those for this machine into Docker, if it runs (IMAGE_REPO=)
	$(CLUSTER) images $(IMAGE_ARGS) $(IMAGES)
	@if docker info >/dev/null 2>&1; then docker load --input $(IMAGES)/images.tar; \
		else echo "no Docker runs here: $(IMAGES)/images.tar is for docker load, $(IMAGES)/oci for skopeo, crane, podman"; fi

.PHONY: sizes
sizes: ## [1 min] print the sizes of binaries and images next to their limits, and fail above one
	cd localcluster && $(COMPILE) $(TESTS) -count=1 -v -run='^TestSizesStayWithinTheirLimits$$' ./cmd/localcluster

.PHONY: image-push
image-push: tools-cluster ## build all images and push them, with the credentials of docker login (IMAGE_REPO= IMAGE_TAG=)
	$(CLUSTER) images --push $(IMAGE_ARGS) $(IMAGES)

.PHONY: k3d-import
k3d-import: docker-build ## load the images into a cluster of k3d (K3D_CLUSTER=, needs Docker)
	k3d image import $(IMAGES)/images.tar --cluster $(K3D_CLUSTER)

.PHONY: kind-load
kind-load: docker-build ## load the images into a cluster of kind (KIND_CLUSTER=, needs Docker)
	kind load image-archive $(IMAGES)/images.tar --name $(KIND_CLUSTER)

.PHONY: goreleaser
goreleaser: $(GORELEASER) ## [4 min once] build GoReleaser

# GoReleaser omits the commit if no remote is configured, as in a clone of a folder.
ORIGIN = $(if $(shell git remote),,GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/kedify/argo-rollouts-plugin)

.PHONY: check-release
check-release: $(GORELEASER) ## check GoReleaser's configuration
	$(ORIGIN) $(GORELEASER) check

# The files of the manifests: GoReleaser's hook writes them as well.
.PHONY: manifests
manifests: tools-cluster ## write bin/config.tar.gz and bin/install.yaml with the images of a release (VERSION=)
	$(CLUSTER_BIN)/release manifests --of=$(VERSION:v%=%) bin

# What GoReleaser does not write after it has built the files: the checksum of Krew's manifest, and the notes.
finish = cp dist/krew/http-canary.yaml dist && cd dist && sha256sum http-canary.yaml >>checksums.txt && cd .. && $(CLUSTER_BIN)/release notes dist

.PHONY: snapshot
snapshot: $(GORELEASER) tools-cluster ## [3 min] build a release of this commit in ./dist, without signatures
	$(ORIGIN) PATH="$(CLUSTER_BIN):$$PATH" $(GORELEASER) release --snapshot --clean
	$(finish)

.PHONY: release
release: $(GORELEASER) tools-cluster ## build the files of a tag's release in ./release, as the release workflow does: binaries, SBOMs, archives, chart, manifests, checksums, notes
	$(CLUSTER_BIN)/release check --of=$(VERSION:v%=%)
	$(ORIGIN) PATH="$(CLUSTER_BIN):$$PATH" $(GORELEASER) release --clean --skip=publish
	$(finish)
	rm -rf release && mkdir release
	cp dist/checksums.txt release
	for name in $$(awk '{ print $$2 }' dist/checksums.txt); do find dist bin . -maxdepth 1 -name "$$name" -print -quit | xargs cp --target-directory=release; done
	cd release && sha256sum --check --strict --quiet checksums.txt

$(GORELEASER):
	@echo "building goreleaser (about 4 minutes, once)"
	$(COMPILE) $(GREED) go -C tools/goreleaser build -buildvcs=false -ldflags='-s -w' -o $@ github.com/goreleaser/goreleaser/v2
