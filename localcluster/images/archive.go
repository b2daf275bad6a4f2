package images

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Index is one image for several processors.
type Index struct {
	// Name is the image's full name, with registry and tag.
	Name string
	// Images are the images by processor, named as GOARCH.
	Images map[string]v1.Image
	// Index refers to all of them.
	Index v1.ImageIndex
}

// BuildIndex builds an image from one description per processor.
func BuildIndex(fullName string, specs map[string]Spec) (Index, error) {
	out := Index{
		Name: fullName, Images: map[string]v1.Image{}, Index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
	}
	for _, architecture := range slices.Sorted(maps.Keys(specs)) {
		image, err := BuildCompressed(specs[architecture], architecture)
		if err != nil {
			return Index{}, err
		}
		out.Images[architecture] = image
		out.Index = mutate.AppendManifests(out.Index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	return out, nil
}

// SaveLayout writes images to a folder as an OCI image layout, which skopeo, crane, podman and buildah read. The folder
// must not exist yet.
func SaveLayout(all []Index, folder string) error {
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return fmt.Errorf("create the image layout %s: %w", folder, err)
	}
	for _, index := range all {
		// The OCI image specification (annotations.md) defines this key for a tag.
		named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": index.Name})
		if err := path.AppendIndex(index.Index, named); err != nil {
			return fmt.Errorf("write image %s to %s: %w", index.Name, folder, err)
		}
	}
	return nil
}

// SaveArchive writes the images for one processor to one file, in the format of `docker save`.
func SaveArchive(all []Index, architecture, file string) error {
	tagged := map[name.Tag]v1.Image{}
	for _, index := range all {
		tag, err := name.NewTag(index.Name)
		if err != nil {
			return fmt.Errorf("name of image %s: %w", index.Name, err)
		}
		tagged[tag] = index.Images[architecture]
	}
	if err := tarball.MultiWriteToFile(file, tagged); err != nil {
		return fmt.Errorf("write the images to %s: %w", file, err)
	}
	return nil
}

// Size is the number of bytes that a node pulls for its processor: compressed layers, configuration and manifest.
func Size(image v1.Image) (int64, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return 0, fmt.Errorf("read the manifest: %w", err)
	}
	manifestSize, err := image.Size()
	if err != nil {
		return 0, fmt.Errorf("size of the manifest: %w", err)
	}
	total := manifestSize + manifest.Config.Size
	for _, layer := range manifest.Layers {
		total += layer.Size
	}
	return total, nil
}
