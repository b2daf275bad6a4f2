package rehearsal

import (
	"archive/tar"
	"errors"
	"io"
	"path"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
)

// reference returns the reference of an image in the registry, by its name below the organization.
func (r *rehearsed) reference(t *testing.T, image string) name.Reference {
	t.Helper()
	reference, err := name.ParseReference(r.registry + "/" + product.Organization + "/" + image + ":" + r.version)
	if err != nil {
		t.Fatal(err)
	}
	return reference
}

// published returns the name of an image of the release.
func (r *rehearsed) published(image string) string {
	return product.Registry + "/" + product.Organization + "/" + image + ":" + r.version
}

// push copies an image of the OCI layout to the registry, for all platforms and with its digest, as the workflow does.
func (r *rehearsed) push(t *testing.T, image string) v1.Hash {
	t.Helper()
	saved, err := layout.ImageIndexFromPath(filepath.Join(r.images, "oci"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := saved.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, described := range manifest.Manifests {
		if described.Annotations["org.opencontainers.image.ref.name"] != r.published(image) {
			continue
		}
		index, err := saved.ImageIndex(described.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.WriteIndex(r.reference(t, image), index, remote.WithContext(t.Context())); err != nil {
			t.Fatal(err)
		}
		return described.Digest
	}
	t.Fatalf("the layout has no image %s", r.published(image))
	return v1.Hash{}
}

// testImages: each image can be pulled from the registry for both platforms, by the digest of the layout. It has the
// labels of the release, runs as a user without privileges, and contains its programs and licenses only.
func (r *rehearsed) testImages(t *testing.T) {
	for _, image := range product.Published() {
		pushed := r.push(t, image)
		index, err := remote.Index(r.reference(t, image), remote.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if pulled, err := index.Digest(); err != nil || pulled != pushed {
			t.Errorf("%s: digest %v in the registry, want %v: %v", image, pulled, pushed, err)
		}
		for _, architecture := range []string{"amd64", "arm64"} {
			pulled, err := remote.Image(r.reference(t, image), remote.WithContext(t.Context()),
				remote.WithPlatform(v1.Platform{OS: "linux", Architecture: architecture}))
			if err != nil {
				t.Fatalf("%s for %s: %v", image, architecture, err)
			}
			r.checkImage(t, image, pulled)
		}
	}
}

// checkImage checks an image for one platform.
func (r *rehearsed) checkImage(t *testing.T, image string, pulled v1.Image) {
	t.Helper()
	config, err := pulled.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	labels := product.Release{Version: r.version, Revision: r.revision}.Labels(image)
	if diff := cmp.Diff(labels, config.Config.Labels); diff != "" || config.Config.User != product.NonRoot {
		t.Errorf("%s: user %q, labels (-want +got):\n%s", image, config.Config.User, diff)
	}
	files := filesOf(t, pulled)
	want := []string{"licenses/LICENSE", "licenses/NOTICE", "licenses/" + thirdParty}
	for _, program := range product.Programs(image) {
		want = append(want, string(program))
	}
	for _, file := range want {
		if _, found := files[file]; !found {
			t.Errorf("%s lacks %s", image, file)
		}
	}
	if len(files) != len(want) {
		t.Errorf("%s has %d files, want %d", image, len(files), len(want))
	}
	checkBill(t, filepath.Join(r.images, "sbom", path.Base(image)+".cdx.json"), files["licenses/"+thirdParty])
}

// filesOf returns the contents of the files of an image below licenses, and the names of its other files. Hard links
// are omitted.
func filesOf(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	stream := mutate.Extract(image)
	defer stream.Close()
	files := map[string]string{}
	for reader := tar.NewReader(stream); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		files[header.Name] = ""
		if path.Dir(header.Name) == "licenses" {
			text, err := io.ReadAll(reader)
			if err != nil {
				t.Fatal(err)
			}
			files[header.Name] = string(text)
		}
	}
}
