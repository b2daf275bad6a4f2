package images

import (
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Save assembles the images and writes them to one file, in the format of
// `docker save`. Their names are those of a registry.
func Save(specs []Spec, registryHost, architecture, path string) error {
	all := map[name.Tag]v1.Image{}
	for _, spec := range specs {
		image, err := Build(spec, architecture)
		if err != nil {
			return err
		}
		for _, tag := range spec.Names {
			reference, err := name.NewTag(registryHost + "/" + tag)
			if err != nil {
				return fmt.Errorf("name of image %s: %w", tag, err)
			}
			all[reference] = image
		}
	}
	if err := tarball.MultiWriteToFile(path, all); err != nil {
		return fmt.Errorf("write the images to %s: %w", path, err)
	}
	return nil
}
